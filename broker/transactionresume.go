package broker

import (
	"context"
	"runtime/debug"
	"sync/atomic"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// catchUp finds out which transactions are open: the half messages from the first
// offset of the progress on, but for those that op messages tell of. Of these some
// may have ended as well, just before the last process did: the log behind the mark
// tells, where there is none the log behind the first of them.
func (t *transactions) catchUp(ctx context.Context) error {
	if err := t.store.WaitDispatched(ctx, t.store.MaxOffset()); err != nil {
		return err
	}
	next := t.bounded(message.HalfTopic, &t.saved)
	ops := t.bounded(protocol.TransactionOpTopic, &t.savedOps)
	end := t.store.MaxOffsetInQueue(message.HalfTopic, 0)
	t.mu.Lock()
	t.seen = next
	t.mu.Unlock()
	if next < end {
		r := txResume{t: t, from: next, ended: make([]bool, end-next), byLog: map[message.LogOffset]*candidate{}, byKey: map[string]*candidate{}}
		if err := r.readOps(ctx, ops); err != nil {
			return err
		}
		if err := r.readHalves(ctx, end); err != nil {
			return err
		}
		if err := r.scan(ctx); err != nil {
			return err
		}
		r.adopt(end)
	}
	t.mu.Lock()
	if t.mark > t.store.MaxOffset() { // a part of the log is gone
		t.mark = -1
		t.changed()
	}
	t.mu.Unlock()
	if err := t.saveChanges(ctx); err != nil { // no reason to adopt all again: a later round saves
		t.log.Error("transactions taken up", "err", err)
	}
	close(t.ready)
	return nil
}

// bounded moves an offset of the progress that is outside of its queue to the
// nearest end.
func (t *transactions) bounded(topic string, saved *atomic.Int64) message.QueueOffset {
	lowest, highest := t.store.MinOffsetInQueue(topic, 0), t.store.MaxOffsetInQueue(topic, 0)
	next := message.QueueOffset(saved.Load())
	if in := max(min(next, highest), lowest); in != next {
		t.log.Warn("progress of transactions was outside of the queue", "topic", topic, "from", next, "to", in)
		saved.Store(int64(in))
		t.mu.Lock()
		t.changed()
		t.mu.Unlock()
		next = in
	}
	return next
}

// txResume finds the transactions that are open.
type txResume struct {
	t          *transactions
	from       message.QueueOffset
	ended      []bool // by half message, the first at from
	candidates []*candidate
	byLog      map[message.LogOffset]*candidate
	byKey      map[string]*candidate // the newest
}

// candidate is a half message that may be open.
type candidate struct {
	notice

	ended    bool       // but for the op message
	replaced *candidate // by this one: it was rolled forward
}

// newest is the half message by which a candidate was replaced in the end.
func (c *candidate) newest() *candidate {
	for c.replaced != nil {
		c = c.replaced
	}
	return c
}

// readOps reads op messages from an offset on.
func (r *txResume) readOps(ctx context.Context, from message.QueueOffset) error {
	for v, err := range r.t.store.Messages(ctx, store.GetQuery{Topic: protocol.TransactionOpTopic, Offset: from}) {
		if err != nil {
			return err
		}
		body, err := copyBody(v)
		if err != nil {
			r.t.log.Error("op message passed over: unreadable", "err", err)
			continue
		}
		opOffsets(body, func(off message.QueueOffset) {
			if i := off - r.from; i >= 0 && i < message.QueueOffset(len(r.ended)) {
				r.ended[i] = true
			}
		})
	}
	return nil
}

// copyBody is a body that may lie in a mapped file: a fault is an error.
func copyBody(v message.View) (body []byte, err error) {
	defer message.CatchFault(debug.SetPanicOnFault(true), &err)
	return append(body, v.Body()...), nil
}

// readHalves reads the half messages that op messages do not tell of.
func (r *txResume) readHalves(ctx context.Context, end message.QueueOffset) error {
	for at := r.from; at < end; {
		if r.ended[at-r.from] {
			at++
			continue
		}
		n := 1
		for at+message.QueueOffset(n) < end && n < readChunk && !r.ended[at-r.from+message.QueueOffset(n)] {
			n++
		}
		res, err := r.t.getHalf(ctx, at, n)
		if res == nil {
			return err
		}
		for _, v := range res.Messages {
			c := &candidate{}
			if c.notice, err = r.t.noticeOf(v); err != nil {
				r.t.log.Error("half message passed over: unreadable", "halfOffset", at, "err", err)
				continue
			}
			r.consider(c)
		}
		next := res.NextBeginOffset
		if len(res.Messages) == 0 {
			r.t.log.Error("half messages passed over: not in the store or unreadable", "from", at, "to", next, "err", err)
		}
		res.Release()
		at = max(next, at+1)
	}
	return nil
}

// consider adds a candidate. RocketMQ writes half messages again whenever it asks
// about them; after a crash of it the old one may seem open, too.
func (r *txResume) consider(c *candidate) {
	r.candidates = append(r.candidates, c)
	r.byLog[c.log] = c
	if c.key == "" {
		return
	}
	key := c.group + "\x00" + c.key
	if old := r.byKey[key]; old != nil && old.born == c.born {
		old.replaced = c
	}
	r.byKey[key] = c
}

// scan goes through the log for what was made from candidates.
func (r *txResume) scan(ctx context.Context) error {
	if len(r.candidates) == 0 {
		return nil
	}
	from := r.candidates[0].log
	if t := r.t; t.mark <= t.store.MaxOffset() {
		from = max(from, t.mark)
	}
	for v, err := range r.t.store.Records(ctx, from) {
		if err != nil {
			return err
		}
		c := r.madeFrom(v)
		switch {
		case c == nil:
		case string(v.Topic()) == message.HalfTopic && r.byLog[v.LogOffset()] != nil:
			c.replaced = r.byLog[v.LogOffset()]
		default:
			c.ended = true
		}
	}
	return nil
}

// madeFrom is the candidate from which a record was made, nil for none.
func (r *txResume) madeFrom(v message.View) *candidate {
	at := v.PreparedTransactionOffset()
	c := r.byLog[at]
	if c == nil || v.LogOffset() <= c.log {
		return nil
	}
	topic := string(v.Topic())
	if at == 0 && v.SysFlag().Transaction() != message.TransactionCommit &&
		topic != message.HalfTopic && topic != protocol.TransactionCheckMaxTopic {
		return nil // every record says so
	}
	if key, _ := v.Property(message.PropertyUniqueKey); string(key) != c.key {
		return nil
	}
	return c
}

// lacksOp notes that the op message of a half message is to be written. It needs mu.
func (t *transactions) lacksOp(h *half) {
	h.done, h.began = true, h.log
	t.ending[h] = struct{}{}
	t.noOp = append(t.noOp, h)
}

// adopt makes open half messages of the candidates that are left.
func (r *txResume) adopt(end message.QueueOffset) {
	t := r.t
	t.mu.Lock()
	defer t.mu.Unlock()
	open := 0
	for _, c := range r.candidates {
		h := &c.half
		switch {
		case c.replaced != nil:
			newest := c.newest()
			newest.ended = newest.ended || c.ended
			newest.old = append(newest.old, h.offset)
			if c.replaced.first < 0 { // else RocketMQ would take that for ended, too
				t.lacksOp(h)
			}
			continue
		case c.ended:
			t.lacksOp(h)
			continue
		}
		if c.first >= 0 && c.first < h.offset && t.open[c.first] == nil {
			t.open[c.first] = h
			h.old = append(h.old, c.first)
		}
		for _, off := range append(h.old, h.offset) {
			t.open[off] = h
		}
		if client, ok := t.senders[h.offset]; ok { // it was sent just now
			h.client = client
			delete(t.senders, h.offset)
		}
		t.list(h)
		open++
	}
	t.seen = end
	if next, _, _ := t.reachedLocked(); int64(next) != t.saved.Load() {
		t.changed()
	}
	if open > 0 || len(t.noOp) > 0 {
		t.log.Info("transactions taken up", "open", open, "endedBefore", len(t.noOp))
	}
}
