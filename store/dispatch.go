package store

import (
	"context"
	"strconv"
	"strings"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/message"
)

// queueSink builds the consume queues: a dispatcher.Sink.
type queueSink DefaultMessageStore

// Dispatch implements dispatcher.Sink.
func (s *queueSink) Dispatch(r *message.DispatchRequest) error {
	if b := s.building.Load(); b != nil {
		return (*DefaultMessageStore)(s).build(b, r)
	}
	from, to, batch := s.log.BatchAt(r.LogOffset())
	if !batch || from != s.batch.from {
		if err := s.batch.put(); err != nil { // what is left of one whose last record can not be read any more
			return err
		}
	}
	end := r.LogOffset() + message.LogOffset(r.Size())
	if !batch {
		if _, err := s.put(r, false); err != nil {
			return err
		}
	} else if whole, err := s.gather(r, from, end == to); err != nil || !whole {
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
	q, unit, err := s.unit(r)
	if q == nil || err != nil {
		return false, err
	}
	return true, typed(q.Put(r.QueueOffset(), unit, rewrite))
}

// unit is the record's unit and the queue that it belongs to, nil if to none.
func (s *queueSink) unit(r *message.DispatchRequest) (q *consumequeue.Queue, unit consumequeue.Unit, err error) {
	if !r.SysFlag().Queued() {
		return nil, unit, nil
	}
	q = s.lastQueue
	if q == nil || q.ID != r.QueueID() || q.Topic != string(r.Topic()) {
		if q, err = consumequeue.Find(s.queues, r.Topic(), r.QueueID()); err != nil {
			return nil, unit, typed(err)
		}
	}
	if misfit := s.misfit(r, q); misfit != nil {
		(*DefaultMessageStore)(s).damagedRecord(r, misfit)
		return nil, unit, nil
	}
	if q == nil {
		if q, err = s.queues.Make(string(r.Topic()), r.QueueID()); err != nil {
			return nil, unit, typed(err)
		}
	}
	s.lastQueue = q
	return q, unitOf(r), nil
}

func unitOf(r *message.DispatchRequest) consumequeue.Unit {
	return consumequeue.Unit{LogOffset: r.LogOffset(), Size: int32(r.Size()), TagsCode: r.TagsCode}
}

// gathered is the units of a batch that is being dispatched: readers see none of
// it before they see all.
type gathered struct {
	from  message.LogOffset // of the batch
	queue *consumequeue.Queue
	first message.QueueOffset
	units []consumequeue.Unit
}

// gather keeps the unit of a record of the batch at from, and puts all of them
// with the last one; it reports whether they are put. A record that is given
// again after an error replaces itself.
func (s *queueSink) gather(r *message.DispatchRequest, from message.LogOffset, last bool) (whole bool, err error) {
	q, unit, err := s.unit(r)
	if q == nil || err != nil {
		return false, err
	}
	b := &s.batch
	if len(b.units) == 0 {
		b.from, b.queue, b.first = from, q, r.QueueOffset()
	}
	i := int(r.QueueOffset() - b.first)
	if q != b.queue || i < 0 || i > len(b.units) { // a record between was damaged since it was written
		if err := b.put(); err != nil {
			return false, err
		}
		b.from, b.queue, b.first, i = from, q, r.QueueOffset(), 0
	}
	b.units = append(b.units[:i], unit)
	if !last {
		return false, nil
	}
	return true, b.put()
}

// put puts what was gathered.
func (b *gathered) put() error {
	if len(b.units) == 0 {
		return nil
	}
	if err := b.queue.PutAll(b.first, b.units); err != nil {
		return typed(err)
	}
	b.units = b.units[:0]
	return nil
}

// misfit says why no queue can hold the record: its topic and queue id can not
// name a directory, or its header was damaged, which no checksum tells.
func (s *queueSink) misfit(r *message.DispatchRequest, q *consumequeue.Queue) error {
	if most := highestOffset(r, q); r.QueueOffset() < 0 || r.QueueOffset() > most {
		return &message.LimitError{Field: "queue offset", Limit: int64(most), Value: int64(r.QueueOffset()), Unit: "as number"}
	}
	if q != nil {
		return nil
	}
	if s.counters.folds {
		for _, other := range s.queues.All() {
			if topic := string(r.Topic()); topic != other.Topic && strings.EqualFold(topic, other.Topic) {
				return sameName(topic, other.Topic)
			}
		}
	}
	if r.QueueID() < 0 {
		return &message.IllegalError{Field: "queue id", Value: strconv.Itoa(int(r.QueueID())), Reason: "is negative"}
	}
	return message.CheckStoredTopic(string(r.Topic()))
}

// highestOffset is the highest number that the record can have: numbers are dense
// and follow the log, so before a message with number n there are n records in
// the log, and between it and the queue's last one those of the numbers between.
func highestOffset(r *message.DispatchRequest, q *consumequeue.Queue) message.QueueOffset {
	most := message.QueueOffset(r.LogOffset() / message.MinRecordSize)
	if q == nil || r.QueueOffset() <= q.Max() {
		return most
	}
	u, ok := q.At(q.Max() - 1)
	if between := int64(r.LogOffset()-u.LogOffset) - int64(u.Size); ok && !u.IsBlank() && u.Size > 0 && between >= 0 {
		most = min(most, q.Max()+message.QueueOffset(between/message.MinRecordSize))
	}
	return most
}

func (s *DefaultMessageStore) damagedRecord(r *message.DispatchRequest, why error) {
	s.damaged(commitlog.Damage{From: r.LogOffset(), To: r.LogOffset() + message.LogOffset(r.Size()), Err: why})
}

// dispatchFailed hears of each attempt to dispatch that failed; the dispatcher
// tries again, and puts are refused once it lags too far.
func (s *DefaultMessageStore) dispatchFailed(at message.LogOffset, err error) {
	s.stats.dispatchFailures.Add(1)
	s.stuck(&s.troubles.dispatch, SinkQueues, at, err)
}

// damaged hears of ranges of the log that can not be read.
func (s *DefaultMessageStore) damaged(d commitlog.Damage) {
	s.damageMu.Lock()
	s.recovery.Damaged = append(s.recovery.Damaged, d)
	s.damageMu.Unlock()
	s.cfg.Logger.Error("unreadable range in the log: left as it is, and passed over",
		"file", d.File, "offset", d.From, "bytes", d.To-d.From, "err", d.Err)
	fire(s, "Damaged", s.cfg.Events.Damaged, d)
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
