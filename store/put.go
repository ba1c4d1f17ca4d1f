package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/dispatcher"
	"github.com/pocketmq/pocketmq/message"
)

// PutMessage stores one message. The message is not changed, and may be used
// again on return.
//
// The error is nil exactly when the promise of Config.Flush was kept. With
// message.ErrFlushTimeout, or when ctx ends during the wait for the sync, the
// message is in the log all the same: the result says where, its status is
// FLUSH_DISK_TIMEOUT, and the message may be delivered. With message.ErrFlush
// the sync failed: the message will not be seen before the store is opened
// again, and perhaps then. After every other error nothing was stored and no
// queue offset used: *message.LimitError and *message.IllegalError for the
// message, message.ErrClosed, message.ErrDiskFull (see Config.WhenFull),
// commitlog.ErrNoSegment when the next file could not be made, ctx's error.
//
// ctx bounds all waiting: for room, for a dispatcher that lags by more than
// Config.MaxDispatchLag, for consume queues that are being built in the background,
// for the sync.
//
// Source: RocketMQ store/DefaultMessageStore.java, asyncPutMessage.
func (s *DefaultMessageStore) PutMessage(ctx context.Context, m *message.MessageExtBrokerInner) (r PutMessageResult, err error) {
	defer s.measures.put.since(s.beginPut())
	p, err := s.place(ctx, m, nil)
	if err != nil {
		return s.refused(err, string(m.Properties))
	}
	r.Count, r.StoreHost = 1, m.StoreHost
	s.placed(&r, p)
	err = s.wait(ctx, p, &r, m.NoWait)
	return r, err
}

// place is the part of a put before the wait for a sync; then, if not nil, hears
// of that.
func (s *DefaultMessageStore) place(ctx context.Context, m *message.MessageExtBrokerInner, then *asyncPut) (p commitlog.Placement, err error) {
	if err := s.awaitBuilt(ctx); err != nil {
		return p, err
	}
	counter, err := s.check(&m.MessageExt)
	if err != nil {
		return p, fmt.Errorf("put: %w", err)
	}
	if err := s.admit(ctx); err != nil {
		return p, err
	}
	for sh := (shortage{}); ; {
		if then == nil {
			p, err = s.log.Append(ctx, &m.MessageExt, counter)
		} else {
			p, err = s.log.AppendThen(ctx, &m.MessageExt, counter, then)
		}
		if err == nil {
			return p, nil
		}
		if err := s.makeRoom(ctx, err, &sh); err != nil {
			return p, fmt.Errorf("put: %w", err)
		}
	}
}

// PutMessages stores a batch: its messages get consecutive queue offsets, stand
// one after the other in the log, and become visible together. A batch that a
// crash of the system cuts off before its acknowledgement may survive in part.
// An empty batch, one in transaction and one with a delay are refused. It
// returns like PutMessage.
func (s *DefaultMessageStore) PutMessages(ctx context.Context, b *message.MessageExtBatch) (PutMessageResult, error) {
	defer s.measures.put.since(time.Now())
	p, r, err := s.placeBatch(ctx, b, nil)
	if err != nil {
		return r, err
	}
	s.placed(&r, p)
	err = s.wait(ctx, p, &r, b.NoWait)
	return r, err
}

