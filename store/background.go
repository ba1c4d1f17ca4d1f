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
			save.within(max(queueInterval, s.cfg.FlushInterval))
		case <-save.c:
			save.rang()
			s.save()
			s.checkInPlace()
		case <-s.rolledKick:
			s.checkInPlace()
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

// checkInPlace stops writing when somebody replaced a file of the log.
func (s *DefaultMessageStore) checkInPlace() {
	if err := s.log.CheckInPlace(); err != nil {
		s.cfg.Logger.Error("a file of the log was replaced: no more writes", "dir", s.dir, "err", err)
		s.log.Fail(err)
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
