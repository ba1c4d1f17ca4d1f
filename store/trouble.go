package store

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/message"
)

// troubles are what fails at the moment and is tried again, and what failed for
// good.
type troubles struct {
	dispatch, index trouble // since the last message that passed
	progress        trouble // saving it
	indexFlush      trouble // for good
	disk            trouble // a put found no space; over when the log ends behind its offset

	refusalTold atomic.Bool
}

// trouble is one failure, from the first attempt that failed until one succeeds.
type trouble struct{ current atomic.Pointer[failure] }

type failure struct {
	offset message.LogOffset
	err    error     // of the last attempt
	since  time.Time // the first one
}

// failed notes an attempt, and reports whether it is the first that failed.
func (t *trouble) failed(now time.Time, offset message.LogOffset, err error) (first bool) {
	for {
		f := &failure{offset, err, now}
		old := t.current.Load()
		if old != nil {
			f.since = old.since
		}
		if t.current.CompareAndSwap(old, f) {
			return old == nil
		}
	}
}

// over notes that it succeeded, and returns what had failed before, if anything.
func (t *trouble) over() *failure {
	if t.current.Load() == nil {
		return nil
	}
	return t.current.Swap(nil)
}

// stuck hears of each attempt to dispatch that failed; the dispatcher tries
// again, and puts are refused once it lags too far.
func (s *DefaultMessageStore) stuck(t *trouble, sink Sink, at message.LogOffset, err error) {
	now := s.cfg.Now()
	if !t.failed(now, at, err) {
		return
	}
	s.cfg.Logger.Error("dispatch failed; will try again", "dir", s.dir, "sink", sink, "offset", at, "err", err)
	fire(s, "DispatchFailed", s.cfg.Events.DispatchFailed, DispatchEvent{sink, at, typed(err), now})
}

// recovered hears that messages were dispatched.
func (s *DefaultMessageStore) recovered(t *trouble, sink Sink) {
	was := t.over()
	if was == nil {
		return
	}
	s.cfg.Logger.Info("dispatch goes on", "dir", s.dir, "sink", sink, "offset", was.offset, "since", was.since)
	fire(s, "DispatchResumed", s.cfg.Events.DispatchResumed, DispatchEvent{sink, was.offset, typed(was.err), was.since})
}

// refusing hears of an error of a sync, or of a file that was replaced: what
// makes the log refuse all puts. It is told once.
func (s *DefaultMessageStore) refusing(err error) {
	if err == nil || errors.Is(err, message.ErrClosed) || s.troubles.refusalTold.Swap(true) {
		return
	}
	text := "sync failed: no more writes until the store is opened again"
	if errors.Is(err, ErrMoved) {
		text = "a file of the log was replaced: no more writes until the store is opened again"
	}
	s.cfg.Logger.Error(text, "dir", s.dir, "err", err)
	fire(s, "WritesRefused", s.cfg.Events.WritesRefused, err)
}

// noSpace hears why a put was refused.
func (s *DefaultMessageStore) noSpace(err error) {
	if !errors.Is(err, message.ErrDiskFull) {
		return
	}
	s.outOfSpace()
	if !s.troubles.disk.failed(s.cfg.Now(), s.log.Visible(), err) {
		return
	}
	_, free := s.space()
	s.cfg.Logger.Error("disk full: puts are refused until there is space", "dir", s.dir, "free", free, "err", err)
	fire(s, "DiskFull", s.cfg.Events.DiskFull, DiskFullEvent{err, free})
}

// outOfSpace is what put found no space last; nil if a message was stored since.
func (s *DefaultMessageStore) outOfSpace() *failure {
	f := s.troubles.disk.current.Load()
	if f != nil && s.log.Visible() > f.offset {
		s.troubles.disk.current.CompareAndSwap(f, nil)
		return nil
	}
	return f
}

// progressSaved hears how saving progress ended.
func (s *DefaultMessageStore) progressSaved(err error) {
	switch {
	case err == nil:
		s.troubles.progress.over()
	case errors.Is(err, message.ErrFlush):
		s.refusing(err)
	case s.troubles.progress.failed(s.cfg.Now(), 0, err):
		s.cfg.Logger.Warn("progress not saved: the next open will take longer", "dir", s.dir, "err", err)
	}
}
