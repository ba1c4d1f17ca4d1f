package store

import (
	"errors"
	"runtime"
	"time"
)

// flushLoop syncs the log: under FlushSync as soon as someone waits, all who
// have gathered at once; under FlushAsync as dueAsync says. With nothing to do
// it sleeps.
func (s *DefaultMessageStore) flushLoop() {
	waited := int64(0) // how many for the last sync
	for {
		slept, ok := s.awaitFlush()
		if !ok {
			return
		}
		switch {
		case s.cfg.Flush == FlushAsync:
			if !s.dueAsync() {
				return
			}
			s.flushPending.Store(false) // what comes from here on needs another sync
		case slept && waited == 1: // the one writer that there is has come again
		default:
			s.gather()
		}
		_, waited = s.log.Waiting()
		_ = s.flush() // those who wait get the error; it is logged, and final
	}
}

// awaitFlush waits until there is something to sync, and tells whether that took
// sleep. It returns false when it is time to stop.
func (s *DefaultMessageStore) awaitFlush() (slept, ok bool) {
	select {
	case <-s.flushKick:
		return false, true
	default:
	}
	select {
	case <-s.flushKick:
		return true, true
	case <-s.stop:
		return false, false
	}
}

// gather lets the writers that the last sync has woken put their next message
// before the next sync begins: otherwise that would take along only the first of
// them, and all others would wait for two. It waits for nobody who is not ready to
// run. With one writer there is nobody to wait for, and to yield would let somebody
// else have the processor on which its message was just written.
func (s *DefaultMessageStore) gather() {
	before, _ := s.log.Placed()
	for range 8 {
		runtime.Gosched()
		now, _ := s.log.Placed()
		if now == before {
			return
		}
		before = now
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

// flush syncs the log.
func (s *DefaultMessageStore) flush() error {
	err := s.log.Flush()
	if int64(s.log.Durable())-s.pointEnd.Load() >= pointSegments*s.log.FileSize() {
		kick(s.pointKick)
	}
	s.refusing(err)
	return err
}

// pointSegments is how many segments may be synced before a recovery point is due
// at once. It costs another sync of the log, which interrupts the other
// processors for each page that is ready ahead of the writer.
const pointSegments = 8

// queueInterval is the least pause between two syncs of the consume queues.
const queueInterval = time.Second

// pausePerSave is how much longer than a save the pause before the next one is at
// least: with very many queues in use, or a slow disk, most of the time must be
// left for messages.
const pausePerSave = 10

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
	var took time.Duration // the last save
	for {
		select {
		case <-s.stop:
			save.stop()
			look.stop()
			return
		case <-s.queuesKick:
			save.within(max(s.progressInterval(), took*pausePerSave))
		case <-save.c:
			save.rang()
			_ = s.checkInPlace() // it is final, and was logged
			began := time.Now()
			s.save()
			took = time.Since(began)
		case <-s.pointKick:
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
	s.progressSaved(s.saveProgress(false))
	s.observe()
}

// observe notes how much there is, and which files of the log came and went.
func (s *DefaultMessageStore) observe() {
	s.growth.observe(s.cfg.Now(), s.size())
	s.noticeSegments(s.log.MinOffset(), s.log.Visible())
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
	s.refusing(s.log.Failure())
	back, backErr := s.log.PutBack()
	s.cfg.Logger.Warn("files of the log that were removed are put back", "dir", s.dir, "files", back, "err", backErr)
	return errors.Join(err, backErr)
}

// progress makes the maintenance goroutine save what was dispatched, some time
// from now.
func (s *DefaultMessageStore) progress() {
	if !s.queuesDirty.Load() && !s.queuesDirty.Swap(true) {
		kick(s.queuesKick)
	}
}
