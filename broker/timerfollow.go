package broker

import (
	"context"
	"errors"
	"io/fs"
	"runtime/debug"
	"strconv"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// follow brings the index to the end of the timer topic, as far as messages are
// known to be there.
func (t *timers) follow(ctx context.Context) error {
	if placed := message.LogOffset(t.placed.Load()); placed > 0 {
		if err := t.store.WaitDispatched(ctx, placed); err != nil {
			return err
		}
	}
	for {
		more, err := t.followSome(ctx)
		if err != nil || !more {
			return err
		}
	}
}

// followSome takes some records of the topic into the index.
func (t *timers) followSome(ctx context.Context) (more bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.state
	if s.next >= t.store.MaxOffsetInQueue(message.TimerTopic, 0) {
		return false, nil
	}
	res, err := t.store.GetMessage(ctx, store.GetQuery{Topic: message.TimerTopic, Offset: s.next, MaxCount: timerChunk, MaxBytes: delayChunkBytes})
	if res == nil {
		return false, err
	}
	defer res.Release()
	if len(res.Messages) == 0 {
		if res.NextBeginOffset <= s.next {
			return false, errors.Join(errors.New("the queue of timed messages can not be read"), err)
		}
		t.log.Error("timed messages passed over: not in the store or unreadable", "from", s.next, "to", res.NextBeginOffset, "err", err)
		s.next = res.NextBeginOffset
		return true, nil
	}
	for _, v := range res.Messages {
		r, err := readTimer(v)
		if err != nil {
			return false, err
		}
		t.take(&r)
	}
	s.next = res.NextBeginOffset
	return true, nil
}

// take brings one record into the index. t.mu is held.
func (t *timers) take(r *timerRecord) {
	t.parks++
	t.changes++
	if r.ends && t.state.index.end(r.ended) {
		t.dirty = true
	}
	switch {
	case r.waits:
		t.state.index.add(r.timer)
	case !r.ends:
		t.log.Warn("a record of the topic of timed messages waits for nothing: passed over", "offset", r.offset)
	}
}

// timerRecord is what a record of the timer topic says.
type timerRecord struct {
	timer

	waits bool
	ends  bool
	ended message.QueueOffset // what it ends
}

// readTimer reads a record that may lie in a mapped file: a fault is an error.
func readTimer(v message.View) (r timerRecord, err error) {
	defer message.CatchFault(debug.SetPanicOnFault(true), &err)
	r.offset = v.QueueOffset()
	r.ended, r.ends = endedBy(v.PreparedTransactionOffset())
	p := message.Properties(v.Properties())
	if r.due, err = outMillis(p); err != nil {
		return r, nil // it does not wait
	}
	_, r.waits = p.Get(message.PropertyRealTopic)
	id, ok := p.Get(message.PropertyUniqueKey)
	if !ok {
		id = message.OffsetMessageID{Host: v.StoreHost(), Offset: v.LogOffset()}.String()
	}
	r.key = keyOf(id)
	return r, nil
}

// outMillis is when a message with these properties, which waits, is due.
func outMillis(p message.Properties) (int64, error) {
	text, _ := p.Get(message.PropertyTimerOutMillis)
	return strconv.ParseInt(text, 10, 64)
}

// copyOut copies a message. The record may lie in a mapped file: a fault while
// reading it is an error.
func copyOut(v message.View) (m message.MessageExt, err error) {
	defer message.CatchFault(debug.SetPanicOnFault(true), &err)
	return v.Message(), nil
}

// catchUp makes the index: what the file says, and what the topic has behind it;
// and then looks in the log for copies that were delivered since. They are not
// before the file's mark, and not before the first of what waits was due.
func (t *timers) catchUp(ctx context.Context) error {
	if err := t.store.WaitDispatched(ctx, t.store.MaxOffset()); err != nil {
		return err
	}
	t.mu.Lock()
	t.state, t.changes = t.load(), 0
	t.mu.Unlock()
	t.began = t.store.MaxOffset()
	if err := t.follow(ctx); err != nil {
		return err
	}
	t.dropRemoved()
	found, err := t.findDelivered(ctx)
	if err != nil {
		return err
	}
	if found > 0 {
		t.log.Info("timed messages had been delivered before the last stop", "messages", found)
	}
	t.mu.Lock()
	t.held.Store(int64(t.firstWaiting()))
	t.dirty, t.delivered = false, found
	t.mu.Unlock()
	t.store.NotifyConsumed()
	close(t.ready)
	return nil
}

// load reads the file. Without one that is right and belongs to the log as it is,
// all is read again: then the mark is 0.
func (t *timers) load() timerState {
	lowest := t.store.MinOffsetInQueue(message.TimerTopic, 0)
	none := timerState{index: newTimerIndex(), next: lowest, last: -1}
	b, err := t.store.ReadDerived(timerFile)
	if errors.Is(err, fs.ErrNotExist) {
		return none
	}
	var s timerState
	if err == nil {
		s, err = decodeTimers(b)
	}
	if err == nil && !t.belongs(&s) {
		err = errors.New("the log is another one")
	}
	if err != nil {
		t.log.Warn("pocketmq/"+timerFile+" is of no use; timed messages are looked for in the log", "err", err)
		return none
	}
	s.next = max(s.next, lowest)
	return s
}

// belongs reports whether the log has what the file counts.
func (t *timers) belongs(s *timerState) bool {
	if s.mark > t.store.MaxOffset() || s.next > t.store.MaxOffsetInQueue(message.TimerTopic, 0) {
		return false
	}
	last := lastRecord(t.store, s.next)
	return last == s.last || last < 0 // it may have been removed since
}

// dropRemoved ends what waits and is not in the store any more, because somebody
// removed it who did not know.
func (t *timers) dropRemoved() {
	t.mu.Lock()
	defer t.mu.Unlock()
	lowest, lost := t.store.MinOffsetInQueue(message.TimerTopic, 0), 0
	for first, ok := t.state.index.byOffset.first(); ok && first.offset < lowest; first, ok = t.state.index.byOffset.first() {
		t.state.index.end(first.offset)
		t.changes++
		lost++
	}
	if lost > 0 {
		t.log.Error("timed messages are not in the store any more", "messages", lost)
	}
}

// findDelivered ends what the log says was delivered.
func (t *timers) findDelivered(ctx context.Context) (found int64, err error) {
	from, ok := t.deliveredFrom()
	if !ok {
		return 0, nil
	}
	for v, err := range t.store.Records(ctx, from) {
		if err != nil {
			return found, err
		}
		t.records++
		offset, ok := endedBy(v.PreparedTransactionOffset())
		if !ok || string(v.Topic()) == message.TimerTopic {
			continue
		}
		t.mu.Lock()
		if t.state.index.end(offset) {
			t.changes++
			found++
		}
		left := t.state.index.len()
		t.mu.Unlock()
		if left == 0 {
			break
		}
	}
	return found, nil
}

// deliveredFrom is the log offset before which nothing was delivered of what waits,
// as far as the index knows; false if nothing waits.
func (t *timers) deliveredFrom() (message.LogOffset, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, ok := t.state.index.byOffset.first()
	if !ok {
		return 0, false
	}
	from := max(t.state.mark, t.store.OffsetByTime(t.state.index.earliest()))
	if parked, ok := t.store.CommitLogOffsetInQueue(message.TimerTopic, 0, first.offset); ok {
		from = max(from, parked)
	}
	return from, true
}
