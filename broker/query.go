package broker

import (
	"cmp"
	"context"
	"runtime/debug"
	"slices"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// uniqueSlack is by how much a message may have been stored before the time in its
// unique key, in ms: the two clocks differ.
//
// Source: RocketMQ client/impl/MQAdminImpl.java, queryMessageByUniqKey.
const uniqueSlack = 1000

// QueryMessage finds messages by key.
//
// Source: RocketMQ broker/processor/QueryMessageProcessor.java, queryMessage.
func (b *Broker) QueryMessage(ctx context.Context, req protocol.QueryMessageRequest) ([]message.MessageExt, error) {
	if _, err := b.existing(req.Topic); err != nil {
		return nil, err
	}
	if err := checkQuery(&req); err != nil {
		return nil, err
	}
	var found []message.MessageExt
	var err error
	if req.Unique {
		found, err = b.firstStored(ctx, req.Topic, req.Key)
	} else {
		found, err = b.byKey(ctx, store.KeyQuery{
			Topic: req.Topic, Key: req.Key, MaxNum: cmp.Or(req.MaxNum, protocol.DefaultQueryNum), Begin: req.Begin, End: req.End,
		}, hasWord)
	}
	if err == nil && len(found) == 0 {
		err = refuse(protocol.QueryNotFound, "no message with key "+req.Key+" in topic "+req.Topic, nil)
	}
	return found, err
}

func checkQuery(req *protocol.QueryMessageRequest) error {
	if req.Key == "" {
		return refuse(protocol.SystemError, "", &message.IllegalError{Field: "key", Reason: "is empty"})
	}
	for _, f := range [...]struct {
		name  string
		value int64
		unit  string
	}{{"maxNum", int64(req.MaxNum), "messages"}, {"begin", req.Begin, "ms"}, {"end", req.End, "ms"}} {
		if f.value < 0 {
			return negative(f.name, f.value, f.unit)
		}
	}
	if req.End > 0 && req.Begin > req.End {
		return refuse(protocol.SystemError, "", &message.LimitError{Field: "begin (after end)", Limit: req.End, Value: req.Begin, Unit: "ms"})
	}
	return nil
}

// firstStored finds the message with a unique key that was stored first. It looks
// from the time in the key on, and at all times when that leads to none: the key
// may be of another form, older than a month, or of another time zone.
func (b *Broker) firstStored(ctx context.Context, topic, key string) ([]message.MessageExt, error) {
	q := store.KeyQuery{Topic: topic, Key: key}
	if made, err := message.UniqueIDTime(key, b.now()); err == nil {
		q.Begin = max(0, made.UnixMilli()-uniqueSlack)
	}
	for {
		first, err := b.earliest(ctx, q)
		if err != nil || len(first) > 0 || q.Begin == 0 {
			return first, err
		}
		q.Begin = 0
	}
}

// earliest is the first of all messages of a query; the answers are the newest ones,
// so it asks for older ones as long as there are.
func (b *Broker) earliest(ctx context.Context, q store.KeyQuery) ([]message.MessageExt, error) {
	var first []message.MessageExt
	for {
		found, err := b.byKey(ctx, q, hasUniqueKey)
		if err != nil || len(found) == 0 {
			return first, err
		}
		oldest := &found[0]
		first = found[:1]
		if q.End = oldest.StoreTimestamp - 1; q.End < max(q.Begin, 1) {
			return first, nil
		}
	}
}

// hasWord and hasUniqueKey tell the two kinds of keys apart, which share an index.
func hasWord(m *message.MessageExt, key string) bool { return slices.Contains(m.Keys(), key) }

func hasUniqueKey(m *message.MessageExt, key string) bool { return m.UniqueKey() == key }

// byKey is store.QueryMessage, copied, without what lacks the key or is of a topic
// that was deleted.
func (b *Broker) byKey(ctx context.Context, q store.KeyQuery, hasKey func(*message.MessageExt, string) bool) (found []message.MessageExt, err error) {
	r, err := b.store.QueryMessage(ctx, q)
	if r == nil {
		if ctx.Err() == nil {
			err = readError(err)
		}
		return nil, err
	}
	defer r.Release()
	if err != nil { // an index file can not be read: it is not known what is missing
		return nil, readError(err)
	}
	before := b.topics.deletedBefore(q.Topic)
	for _, v := range r.Messages {
		m, err := copyMessage(v)
		if err != nil {
			return nil, readError(err)
		}
		if m.LogOffset >= before && hasKey(&m, q.Key) {
			found = append(found, m)
		}
	}
	return found, nil
}

// copyMessage copies a message out of mapped memory, and compares it with its
// checksums.
func copyMessage(v message.View) (m message.MessageExt, err error) {
	defer message.CatchFault(debug.SetPanicOnFault(true), &err)
	if err := v.Check(); err != nil {
		return m, err
	}
	return v.Message(), nil
}
