package store

import "github.com/pocketmq/pocketmq/message"

// SetHeldBack tells the store whom to tell what timed messages hold back: after a
// cleaning that would have removed files of the log, had no message of
// message.TimerTopic waited in them, f gets the end of the last of these files. Who
// puts those messages again, further on, frees the files. f is called from a
// goroutine of the store, must return at once, and must not call the store; nil
// ends it.
func (s *DefaultMessageStore) SetHeldBack(f func(to message.LogOffset)) {
	if f == nil {
		s.heldBack.Store(nil)
		return
	}
	s.heldBack.Store(&f)
}

// tellHeldBack says which files timed messages have kept from being chosen.
func (s *DefaultMessageStore) tellHeldBack(sit situation, chosen []doomed) {
	f := s.heldBack.Load()
	if f == nil || sit.untimed <= sit.bound {
		return
	}
	sit.bound = sit.untimed
	if wanted := s.cfg.Retention.choose(sit); len(wanted) > len(chosen) {
		(*f)(wanted[len(wanted)-1].file.End)
	}
}