// placeBatch is place for a batch. Without an error r has what placed does not
// set; then, if not nil, gets it before it can be called.
func (s *DefaultMessageStore) placeBatch(ctx context.Context, b *message.MessageExtBatch, then *asyncPut) (p commitlog.Placement, r PutMessageResult, err error) {
	if err := s.checkBatch(b); err != nil {
		r, err = s.refused(fmt.Errorf("put batch: %w", err), "")
		return p, r, err
	}
	if err := s.awaitBuilt(ctx); err != nil {
		r, err = s.refused(err, "")
		return p, r, err
	}
	if err := s.admit(ctx); err != nil {
		r, err = s.refused(err, "")
		return p, r, err
	}
	records := batches.Get().(*commitlog.Batch)
	defer batches.Put(records)
	if err := records.Encode(b, s.host, s.cfg.MaxBodySize, s.cfg.MaxBodySize+message.MaxRecordOverhead, s.cfg.AppendPropertyCRC); err != nil {
		r, err = s.refused(fmt.Errorf("put: %w", err), "")
		if errors.Is(err, message.ErrCorrupt) { // it is the batch that can not be read
			r.Status = PutMessageIllegal
		}
		return p, r, err
	}
	if records.Len() == 0 {
		r, err = s.refused(fmt.Errorf("put: %w", &message.IllegalError{Field: "batch", Reason: "has no message"}), "")
		return p, r, err
	}
	counter := s.counters.find(b.Topic, b.QueueID)
	if counter == nil { // each record has passed the check of its topic
		if counter, err = s.newCounter(b.Topic, b.QueueID); err != nil {
			r, err = s.refused(fmt.Errorf("put: %w", err), "")
			return p, r, err
		}
	}
	r = PutMessageResult{Count: records.Len(), Offsets: records.LogOffsets(0), StoreHost: b.StoreHost}
	if then != nil {
		then.result = r
	}
	for sh := (shortage{}); ; {
		if then == nil {
			p, err = s.log.AppendBatch(ctx, records, counter)
		} else {
			p, err = s.log.AppendBatchThen(ctx, records, counter, then)
		}
		if err == nil {
			return p, r, nil
		}
		if err := s.makeRoom(ctx, err, &sh); err != nil {
			r, err = s.refused(fmt.Errorf("put: %w", err), "")
			return p, r, err
		}
	}
}

// check refuses what would harm the log, and returns the counter of the queue.
func (s *DefaultMessageStore) check(m *message.MessageExt) (*commitlog.Counter, error) {
	// A queue that has a counter was looked at before, but RocketMQ may have
	// made it with a longer topic.
	if counter := s.counters.find(m.Topic, m.QueueID); counter != nil && len(m.Topic) <= message.MaxTopicLength {
		return counter, m.CheckLengths(s.cfg.MaxBodySize)
	}
	if err := m.Check(s.cfg.MaxBodySize); err != nil {
		return nil, err
	}
	return s.newCounter(m.Topic, m.QueueID)
}

// newCounter makes the counter of a queue that got no message since Open, so all
// that it has were dispatched before.
func (s *DefaultMessageStore) newCounter(topic string, queueID int32) (*commitlog.Counter, error) {
	q, err := consumequeue.Find(s.queues, topic, queueID)
	if err != nil {
		return nil, err
	}
	next := message.QueueOffset(0)
	if q != nil {
		next = q.Max()
	}
	return s.counters.add(topic, queueID, next)
}

// batches keeps the buffers in which batches are encoded.
var batches = sync.Pool{New: func() any { return new(commitlog.Batch) }}

func (s *DefaultMessageStore) checkBatch(b *message.MessageExtBatch) error {
	if len(b.Body) > s.cfg.MaxBodySize {
		return &message.LimitError{Field: "batch", Limit: int64(s.cfg.MaxBodySize), Value: int64(len(b.Body))}
	}
	if b.SysFlag.Transaction() != message.TransactionNone {
		return &message.IllegalError{Field: "batch", Reason: "is in a transaction"}
	}
	if d, ok := b.Properties.Get(message.PropertyDelayLevel); ok && d != "0" {
		return &message.IllegalError{Field: "batch", Value: d, Reason: "has a delay level"}
	}
	return nil
}

// admit lets a put through: not when the store is closed, not while the disk
// counts as full, and not while the dispatcher lags too far behind.
func (s *DefaultMessageStore) admit(ctx context.Context) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.disk.full.Load() {
		if err := s.admitDisk(ctx); err != nil {
			return err
		}
	}
	lagging, end := s.lagging()
	if lagging == nil {
		return nil
	}
	s.stats.lagWaits.Add(1)
	s.stats.waitingForDispatch.Add(1)
	defer s.stats.waitingForDispatch.Add(-1)
	if err := lagging.Wait(ctx, end-message.LogOffset(s.cfg.MaxDispatchLag)); err != nil {
		return fmt.Errorf("dispatcher lags by %d bytes: %w", lagging.Lag(), err)
	}
	return nil
}

