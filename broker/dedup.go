package broker

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// DefaultDedupMessages is DedupWindow.Messages where only a Duration is given.
const DefaultDedupMessages = 1 << 17

// DedupWindow says for how long the broker knows a message again by its topic and
// its unique key, which all attempts of a producer to send it have in common. A
// message that is known is not stored again: the answer is a success with the ids,
// the queue and the time of the first one, under FlushSync not before that one is
// on disk. Whoever sends a message while it is being sent waits for the outcome.
//
// The message itself is looked at before one is taken for known, so none is lost
// to a hash. One that retention has removed, or that can not be read, is not known.
// After a restart the window is made again from the log, of which the last GiB is
// read at most.
//
// Not looked at are messages without a unique key, of transactions, and to topics
// of retries, dead letters and the system. A batch is known when all of its
// messages are, stored one after the other; else all of it is stored. What a producer
// sends again to another broker is not known there.
type DedupWindow struct {
	// Messages is how many of the newest messages are known. Each takes up to 32
	// bytes of memory. With a Duration only it is DefaultDedupMessages.
	Messages int
	// Duration is how old a message may be, by its store time; 0: any.
	Duration time.Duration
}

func (w DedupWindow) withDefaults() DedupWindow {
	if w.Messages == 0 && w.Duration != 0 {
		w.Messages = DefaultDedupMessages
	}
	return w
}

func (w DedupWindow) validate() error {
	var errs []error
	if w.Messages < 0 || w.Messages > math.MaxInt32 {
		errs = append(errs, &message.LimitError{Field: "Config.Dedup.Messages", Limit: math.MaxInt32, Value: int64(w.Messages), Unit: "messages"})
	}
	if w.Duration < 0 {
		errs = append(errs, &message.LimitError{Field: "Config.Dedup.Duration (negative)", Value: int64(w.Duration), Unit: "ns"})
	}
	return errors.Join(errs...)
}

// dedup knows the newest messages. Its methods may be called concurrently.
type dedup struct {
	store    *store.DefaultMessageStore
	now      func() time.Time
	duration time.Duration
	deleted  func(topic string) message.LogOffset // before which no message is the topic's
	repeated atomic.Int64

	mu     sync.Mutex
	recent *recentKeys
	claims map[uint64]chan struct{} // of keys that are being stored; closed when that has ended
}

// openDedup makes the window again from the log; nil when it is off.
func openDedup(ctx context.Context, cfg Config, topics *topicTable) (*dedup, error) {
	if cfg.Dedup.Messages == 0 {
		return nil, nil
	}
	d := &dedup{
		store: cfg.Store, now: cfg.Now, duration: cfg.Dedup.Duration, deleted: topics.deletedBefore,
		recent: newRecentKeys(cfg.Dedup.Messages), claims: map[uint64]chan struct{}{},
	}
	return d, d.rebuild(ctx)
}

// Repeated is how many messages were sent again within Config.Dedup since the
// broker was opened, and not stored again.
func (b *Broker) Repeated() int64 {
	if b.dedup == nil {
		return 0
	}
	return b.dedup.repeated.Load()
}

// uniqueKey is what a message is known by.
type uniqueKey struct {
	topic, key string
	hash       uint64
}

func newUniqueKey(topic, key string) uniqueKey {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(topic)
	_, _ = d.WriteString("\x00")
	_, _ = d.WriteString(key)
	return uniqueKey{topic, key, d.Sum64()}
}

// keyOfSend is the key of a message that a client sends to a topic.
func keyOfSend(topic string, flag message.SysFlag, p message.Properties) (uniqueKey, bool) {
	key, _ := p.Get(message.PropertyUniqueKey)
	if key == "" || flag.Transaction() != message.TransactionNone || protocol.IsSystemTopic(topic) ||
		strings.HasPrefix(topic, protocol.RetryPrefix) || strings.HasPrefix(topic, protocol.DeadLetterPrefix) {
		return uniqueKey{}, false
	}
	if half, _ := p.Get(propertyTransaction); strings.EqualFold(half, "true") {
		return uniqueKey{}, false
	}
	return newUniqueKey(topic, key), true
}

// keyOfRecord is the key of a record as it was sent: while it waits in a topic of
// the broker, with the topic that it is for. What the broker has put itself, the
// copy that is delivered of such a record, has none.
func keyOfRecord(topic string, flag message.SysFlag, p message.Properties) (uniqueKey, bool) {
	realTopic, moved := p.Get(message.PropertyRealTopic)
	switch waiting := protocol.IsSystemTopic(topic); {
	case topic == halfTopic, waiting != moved:
		return uniqueKey{}, false
	case waiting:
		topic = realTopic
	}
	return keyOfSend(topic, flag, p)
}

// realQueue is the queue that a record is for.
func realQueue(m *message.MessageExt) int32 {
	if text, ok := m.Properties.Get(message.PropertyRealQueueID); ok {
		if id, err := strconv.ParseInt(text, 10, 32); err == nil {
			return int32(id)
		}
	}
	return m.QueueID
}

