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
	if !batch {
		from = noBatch
	}
	if err := s.gather(r, from); err != nil {
		return err
	}
	if end := r.LogOffset() + message.LogOffset(r.Size()); !batch || end == to {
		s.run.batch, s.run.last, s.run.ends = noBatch, r.LogOffset(), true
	}
	return nil
}

// Complete implements dispatcher.Sink: it puts the units that were gathered, but
// for those of a batch that is not whole.
func (s *queueSink) Complete() error {
	if s.run.batch == noBatch {
		if err := s.putRun(); err != nil {
			return err
		}
	}
	if s.run.ends {
		s.run.ends = false
		s.lastDispatched.Store(int64(s.run.last))
	}
	(*DefaultMessageStore)(s).progress()
	return nil
}

// run is units for one queue that follow one another: put at once they cost a
// fraction. The units of a batch, from its first record to its last, are alone in a
// run: readers see none of it before they see all.
type run struct {
	queue *consumequeue.Queue
	first message.QueueOffset
	units []consumequeue.Unit

	batch message.LogOffset // where the batch begins that is not whole, noBatch for none
	last  message.LogOffset // the newest record before which nothing is left of a batch, itself included
	ends  bool              // last is set, and not in lastDispatched
}

// noBatch is no log offset.
const noBatch = message.LogOffset(-1)

// gather adds the record's unit, if it has one, to the run. from is where its
// batch begins, or noBatch. A record that is given again after an error replaces
// itself, and what comes behind it.
func (s *queueSink) gather(r *message.DispatchRequest, from message.LogOffset) error {
	run := &s.run
	if from != run.batch { // or what is left of one whose last record can not be read any more
		if err := s.putRun(); err != nil {
			return err
		}
		run.batch = from
	}
	if !r.SysFlag().Queued() {
		return nil
	}
	i, ok := run.place(r)
	if !ok {
		if err := s.putRun(); err != nil {
			return err
		}
		q, err := s.queueOf(r)
		if q == nil || err != nil {
			return err
		}
		run.first, i = r.QueueOffset(), 0
	}
	run.units = append(run.units[:i], unitOf(r))
	return nil
}

// place is where the record's unit goes in the run: behind the last one, or where
// it is already.
func (b *run) place(r *message.DispatchRequest) (i int, ok bool) {
	if len(b.units) == 0 || r.QueueID() != b.queue.ID || string(r.Topic()) != b.queue.Topic {
		return 0, false
	}
	i = int(r.QueueOffset() - b.first)
	return i, i == len(b.units) || i >= 0 && i < len(b.units) && b.units[i].LogOffset == r.LogOffset()
}

// putRun puts what was gathered, and tells who waits for it.
func (s *queueSink) putRun() error {
	run := &s.run
	if len(run.units) == 0 {
		return nil
	}
	if err := run.queue.PutAll(run.first, run.units); err != nil {
		return typed(err)
	}
	run.units = run.units[:0]
	s.arrivals.came(run.queue.Topic)
	return nil
}

// put makes the record's unit at once, and returns the queue that has it. A record
// that takes no queue offset has none, and neither has one that fits in no queue,
// which is reported as damage.
func (s *queueSink) put(r *message.DispatchRequest, rewrite bool) (*consumequeue.Queue, error) {
	if !r.SysFlag().Queued() {
		return nil, nil
	}
	q, err := s.queueOf(r)
	if q == nil || err != nil {
		return nil, err
	}
	return q, typed(q.Put(r.QueueOffset(), unitOf(r), rewrite))
}

// queueOf is the queue that the record belongs to, made if need be; nil if it fits
// in none. All units before it are put.
func (s *queueSink) queueOf(r *message.DispatchRequest) (*consumequeue.Queue, error) {
	q := s.run.queue
	if q == nil || q.ID != r.QueueID() || q.Topic != string(r.Topic()) {
		var err error
		if q, err = consumequeue.Find(s.queues, r.Topic(), r.QueueID()); err != nil {
			return nil, typed(err)
		}
	}
	if misfit := s.misfit(r, q); misfit != nil {
		(*DefaultMessageStore)(s).damagedRecord(r, misfit)
		return nil, nil
	}
	if q == nil {
		var err error
		if q, err = s.queues.Make(string(r.Topic()), r.QueueID()); err != nil {
			return nil, typed(err)
		}
	}
	s.run.queue = q
	return q, nil
}

func unitOf(r *message.DispatchRequest) consumequeue.Unit {
	return consumequeue.Unit{LogOffset: r.LogOffset(), Size: int32(r.Size()), TagsCode: r.TagsCode}
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
