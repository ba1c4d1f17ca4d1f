package store

import (
	"context"
	"fmt"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/message"
)

// queueSink builds the consume queues: a dispatcher.Sink.
type queueSink DefaultMessageStore

// Dispatch implements dispatcher.Sink.
func (s *queueSink) Dispatch(r *message.DispatchRequest) error {
	if err := s.put(r, false); err != nil {
		return err
	}
	s.lastDispatched.Store(int64(r.LogOffset()))
	if !s.queuesDirty.Load() && !s.queuesDirty.Swap(true) {
		kick(s.queuesKick)
	}
	return nil
}

// put makes the record's unit. A record that takes no queue offset has none.
func (s *queueSink) put(r *message.DispatchRequest, rewrite bool) error {
	if !r.SysFlag().Queued() {
		return nil
	}
	q := consumequeue.Find(s.queues, r.Topic(), r.QueueID())
	if q == nil {
		topic := string(r.Topic())
		if err := checkStoredQueue(topic, r.QueueID()); err != nil {
			// RocketMQ wrote it; to us it is a record that no queue can hold.
			(*DefaultMessageStore)(s).damaged(commitlog.Damage{From: r.LogOffset(), To: r.LogOffset() + message.LogOffset(r.Size()), Err: err})
			return nil
		}
		var err error
		if q, err = s.queues.Make(topic, r.QueueID()); err != nil {
			return typed(err)
		}
	}
	unit := consumequeue.Unit{LogOffset: r.LogOffset(), Size: int32(r.Size()), TagsCode: r.TagsCode}
	if r.QueueOffset() < 0 {
		return nil
	}
	return typed(q.Put(r.QueueOffset(), unit, rewrite))
}

// checkStoredQueue says whether topic and queue id of a record can name a
// directory.
func checkStoredQueue(topic string, queueID int32) error {
	if queueID < 0 {
		return &message.IllegalError{Field: "queue id", Value: fmt.Sprint(queueID), Reason: "is negative"}
	}
	return message.CheckStoredTopic(topic)
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
	if err := s.checkOpen(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- s.flush() }()
	select {
	case err := <-done:
		return typed(err)
	case <-ctx.Done():
		return ctx.Err()
	}
}
