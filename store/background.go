package store

import (
	"errors"
	"path/filepath"
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

// flush syncs the log and lets the dispatchers have what is durable.
func (s *DefaultMessageStore) flush() error {
	refused := s.log.Refusal()
	err := s.log.Flush()
	s.stats.syncs.Add(1)
	s.notify()
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

// cleanInterval is how often the store looks for something to remove when time
// or the disk decide about it.
const cleanInterval = 10 * time.Second

// maintainLoop does what is done now and then: it syncs the consume queues some
// time after they changed and moves the checkpoint, looks whether the files are
// still ours, and removes what is no longer wanted. With nothing to do, and no
// retention by time or by the disk's use, it sleeps.
func (s *DefaultMessageStore) maintainLoop() {
	var save, look alarm
	for {
		select {
		case <-s.stop:
			save.stop()
			look.stop()
			return
		case <-s.queuesKick:
			save.within(s.progressInterval())
		case <-save.c:
			save.rang()
			_ = s.checkInPlace() // it is final, and was logged
			s.save()
		case <-s.rolledKick:
			_ = s.checkInPlace()
			_, _ = s.clean(cleaning{}) // errors are logged
		case c := <-s.cleanings:
			removal, err := s.clean(c)
			c.answer <- cleaned{removal, err}
		case <-s.cleanKick:
			_, _ = s.clean(cleaning{})
			look.within(s.lookAgain())
		case <-look.c:
			look.rang()
			_ = s.reserve.refill() // what it lacks is asked for again
			_, _ = s.clean(cleaning{})
			if s.stats.blocked.Load() > 0 {
				s.room.announce() // they try whether others have made room
			}
			look.within(s.lookAgain())
		}
	}
}

// lookAgain is when to look for room and for what can be removed, 0 for not
// before there is a reason.
func (s *DefaultMessageStore) lookAgain() time.Duration {
	r := s.cfg.Retention
	switch {
	case s.stats.blocked.Load() > 0:
		return lookWhileBlocked
	case r.MaxAge > 0 || r.watchesDisk() || s.reserve.short():
		return cleanInterval
	}
	return 0
}

// alarm is a timer that is set again only for an earlier time. The zero value is
// not set.
type alarm struct {
	c     <-chan time.Time // nil while it is not set
	timer *time.Timer
	at    time.Time
}

// within makes the alarm ring after d at the latest; not at all for 0.
func (a *alarm) within(d time.Duration) {
	at := time.Now().Add(d)
	if d == 0 || a.c != nil && !at.Before(a.at) {
		return
	}
	a.stop()
	a.timer, a.at = time.NewTimer(d), at
	a.c = a.timer.C
}

// rang says that the ring was heard.
func (a *alarm) rang() { a.c = nil }

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.c = nil
}

func (s *DefaultMessageStore) save() {
	s.queuesDirty.Store(false)
	if err := s.saveProgress(false); err != nil && !errors.Is(err, message.ErrFlush) {
		s.cfg.Logger.Warn("consume queues not saved; they can be rebuilt", "dir", s.dir, "err", err)
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
	indexed, indexFiles := s.indexPoints()
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
	point := recoveryPoint{
		Generation: s.primary.Generation, LogOffset: position, Last: last, SegmentSize: s.log.FileSize(),
		Index: indexed, IndexFiles: indexFiles, Queues: points,
	}
	if !s.worthSaving(point, final) {
		return nil
	}
	if !s.flushIndex() {
		point.Index, point.IndexFiles = s.point.Index, s.point.IndexFiles
	}
	if err := s.saveCheckpoint(last.StoreTimestamp); err != nil {
		return err
	}
	if err := writeOwn(s.cfg.fs, s.dir, pointFile, point, s.cfg.FileMode); err != nil {
		return err
	}
	s.point, s.pointDue = point, false
	return nil
}

// indexPoints says how far the index is, and in which files there are entries.
func (s *DefaultMessageStore) indexPoints() (indexed message.LogOffset, files []indexPoint) {
	if s.index == nil {
		return s.point.Index, s.point.IndexFiles
	}
	indexed = s.index.files.NextLogOffset() // first: the files then have at least that
	for _, f := range s.index.files.Files() {
		if f.Header.Count > 1 {
			files = append(files, indexPoint{filepath.Base(f.Path), f.Header.EndLogOffset})
		}
	}
	return indexed, files
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
		return s.pointDue || log != 0 || index != 0
	}
	return s.pointDue || max(log, index) >= message.LogOffset(s.log.FileSize())
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
