package store

import (
	"errors"
	"time"

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
		_ = s.checkInPlace() // it is final, and was logged
		if err := s.saveProgress(false); err != nil && !errors.Is(err, message.ErrFlush) {
			s.cfg.Logger.Warn("consume queues not saved; they can be rebuilt", "dir", s.dir, "err", err)
		}
	}
}

// checkInPlace looks whether the files of the log are still ours. If not, the
// log refuses writes, and what a file held that was removed is put back: a
// RocketMQ broker that starts removes what it takes for empty, before it finds
// that it may not.
func (s *DefaultMessageStore) checkInPlace() error {
	err := s.log.CheckInPlace()
	if err == nil {
		return nil
	}
	s.log.Fail(err)
	back, backErr := s.log.PutBack()
	err = errors.Join(err, backErr)
	s.cfg.Logger.Error("a file of the log was replaced: no more writes", "dir", s.dir, "err", err, "put back", back)
	return err
}

// saveProgress syncs the log and the consume queues, and then writes down what
// that vouches for: the checkpoint for RocketMQ, and now and then, or with
// final set, the recovery point for ourselves.
func (s *DefaultMessageStore) saveProgress(final bool) error {
	last := identify(s.log, message.LogOffset(s.lastDispatched.Load())) // before the syncs: they cover this much and no more
	position := last.LogOffset + message.LogOffset(last.Size)
	points := queuePoints(s.queues, position)
	indexed := s.point.Index
	if s.index != nil {
		indexed = s.index.files.NextLogOffset()
	}
	if err := s.log.Flush(); err != nil {
		return err
	}
	if err := s.queues.Flush(); err != nil {
		return err
	}
	if last == (lastRecord{}) {
		return nil // nothing was dispatched since Open, and nothing before it is known
	}
	if err := s.saveCheckpoint(last.StoreTimestamp); err != nil {
		return err
	}
	point := recoveryPoint{Generation: s.primary.Generation, LogOffset: position, Last: last, Index: indexed, Queues: points, SegmentSize: s.log.FileSize()}
	if !s.worthSaving(point, final) {
		return nil
	}
	if !s.flushIndex() {
		point.Index = s.point.Index
	}
	if err := s.saveCheckpoint(last.StoreTimestamp); err != nil {
		return err
	}
	if err := writeOwn(s.cfg.fs, s.dir, pointFile, point, s.cfg.FileMode); err != nil {
		return err
	}
	s.point = point
	return nil
}

// saveCheckpoint writes RocketMQ's, if it changes: log and queues are on disk up
// to the store time t, and the index is as far as its files are full.
func (s *DefaultMessageStore) saveCheckpoint(t int64) error {
	cp := checkpoint{physic: t, logics: t, index: s.checkpoint.index}
	if s.index != nil {
		if full, _, ok := s.index.files.LastFull(); ok {
			cp.index = full
		}
	}
	if cp == s.checkpoint {
		return nil
	}
	if err := cp.save(s.cfg.fs, s.dir, s.cfg.FileMode); err != nil {
		return err
	}
	s.checkpoint = cp
	return nil
}

// worthSaving reports whether the point would spare the next Open much.
func (s *DefaultMessageStore) worthSaving(p recoveryPoint, final bool) bool {
	log, index := p.LogOffset-s.point.LogOffset, p.Index-s.point.Index
	if final {
		return log != 0 || index != 0
	}
	return max(log, index) >= message.LogOffset(s.log.FileSize())
}

// flushIndex makes the index durable, false if it can not. That costs nobody
// anything until the next Open, which repairs it.
func (s *DefaultMessageStore) flushIndex() bool {
	if s.index == nil || s.index.failed != nil {
		return false
	}
	if s.index.failed = s.index.files.Flush(); s.index.failed != nil {
		s.cfg.Logger.Error("index not flushed; the next open will repair it", "dir", s.dir, "err", s.index.failed)
	}
	return s.index.failed == nil
}

// progress makes the maintenance goroutine save what was dispatched, some time
// from now.
func (s *DefaultMessageStore) progress() {
	if !s.queuesDirty.Load() && !s.queuesDirty.Swap(true) {
		kick(s.queuesKick)
	}
}