// claim waits until nobody stores a message with one of the keys, and then has
// them until release.
func (d *dedup) claim(ctx context.Context, keys []uniqueKey) error {
	for {
		busy := d.tryClaim(keys)
		if busy == nil {
			return nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryClaim claims all keys, or returns what to wait for.
func (d *dedup) tryClaim(keys []uniqueKey) (busy chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range keys {
		if busy := d.claims[k.hash]; busy != nil {
			return busy
		}
	}
	done := make(chan struct{})
	for _, k := range keys {
		d.claims[k.hash] = done
	}
	return nil
}

// release gives up the keys, of messages that are at the offsets if there are any.
func (d *dedup) release(keys []uniqueKey, stored []message.LogOffset) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, off := range stored {
		d.recent.add(keys[i].hash, off)
	}
	close(d.claims[keys[0].hash])
	for _, k := range keys {
		delete(d.claims, k.hash)
	}
}

// known returns the messages that have the key and are within the window, newest
// first. What was put and is not yet on disk under FlushSync can not be read, so
// that is waited for.
func (d *dedup) known(ctx context.Context, k uniqueKey) ([]message.MessageExt, error) {
	d.mu.Lock()
	offsets := d.recent.find(k.hash)
	d.mu.Unlock()
	var found []message.MessageExt
	for _, off := range offsets {
		if off < d.deleted(k.topic) {
			continue // of a topic that was deleted and made again
		}
		if off >= d.store.MaxOffset() {
			if err := d.store.Flush(ctx); err != nil {
				return nil, err
			}
		}
		m, err := d.store.LookMessageByOffset(ctx, off)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			continue // nobody can tell that it is the same
		}
		same, ok := keyOfRecord(m.Topic, m.SysFlag, m.Properties)
		if ok && same == k && !d.tooOld(m.StoreTimestamp) {
			found = append(found, m)
		}
	}
	return found, nil
}

func (d *dedup) tooOld(stored int64) bool {
	return d.duration > 0 && stored < d.now().Add(-d.duration).UnixMilli()
}

// putOnce puts a message, unless it is known. Then queue and result are those of
// the first one.
func (b *Broker) putOnce(ctx context.Context, req *protocol.SendMessageRequest, inner *message.MessageExtBrokerInner) (store.PutMessageResult, error) {
	if b.dedup == nil {
		return b.store.PutMessage(ctx, inner)
	}
	k, ok := keyOfSend(req.Message.Topic, req.SysFlag, inner.Properties)
	if !ok {
		return b.store.PutMessage(ctx, inner)
	}
	return b.dedup.once(ctx, []uniqueKey{k}, &req.QueueID, &inner.QueueID, func() (store.PutMessageResult, error) {
		return b.store.PutMessage(ctx, inner)
	})
}

// putBatchOnce is putOnce for a batch.
func (b *Broker) putBatchOnce(ctx context.Context, req *protocol.SendMessageRequest, batch *message.MessageExtBatch) (store.PutMessageResult, error) {
	if b.dedup == nil {
		return b.store.PutMessages(ctx, batch)
	}
	var keys []uniqueKey
	for e, err := range message.BatchElements(batch.Body) {
		k, ok := keyOfSend(req.Message.Topic, req.SysFlag, e.Properties)
		if err != nil || !ok {
			return b.store.PutMessages(ctx, batch)
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return b.store.PutMessages(ctx, batch)
	}
	return b.dedup.once(ctx, keys, &req.QueueID, &batch.QueueID, func() (store.PutMessageResult, error) {
		return b.store.PutMessages(ctx, batch)
	})
}

// once puts messages with these keys, unless all of them are known. Then the queue
// ids become that of the first ones.
func (d *dedup) once(ctx context.Context, keys []uniqueKey, queueID, innerQueueID *int32,
	put func() (store.PutMessageResult, error),
) (store.PutMessageResult, error) {
	if err := d.claim(ctx, keys); err != nil {
		return unknown(err)
	}
	var stored []message.LogOffset
	defer func() { d.release(keys, stored) }()
	first, err := d.first(ctx, keys)
	if err != nil {
		return unknown(err)
	}
	if first != nil {
		d.repeated.Add(int64(len(keys)))
		*queueID = realQueue(&first[0])
		*innerQueueID = *queueID
		return asPut(first), nil
	}
	res, err := put()
	if res.Status.Stored() && res.Count > 0 {
		if stored = res.Offsets; stored == nil {
			stored = []message.LogOffset{res.LogOffset}
		}
	}
	return res, err
}

// unknown is the answer when nobody can tell whether a message is known: it is not
// put.
func unknown(err error) (store.PutMessageResult, error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return store.PutMessageResult{Status: store.PutOSPageCacheBusy}, err
	}
	return store.PutMessageResult{Status: store.PutServiceNotAvailable}, err
}

// first returns the messages with these keys that were stored one after the other,
// nil when there are none.
func (d *dedup) first(ctx context.Context, keys []uniqueKey) ([]message.MessageExt, error) {
	starts, err := d.known(ctx, keys[0])
	if err != nil {
		return nil, err
	}
	for i := range starts {
		run, err := d.run(ctx, starts[i], keys[1:])
		if run != nil || err != nil {
			return run, err
		}
	}
	return nil, nil
}

// run returns start and the messages with these keys that follow it, nil when one
// does not.
func (d *dedup) run(ctx context.Context, start message.MessageExt, keys []uniqueKey) ([]message.MessageExt, error) {
	run := []message.MessageExt{start}
	for _, k := range keys {
		found, err := d.known(ctx, k)
		if err != nil {
			return nil, err
		}
		last := &run[len(run)-1]
		before := len(run)
		for i := range found {
			if m := &found[i]; m.QueueID == last.QueueID && m.QueueOffset == last.QueueOffset+1 && m.Topic == last.Topic {
				run = append(run, *m)
				break
			}
		}
		if len(run) == before {
			return nil, nil
		}
	}
	return run, nil
}

// asPut is the result that the put of these messages had.
func asPut(ms []message.MessageExt) store.PutMessageResult {
	first := &ms[0]
	res := store.PutMessageResult{
		LogOffset: first.LogOffset, QueueOffset: first.QueueOffset, Count: len(ms),
		StoreTimestamp: first.StoreTimestamp, StoreHost: first.StoreHost,
	}
	for i := range ms {
		res.Bytes += int(ms[i].StoreSize)
		res.Offsets = append(res.Offsets, ms[i].LogOffset)
	}
	return res
}
