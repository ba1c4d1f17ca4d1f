package broker

import (
	"context"
	"errors"
	"runtime/debug"
	"strconv"
	"unique"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// readChunk is how many half messages are read at a time.
const readChunk = 32

// read looks at the half messages that came since it did last. Those that have
// ended meanwhile are not read.
func (t *transactions) read(ctx context.Context) error {
	t.readMu.Lock()
	defer t.readMu.Unlock()
	t.mu.Lock()
	t.readAt = never // what comes from now on may not be seen
	placed := t.placed
	t.mu.Unlock()
	if err := t.store.WaitDispatched(ctx, placed); err != nil {
		t.mu.Lock()
		t.readSoon()
		t.mu.Unlock()
		return err
	}
	end := t.store.MaxOffsetInQueue(message.HalfTopic, 0)
	for {
		n := t.skipEnded(end)
		if n == 0 {
			return nil
		}
		if err := t.readSome(ctx, n); err != nil {
			return err
		}
	}
}

// skipEnded goes on to the first half message that is not known to have ended, and
// returns how many such follow each other: 0 at the end, and not too many.
func (t *transactions) skipEnded(end message.QueueOffset) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ; t.seen < end; t.seen++ {
		if h := t.open[t.seen]; h == nil || !h.done {
			break
		}
		delete(t.open, t.seen)
		delete(t.senders, t.seen)
		t.changed()
	}
	for off := t.seen; off < end && n < readChunk; off++ {
		if h := t.open[off]; h != nil && h.done {
			break
		}
		n++
	}
	return n
}

// passEnded goes on to the first half message that is not known to have ended,
// without reading any.
func (t *transactions) passEnded() {
	t.readMu.Lock()
	defer t.readMu.Unlock()
	t.skipEnded(t.store.MaxOffsetInQueue(message.HalfTopic, 0))
}

// readSome reads up to n half messages.
func (t *transactions) readSome(ctx context.Context, n int) error {
	for from, end := t.seen, t.seen+message.QueueOffset(n); from < end; {
		res, err := t.getHalf(ctx, from, int(end-from))
		if res == nil {
			return err
		}
		next := res.NextBeginOffset
		if next <= from && err == nil {
			err = errors.New("the half topic can not be read")
		}
		for _, v := range res.Messages {
			n, readErr := t.noticeOf(v)
			if readErr != nil {
				t.log.Error("half message passed over: unreadable", "halfOffset", n.offset, "err", readErr)
				continue
			}
			t.passTo(n.offset)
			t.add(&n)
		}
		found := len(res.Messages)
		res.Release()
		if next <= from {
			return err
		}
		if found == 0 {
			t.log.Error("half messages passed over: not in the store or unreadable", "from", from, "to", next, "err", err)
		}
		t.passTo(next)
		from = next
	}
	return nil
}

func (t *transactions) getHalf(ctx context.Context, from message.QueueOffset, n int) (*store.GetMessageResult, error) {
	return t.store.GetMessage(ctx, store.GetQuery{Topic: message.HalfTopic, Offset: from, MaxCount: n, MaxBytes: delayChunkBytes, Verify: true})
}

// notice is what is to be known of a half message.
type notice struct {
	half

	key   string
	born  int64
	first message.QueueOffset // before it was rolled forward; less than 0 if it was not
}

// noticeOf reads it. The record may lie in a mapped file: a fault is an error.
func (t *transactions) noticeOf(v message.View) (n notice, err error) {
	defer message.CatchFault(debug.SetPanicOnFault(true), &err)
	n.offset, n.log, n.index, n.first = v.QueueOffset(), v.LogOffset(), -1, -1
	n.born, n.since = v.BornTimestamp(), v.StoreTimestamp()
	p := message.Properties(string(v.Properties()))
	n.key, _ = p.Get(message.PropertyUniqueKey)
	group, _ := p.Get(protocol.PropertyProducerGroup)
	n.group = unique.Make(group).Value()
	times, _ := p.Get(protocol.PropertyCheckTimes)
	if count, err := strconv.Atoi(times); err == nil {
		n.checks = max(count, 0)
	}
	first, _ := p.Get(protocol.PropertyFirstHalf)
	if off, err := strconv.ParseInt(first, 10, 64); err == nil && off >= 0 {
		n.first, n.since = message.QueueOffset(off), sentAt(n.born, n.since)
	}
	n.next = t.rules.first(n.born, v.StoreTimestamp(), p)
	return n, nil
}

// passTo forgets what is before an offset and was not read.
func (t *transactions) passTo(next message.QueueOffset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.seen < next {
		off := t.seen
		t.seen++
		delete(t.senders, off)
		if h := t.open[off]; h != nil {
			t.drop(h)
		}
		t.changed()
	}
}

// add adds the next half message to those that are open, unless it has ended.
func (t *transactions) add(n *notice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.open[n.offset]
	t.seen = n.offset + 1
	client := t.senders[n.offset]
	delete(t.senders, n.offset)
	switch {
	case h == nil:
		h = &half{}
		*h = n.half
		h.client = client
		t.open[h.offset] = h
	case h.done:
		delete(t.open, n.offset)
		return
	case h.group == "": // somebody is about to end it, or has tried
		h.log, h.group, h.since, h.checks, h.next, h.client = n.log, n.group, n.since, n.checks, n.next, client
	default: // it was rolled forward
		h.log = n.log
	}
	if n.first >= 0 && n.first < n.offset && t.open[n.first] == nil {
		t.open[n.first] = h
		h.old = append(h.old, n.first)
	}
	t.list(h)
	t.changed()
}
