package store

import (
	"errors"
	"slices"
	"time"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/message"
)

// flushLoop syncs the log: under FlushSync as soon as someone waits, all who
// have gathered at once; under FlushAsync an interval after the first message
// that is not synced. With nothing to do it sleeps.
func (s *DefaultMessageStore) flushLoop() {
	for {
		select {
		case <-s.flushKick:
		case <-s.stop:
			return
		}
		if s.cfg.Flush == FlushAsync {
			if !s.pause(s.cfg.FlushInterval) {
				return
			}
			s.flushPending.Store(false) // what comes from here on needs another sync
		}
		_ = s.flush() // those who wait get the error; it is logged, and final
	}
}

// flush syncs the log and lets the dispatcher have what is durable.
func (s *DefaultMessageStore) flush() error {
	refused := s.log.Refusal()
	err := s.log.Flush()
	s.stats.syncs.Add(1)
	s.dispatcher.Notify()
	if err != nil && refused == nil {
		s.cfg.Logger.Error("sync failed: no more writes until the store is opened again", "dir", s.dir, "err", err)
	}
	return err
}

// pause returns true after d, false when it is time to stop.
func (s *DefaultMessageStore) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.stop:
		return false
	}
}

// queueInterval is the least pause between two syncs of the consume queues.
const queueInterval = time.Second

// maintainLoop syncs the consume queues some time after they changed, moves the
// checkpoint, and looks whether the files are still ours.
func (s *DefaultMessageStore) maintainLoop() {
	for {
		select {
		case <-s.queuesKick:
		case <-s.stop:
			return
		}
		if !s.pause(max(queueInterval, s.cfg.FlushInterval)) {
			return
		}
		s.queuesDirty.Store(false)
		if err := s.saveProgress(false); err != nil && !errors.Is(err, message.ErrFlush) {
			s.cfg.Logger.Warn("consume queues not saved; they can be rebuilt", "dir", s.dir, "err", err)
		}
		if err := s.log.CheckInPlace(); err != nil {
			s.cfg.Logger.Error("a file of the log was replaced: no more writes", "dir", s.dir, "err", err)
			s.log.Fail(err)
		}
	}
}

// saveProgress syncs the log and the consume queues, and then writes down what
// that vouches for: the checkpoint for RocketMQ, and now and then, or with
// final set, the recovery point for ourselves.
func (s *DefaultMessageStore) saveProgress(final bool) error {
	last := identify(s.log, message.LogOffset(s.lastDispatched.Load())) // before the syncs: they cover this much and no more
	position := last.LogOffset + message.LogOffset(last.Size)
	if last == (lastRecord{}) || position == s.point || !final && position-s.point < message.LogOffset(s.log.FileSize()) {
		return s.syncUpTo(last)
	}
	changed := s.queues.Changed()
	units, err := unitsBefore(changed, position)
	if err == nil {
		err = s.syncUpTo(last)
	}
	if err == nil {
		err = s.savePoint(last, position, units)
	}
	if err != nil {
		s.queues.Keep(changed) // for the next attempt
		return err
	}
	s.queues.Keep(slices.DeleteFunc(changed, func(q *consumequeue.Queue) bool { return q.Max() == units[q] }))
	return nil
}

// syncUpTo syncs log and consume queues, which have everything up to the record
// last, and moves the checkpoint to it.
func (s *DefaultMessageStore) syncUpTo(last lastRecord) error {
	if err := s.log.Flush(); err != nil {
		return err
	}
	if err := s.queues.Flush(); err != nil {
		return err
	}
	if last == (lastRecord{}) {
		return nil // nothing was dispatched since Open, and nothing before it is known
	}
	cp := checkpoint{physic: last.StoreTimestamp, logics: last.StoreTimestamp, index: s.checkpoint.index}
	if cp == s.checkpoint {
		return nil
	}
	if err := cp.save(s.cfg.fs, s.dir, s.cfg.FileMode); err != nil {
		return err
	}
	s.checkpoint = cp
	return nil
}
