package broker

import (
	"context"
	"errors"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// persist lets go of the log and writes the file, when either is due: the file as
// seldom as its length asks for, unless what would have to be read after a crash
// becomes too much.
func (t *timers) persist(ctx context.Context, now int64) error {
	t.mu.Lock()
	waiting, changes, dirty := int64(t.state.index.len()), t.changes, t.dirty
	t.mu.Unlock()
	every := t.interval.Milliseconds()
	if dirty && t.releaseAt == 0 {
		t.releaseAt = now + every
	}
	if changes > 0 && t.saveAt == 0 {
		t.saveAt = now + every*max(1, waiting*timerFileEntry/timerFileRate)
	}
	switch {
	case changes >= max(timerChanges, waiting/2), changes > 0 && now >= t.saveAt, t.tailTooLong():
		return t.save(ctx)
	case dirty && now >= t.releaseAt:
		return t.release(ctx)
	}
	return nil
}

// tailTooLong reports whether too much of the log would have to be looked through
// for what was delivered.
func (t *timers) tailTooLong() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	most := max(t.tail, 4*timerFileEntry*int64(t.state.index.len()))
	return t.delivered > 0 && int64(t.store.MaxOffset()-t.state.mark) > most
}

// limitTail writes the file before another delivery, if it is time.
func (t *timers) limitTail(ctx context.Context) error {
	if !t.tailTooLong() {
		return nil
	}
	return t.save(ctx)
}

// save writes the file. What it counts as ended is on disk before. Only this
// goroutine delivers, so all copies before the mark are counted.
func (t *timers) save(ctx context.Context) error {
	mark := max(t.end, t.store.MaxOffset())
	t.mu.Lock()
	state := t.state
	state.mark = mark
	state.last = lastRecord(t.store, state.next)
	b, changes := state.encode(), t.changes
	t.mu.Unlock()
	if err := t.release(ctx); err != nil {
		return err
	}
	if err := t.store.WriteDerived(timerFile, b); err != nil {
		return err
	}
	t.mu.Lock()
	t.state.mark = mark
	t.changes -= changes
	t.mu.Unlock()
	t.delivered, t.saveAt = 0, 0
	return nil
}

// lastRecord is the log offset of the timer topic's record before next, −1 if there
// is none.
func lastRecord(s *store.DefaultMessageStore, next message.QueueOffset) message.LogOffset {
	if at, ok := s.CommitLogOffsetInQueue(message.TimerTopic, 0, next-1); ok {
		return at
	}
	return -1
}

// release lets retention have what nobody waits for any more, once what has ended
// it is on disk.
func (t *timers) release(ctx context.Context) error {
	t.mu.Lock()
	first := t.firstWaiting()
	t.dirty = false
	t.mu.Unlock()
	if err := t.store.Flush(ctx); err != nil {
		t.mu.Lock()
		t.dirty = true
		t.mu.Unlock()
		return err
	}
	t.held.Store(int64(first))
	t.releaseAt = 0
	t.store.NotifyConsumed()
	return nil
}

// finish writes the file, if it is not that of this moment.
func (t *timers) finish() error {
	t.mu.Lock()
	behind := t.changes > 0 || t.state.index.len() > 0 && t.state.mark < t.store.MaxOffset()
	t.mu.Unlock()
	if !behind {
		return nil
	}
	return t.save(context.Background())
}

// timerRollShare: messages are put further on for at most one byte in so many that
// others put, and this many before. So a store in which much waits, and nothing else
// happens, does not write the same again and again.
const (
	timerRollShare  = 4
	timerRollCredit = 1 << 20
)

// roll puts messages further on that keep retention from removing files which it
// would remove: see store.SetHeldBack. A message that waits for a month so moves
// along with the log, instead of holding a month of it.
func (t *timers) roll(ctx context.Context) error {
	to := t.heldTo.Load()
	for range timerChunk {
		if to == 0 || ctx.Err() != nil {
			return ctx.Err()
		}
		t.mu.Lock()
		first, ok := t.state.index.byOffset.first()
		ok = ok && t.state.index.claim(first)
		t.mu.Unlock()
		if !ok { // nothing waits, or it is just being ended
			return nil
		}
		rolled, err := t.rollOne(ctx, first, message.LogOffset(to))
		if !rolled {
			t.unclaim(first)
			return err
		}
	}
	t.wake()
	return nil
}

// rollOne puts one message further on, if it lies before a log offset. One that can
// not be read or delivered stays where it is until it is due, and one whose topic is
// gone is dropped.
func (t *timers) rollOne(ctx context.Context, e timer, to message.LogOffset) (rolled bool, err error) {
	var inner message.MessageExtBrokerInner
	m, err := t.read(ctx, e.offset)
	if err == nil {
		inner, err = replacement(e, m, e.due)
	}
	if err == nil && t.isGone(&m) {
		err = t.drop(ctx, e, &m)
		return err == nil, err
	}
	stays := errors.Is(err, errLost) || errors.Is(err, errUndeliverable)
	if err != nil && !stays {
		return false, err
	}
	others := int64(t.store.MaxOffset()-t.began) - t.rolled
	if stays || m.LogOffset >= to || t.rolled+int64(m.StoreSize) > timerRollCredit+others/timerRollShare {
		t.heldTo.CompareAndSwap(int64(to), 0) // the next cleaning asks again, if need be
		return false, nil
	}
	inner.NoWait = true
	res, err := t.put(ctx, &inner)
	if !res.Status.Stored() {
		return false, err
	}
	t.rolled += int64(res.Bytes)
	t.replaced(e)
	t.parked(res.LogOffset + message.LogOffset(res.Bytes))
	return true, nil
}
