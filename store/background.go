package store

import (
	"errors"
	"time"

	"github.com/pocketmq/pocketmq/message"
)

// flushLoop syncs the log: under FlushSync as soon as someone waits, all who
// have gathered at once; under FlushAsync as dueAsync says. With nothing to do
// it sleeps.
func (s *DefaultMessageStore) flushLoop() {
	for {
		select {
		case <-s.flushKick:
		case <-s.stop:
			return
		}
		if s.cfg.Flush == FlushAsync {
			if !s.dueAsync() {
				return
			}
			s.flushPending.Store(false) // what comes from here on needs another sync
		}
		_ = s.flush() // those who wait get the error; it is logged, and final
	}
}

// dueAsync returns true when it is time to sync what was placed under FlushAsync:
// an interval after the first message that is not synced if there are enough
// pages, after the longer one in any case, at once when there is so much that
// puts would soon have to wait. It returns false when it is time to stop.
//
// Source: RocketMQ store/CommitLog.java, FlushRealTimeService.
func (s *DefaultMessageStore) dueAsync() bool {
	for waited := s.cfg.FlushInterval; ; waited += s.cfg.FlushInterval {
		t := time.NewTimer(s.cfg.FlushInterval)
		select {
		case <-t.C:
		case <-s.flushNow:
			t.Stop()
			return true
		case <-s.stop:
			t.Stop()
			return false
		}
		if s.log.DirtyPages() >= int64(s.cfg.FlushLeastPages) || waited >= s.cfg.FlushThoroughInterval {
			return true
		}
	}
}

// flushLater sees to it that a message placed under FlushAsync is synced.
func (s *DefaultMessageStore) flushLater() {
	if !s.flushPending.Load() && !s.flushPending.Swap(true) {
		kick(s.flushKick)
	}
	if s.log.Dirty() >= s.cfg.MaxDirtyBytes/2 {
		s.flushSoon()
	}
}

// flushSoon ends the pause before the next sync under FlushAsync.
func (s *DefaultMessageStore) flushSoon() { kick(s.flushNow) }

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

// progressInterval is the pause before progress is saved, which syncs the log:
// under FlushAsync not more often than few pages are to be synced.
func (s *DefaultMessageStore) progressInterval() time.Duration {
	d := max(queueInterval, s.cfg.FlushInterval)
	if s.cfg.Flush == FlushAsync && s.cfg.FlushLeastPages > 0 {
		d = max(d, s.cfg.FlushThoroughInterval)
	}
	return d
}

// maintainLoop syncs the consume queues some time after they changed, moves the
// checkpoint, and looks whether the files are still ours.
func (s *DefaultMessageStore) maintainLoop() {
	for {
		select {
		case <-s.queuesKick:
		case <-s.stop:
			return
		}
		if !s.pause(s.progressInterval()) {
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
	points := queuePoints(s.queues, position)
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
	if cp != s.checkpoint {
		if err := cp.save(s.cfg.fs, s.dir, s.cfg.FileMode); err != nil {
			return err
		}
		s.checkpoint = cp
	}
	if position == s.point || !final && position-s.point < message.LogOffset(s.log.FileSize()) {
		return nil
	}
	point := recoveryPoint{LogOffset: position, Last: last, Queues: points, SegmentSize: s.log.FileSize()}
	if err := writeOwn(s.cfg.fs, s.dir, pointFile, point, s.cfg.FileMode); err != nil {
		return err
	}
	s.point = position
	return nil
}
