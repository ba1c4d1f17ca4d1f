package broker

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// depthLimit keeps a topic from having more messages than its MaxDepth. Senders
// take room before they put and say so afterwards; only when the room is used up
// the depth is measured again. All that counts is known from the store and the
// groups' offsets, so nothing of this is saved.
//
// Room is given by a number up to which messages may be admitted, those counted
// since the limit was made. As long as
//
//	ceiling ≤ finished + limit - depth
//
// held when depth was measured, after finished was read, no more than limit are
// reached: what was admitted and is not finished is in depth or still to come.
type depthLimit struct {
	limit    atomic.Int64
	admitted atomic.Int64 // messages
	finished atomic.Int64 // of these: their put has returned, whatever it said
	ceiling  atomic.Int64 // most that may be admitted

	mu sync.Mutex // one measures at a time
}

// take admits n messages if there is room that is known of.
func (d *depthLimit) take(n int64) bool {
	for {
		admitted := d.admitted.Load()
		if admitted+n > d.ceiling.Load() {
			return false
		}
		if d.admitted.CompareAndSwap(admitted, admitted+n) {
			return true
		}
	}
}

// done says that the put of n messages has returned. A nil limit has no use for it.
func (d *depthLimit) done(n int64) {
	if d != nil {
		d.finished.Add(n)
	}
}

// limitDepths has the limits of the table count. One that changes goes on: there
// may be puts under way that it has admitted.
func (t *topicTable) limitDepths(table map[string]protocol.TopicConfig) {
	var old map[string]*depthLimit
	if p := t.depths.Load(); p != nil {
		old = *p
	}
	depths := map[string]*depthLimit{}
	for name, cfg := range table {
		if cfg.MaxDepth == 0 {
			continue
		}
		d := old[name]
		if d == nil {
			d = &depthLimit{}
		}
		if d.limit.Swap(cfg.MaxDepth) != cfg.MaxDepth {
			d.ceiling.Store(0)
		}
		depths[name] = d
	}
	t.depths.Store(&depths)
}

// reserve takes room for n messages of a topic. The limit, nil for a topic that has
// none, hears of the end of their put.
func (b *Broker) reserve(ctx context.Context, topic string, n int64) (*depthLimit, error) {
	d := (*b.topics.depths.Load())[topic]
	if d == nil || d.take(n) {
		return d, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.take(n) { // another sender has measured
		return d, nil
	}
	if err := b.store.WaitDispatched(ctx, b.topics.deletedBefore(topic)); err != nil { // else what was deleted would count
		return nil, readError(err)
	}
	finished := d.finished.Load()
	depth := b.depth(topic)
	limit := d.limit.Load()
	d.ceiling.Store(finished + limit - depth)
	if d.take(n) {
		return d, nil
	}
	return nil, refuse(protocol.FlowControl, "topic "+topic+" is full",
		&message.LimitError{Field: "depth of topic " + topic, Limit: limit, Value: depth + n, Unit: "messages"})
}

// reserveBatch is reserve for the messages of a batch's body.
func (b *Broker) reserveBatch(ctx context.Context, topic string, body []byte) (d *depthLimit, n int64, err error) {
	if (*b.topics.depths.Load())[topic] == nil {
		return nil, 0, nil
	}
	for _, err := range message.BatchElements(body) {
		if err != nil {
			return nil, 0, refuse(protocol.MessageIllegal, "", err)
		}
		n++
	}
	d, err = b.reserve(ctx, topic, n)
	return d, n, err
}

// depth is how many messages of a topic the slowest of the groups that count has
// still to read: all where none has offsets. What is placed in the log counts, also
// if it can not be read yet.
func (b *Broker) depth(topic string) int64 {
	cfg, ok := b.topics.get(topic)
	if !ok {
		return 0
	}
	var depth int64
	for id := range max(cfg.ReadQueueNums, cfg.WriteQueueNums) {
		from, _, err := b.bounds(topic, id)
		if err != nil {
			from = 0 // all of them count
		}
		if consumed, registered := b.consumedByGroups(topic, id); registered {
			from = max(from, consumed)
		}
		depth += max(0, int64(b.store.NextOffsetInQueue(topic, id)-from))
	}
	return depth
}
