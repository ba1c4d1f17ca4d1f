package store

import (
	"context"
	"strconv"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/message"
)

// notify tells the dispatchers that the log has more.
func (s *DefaultMessageStore) notify() {
	s.dispatcher.Notify()
	if s.index != nil {
		s.index.dispatcher.Notify()
	}
}

// queueSink builds the consume queues: a dispatcher.Sink.
type queueSink DefaultMessageStore

// Dispatch implements dispatcher.Sink.
func (s *queueSink) Dispatch(r *message.DispatchRequest) error {
	if _, err := s.put(r, false); err != nil {
		return err
	}
	s.lastDispatched.Store(int64(r.LogOffset()))
	(*DefaultMessageStore)(s).progress()
	return nil
}

// put makes the record's unit, and reports whether it has one: a record that
// takes no queue offset has none, and neither has one that fits in no queue,
// which is reported as damage.
func (s *queueSink) put(r *message.DispatchRequest, rewrite bool) (placed bool, err error) {
	if !r.SysFlag().Queued() {
		return false, nil
	}
	q := s.lastQueue
	if q == nil || q.ID != r.QueueID() || q.Topic != string(r.Topic()) {
		q = consumequeue.Find(s.queues, r.Topic(), r.QueueID())
	}
	if misfit := s.misfit(r, q == nil); misfit != nil {
		(*DefaultMessageStore)(s).damagedRecord(r, misfit)
		return false, nil
	}
	if q == nil {
		if q, err = s.queues.Make(string(r.Topic()), r.QueueID()); err != nil {
			return false, typed(err)
		}
	}
	s.lastQueue = q
	unit := consumequeue.Unit{LogOffset: r.LogOffset(), Size: int32(r.Size()), TagsCode: r.TagsCode}
	return true, typed(q.Put(r.QueueOffset(), unit, rewrite))
}

// misfit says why no queue can hold the record: its topic and queue id can not
// name a directory, or its header was damaged, which no checksum tells. Before a
// message with number n there are n records in the log.
func (s *queueSink) misfit(r *message.DispatchRequest, newQueue bool) error {
	if off, most := int64(r.QueueOffset()), int64(r.LogOffset())/message.MinRecordSize; off < 0 || off > most {
		return &message.LimitError{Field: "queue offset", Limit: most, Value: off, Unit: "as number"}
	}
	if !newQueue {
		return nil
	}
	if r.QueueID() < 0 {
		return &message.IllegalError{Field: "queue id", Value: strconv.Itoa(int(r.QueueID())), Reason: "is negative"}
	}
	return message.CheckStoredTopic(string(r.Topic()))
}

func (s *DefaultMessageStore) damagedRecord(r *message.DispatchRequest, why error) {
	s.damaged(commitlog.Damage{From: r.LogOffset(), To: r.LogOffset() + message.LogOffset(r.Size()), Err: why})
}

// dispatchFailed hears of each attempt to dispatch that failed; the dispatcher
// tries again, and puts are refused once it lags too far.
func (s *DefaultMessageStore) dispatchFailed(at message.LogOffset, err error) {
	s.stats.dispatchFailures.Add(1)
	s.cfg.Logger.Error("dispatch failed; will try again", "dir", s.dir, "offset", at, "err", err)
}

// damaged hears of ranges of the log that can not be read.
func (s *DefaultMessageStore) damaged(d commitlog.Damage) {
	s.damageMu.Lock()
	s.recovery.Damaged = append(s.recovery.Damaged, d)
	s.damageMu.Unlock()
	s.cfg.Logger.Error("unreadable range in the log: left as it is, and passed over",
		"file", d.File, "offset", d.From, "bytes", d.To-d.From, "err", d.Err)
}

// WaitDispatched blocks until everything before upTo can be read through its
// queue: pass LogOffset+Bytes of a PutMessageResult to read your own write. It
// returns earlier with ctx's error, the error of a failed attempt to dispatch,
// or message.ErrClosed.
func (s *DefaultMessageStore) WaitDispatched(ctx context.Context, upTo message.LogOffset) error {
	return typed(s.dispatcher.Wait(ctx, upTo))
}

// Flush puts on disk what was placed before the call. Under FlushAsync that
// makes it as safe as FlushSync does.
func (s *DefaultMessageStore) Flush(ctx context.Context) error {
	s.life.RLock()
	if err := s.checkOpen(); err != nil {
		s.life.RUnlock()
		return err
	}
	done := make(chan error, 1)
	s.background.Go(func() { done <- s.flush() })
	s.life.RUnlock()
	select {
	case err := <-done:
		return typed(err)
	case <-ctx.Done():
		return ctx.Err()
	}
}