// lagging is the dispatcher that is too far behind the end of the log, nil for
// none.
func (s *DefaultMessageStore) lagging() (*dispatcher.Dispatcher, message.LogOffset) {
	end := s.log.Visible()
	if int64(end) < s.lagCheck.Load() {
		return nil, end
	}
	lagging, lag := s.dispatcher, s.dispatcher.Lag()
	if s.index != nil {
		if l := s.index.lag(s.cfg.MaxDispatchLag / 2); l > lag {
			lagging, lag = s.index.dispatcher, l
		}
	}
	if lag <= s.cfg.MaxDispatchLag/2 {
		s.lagCheck.Store(int64(end) - lag + s.cfg.MaxDispatchLag) // until then it can not be exceeded
	}
	if lag <= s.cfg.MaxDispatchLag {
		return nil, end
	}
	return lagging, end
}

// placed announces what was placed at p, and completes r.
func (s *DefaultMessageStore) placed(r *PutMessageResult, p commitlog.Placement) {
	if s.cfg.Flush == FlushAsync {
		s.dispatcher.Notify()
		s.flushLater()
	} else {
		kick(s.flushKick)
	}
	s.complete(r, p)
}

// complete says in r where p is. The offsets of a batch count from its first record
// before.
func (s *DefaultMessageStore) complete(r *PutMessageResult, p commitlog.Placement) {
	r.LogOffset, r.QueueOffset, r.Bytes, r.StoreTimestamp = p.LogOffset, p.QueueOffset, p.Bytes, p.StoreTimestamp
	for i := range r.Offsets {
		r.Offsets[i] += p.LogOffset
	}
	if r.StoreHost == (message.Host{}) {
		r.StoreHost = s.host
	}
}

// wait waits for the sync of p where that was promised.
func (s *DefaultMessageStore) wait(ctx context.Context, p commitlog.Placement, r *PutMessageResult, noWait bool) error {
	if s.cfg.Flush == FlushAsync || noWait {
		return nil
	}
	return s.synced(r, s.log.Wait(ctx, p, s.cfg.FlushTimeout))
}

// synced makes the answer to a put whose message was placed, from how its sync
// ended.
func (s *DefaultMessageStore) synced(r *PutMessageResult, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, message.ErrFlush):
		s.stats.putFailures.Add(1)
		r.Status = PutServiceNotAvailable
		return err
	default:
		s.stats.putFailures.Add(1)
		r.Status = PutFlushDiskTimeout
		if errors.Is(err, message.ErrFlushTimeout) {
			return fmt.Errorf("%w (%v)", err, s.cfg.FlushTimeout)
		}
		return fmt.Errorf("message stored at %d: wait for its sync: %w", r.LogOffset, err)
	}
}

// refused makes the answer to a put that stored nothing. properties are those
// of the message where they may be what is wrong.
func (s *DefaultMessageStore) refused(err error, properties string) (PutMessageResult, error) {
	err = typed(err)
	s.stats.putFailures.Add(1)
	s.noSpace(err)
	status := PutUnknownError
	var limit *message.LimitError
	switch {
	case errors.As(err, &limit) && limit.Field == "properties" && len(utf16.Encode([]rune(properties))) <= message.MaxPropertiesLength:
		status = PutPropertiesSizeExceeded // RocketMQ's name where characters would fit and bytes do not
	case errors.Is(err, message.ErrLimit), errors.Is(err, message.ErrIllegal):
		status = PutMessageIllegal
	case errors.Is(err, message.ErrClosed), errors.Is(err, message.ErrFlush), errors.Is(err, message.ErrDiskFull):
		status = PutServiceNotAvailable
	case errors.Is(err, commitlog.ErrNoSegment):
		status = PutCreateMapedFileFailed
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		status = PutOSPageCacheBusy
	}
	return PutMessageResult{Status: status}, err
}

func kick(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
