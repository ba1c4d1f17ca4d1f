package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/pocketmq/pocketmq/message"
)

// HealthState says in one word how a store is.
type HealthState uint8

// The states, from good to bad.
const (
	HealthOK       HealthState = iota
	HealthDegraded             // it takes messages; somebody should look at it
	HealthFailed               // it refuses messages; see Health.Cause
)

func (s HealthState) String() string {
	return nameOf([]string{"healthy", "degraded", "failed"}, uint8(s))
}

// HealthCode says what is wrong.
type HealthCode uint8

// The codes. The first four make a store HealthFailed, the others
// HealthDegraded.
const (
	// HealthClosed: Close or Shutdown was called. Open it again.
	HealthClosed HealthCode = iota
	// HealthSyncFailed: a sync of the log failed, and nobody knows what of it is on
	// disk. Reads go on. Look at the disk and the kernel's log; close the store and
	// open it again, which recovers what is on disk.
	HealthSyncFailed
	// HealthFilesMoved: a file of the log was removed or replaced from outside, as
	// a RocketMQ broker does that starts in the same directory. Find out who; then
	// close the store and open it again.
	HealthFilesMoved
	// HealthDiskFull: the last put was refused for lack of space, and none has
	// succeeded since. Make space: writing resumes by itself. While there seems to
	// be space again the store counts as degraded, until a put has shown it.
	HealthDiskFull

	// HealthDiskNearlyFull: the disk has room for less than two segments, or is
	// full within an hour at the rate of the last minutes. Make space, or send less.
	HealthDiskNearlyFull
	// HealthDispatchFailing: messages can not be given to the consume queues. They
	// are kept, and not seen by consumers. It is tried again about once a second.
	// The error says why: mostly a full disk. A panic is a bug: report it.
	HealthDispatchFailing
	// HealthDispatchLagging: the consume queues are behind by more than half of
	// Config.MaxDispatchLag; beyond all of it puts wait. Send less, or look who
	// takes the processor.
	HealthDispatchLagging
	// HealthIndexFailing: messages can not be indexed, or the index can not be
	// synced. They are kept, and consumers see them; QueryMessage does not. The
	// error says why; the next Open builds again what is missing.
	HealthIndexFailing
	// HealthIndexBehind: the index is behind by more than half of
	// Config.MaxDispatchLag, perhaps because it is being built again. Queries do not
	// find the newest messages. Wait.
	HealthIndexBehind
	// HealthDamaged: ranges of the log can not be read; see Recovery.Damaged. They
	// are passed over, and the rest is served. Look with "pocketmq verify", restore
	// from a copy, and look at the disk.
	HealthDamaged
	// HealthProgressNotSaved: consume queues, checkpoint or recovery point could
	// not be written. No message is at risk: the next Open reads more of the log.
	// The error says why.
	HealthProgressNotSaved
	// HealthRebuilding: the consume queues are being built from the log, see
	// Config.RebuildInBackground. Consumers see what was built so far; puts wait.
	// Wait.
	HealthRebuilding
)

var healthCodes = [...]string{"closed", "sync-failed", "files-moved", "disk-full", "disk-nearly-full", "dispatch-failing",
	"dispatch-lagging", "index-failing", "index-behind", "damaged", "progress-not-saved", "rebuilding"}

func (c HealthCode) String() string { return nameOf(healthCodes[:], uint8(c)) }

// Health says how a store is, and why. It is a value.
type Health struct {
	State HealthState
	// Cause is what a put would be refused with: nil unless State is HealthFailed.
	// It matches message.ErrFlush, ErrMoved, message.ErrDiskFull or
	// message.ErrClosed.
	Cause   error
	Reasons []HealthReason // all that is wrong, in the order of the codes
}

// HealthReason is one thing that is wrong.
type HealthReason struct {
	Code HealthCode
	Text string // for people, with figures
	Err  error  // behind it, nil if there is none
}

// Has reports whether a code is among the reasons.
func (h Health) Has(code HealthCode) bool {
	for _, r := range h.Reasons {
		if r.Code == code {
			return true
		}
	}
	return false
}

// add notes something wrong. cause is not nil if puts are refused for it.
func (h *Health) add(code HealthCode, cause, err error, format string, args ...any) {
	h.Reasons = append(h.Reasons, HealthReason{code, fmt.Sprintf(format, args...), err})
	if cause != nil {
		h.State = HealthFailed
		if h.Cause == nil {
			h.Cause = cause
		}
	}
	h.State = max(h.State, HealthDegraded)
}

// Health says how the store is at the moment. It costs some microseconds, waits
// for no file, and may be called at any time, also after Close.
func (s *DefaultMessageStore) Health() Health {
	var h Health
	if err := s.checkOpen(); err != nil {
		h.add(HealthClosed, err, err, "the store is closed")
	}
	s.refusalHealth(&h)
	s.diskHealth(&h)
	if !h.Has(HealthDiskFull) {
		s.spaceHealth(&h)
	}
	s.dispatchHealth(&h)
	s.indexHealth(&h)
	s.damageHealth(&h)
	if f := s.troubles.progress.current.Load(); f != nil {
		h.add(HealthProgressNotSaved, nil, f.err, "progress not saved since %s: %v", stamp(f.since), f.err)
	}
	return h
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (s *DefaultMessageStore) refusalHealth(h *Health) {
	switch err := s.log.Failure(); {
	case err == nil, errors.Is(err, message.ErrClosed):
	case errors.Is(err, ErrMoved):
		h.add(HealthFilesMoved, err, err, "a file of the log was replaced from outside: %v", err)
	default:
		h.add(HealthSyncFailed, err, err, "a sync of the log failed: %v", err)
	}
}

func (s *DefaultMessageStore) diskHealth(h *Health) {
	f := s.outOfSpace()
	if f == nil {
		return
	}
	if _, free := s.space(); free >= s.spaceWanted() && s.roomWithinLimits() {
		h.add(HealthDiskFull, nil, f.err, "there was no space for a put, since %s, and there are %d bytes now: %v", stamp(f.since), free, f.err)
		return
	}
	h.add(HealthDiskFull, f.err, f.err, "no space for a put, since %s: %v", stamp(f.since), f.err)
}

// roomWithinLimits reports whether the store's own limits leave room for another
// file. One may be there already, that nothing was written to yet: the log makes it as
// soon as it may.
func (s *DefaultMessageStore) roomWithinLimits() bool {
	if s.disk.full.Load() {
		return false
	}
	size := s.log.FileSize()
	if s.cfg.MaxBytes == 0 || s.bytesStored()+size+derivedRoom(size) <= s.cfg.MaxBytes {
		return true
	}
	files := s.log.FileList()
	return len(files) > 0 && int64(files[len(files)-1].End-s.log.Visible()) >= size
}

// spaceWanted is how much free space a store in good health has: room for two
// segments.
func (s *DefaultMessageStore) spaceWanted() int64 { return 2 * s.log.FileSize() }

// soonFull is how long before it a disk counts as nearly full.
const soonFull = time.Hour

func (s *DefaultMessageStore) spaceHealth(h *Health) {
	_, free := s.space()
	left := untilFull(free, s.growth.rate(s.cfg.Now(), s.size()))
	switch {
	case free < 0: // nobody knows
	case free < s.spaceWanted():
		h.add(HealthDiskNearlyFull, nil, nil, "the disk has %d bytes left, less than two segments (%d)", free, s.spaceWanted())
	case left < soonFull:
		h.add(HealthDiskNearlyFull, nil, nil, "the disk has %d bytes left, and is full in %v at the present rate", free, left.Round(time.Second))
	}
}

func (s *DefaultMessageStore) dispatchHealth(h *Health) {
	if f := s.troubles.dispatch.current.Load(); f != nil {
		h.add(HealthDispatchFailing, nil, f.err, "not dispatched from offset %d on, since %s: %v", f.offset, stamp(f.since), f.err)
	}
	if b := s.building.Load(); b != nil {
		h.add(HealthRebuilding, nil, nil, "the consume queues are being built from the log: %d of %d bytes are left; until then puts wait", b.left(s), b.end-b.start)
		return
	}
	if lag := s.dispatcher.Lag(); lag > s.cfg.MaxDispatchLag/2 {
		h.add(HealthDispatchLagging, nil, nil, "consume queues are %d bytes behind; from %d on puts wait", lag, s.cfg.MaxDispatchLag)
	}
}

func (s *DefaultMessageStore) indexHealth(h *Health) {
	if s.index == nil {
		return
	}
	f := s.troubles.index.current.Load()
	if f == nil {
		f = s.troubles.indexFlush.current.Load()
	}
	if f != nil {
		h.add(HealthIndexFailing, nil, f.err, "not indexed, or not on disk, from offset %d on, since %s: %v", f.offset, stamp(f.since), f.err)
	}
	if lag := s.index.dispatcher.Lag(); lag > s.cfg.MaxDispatchLag/2 {
		h.add(HealthIndexBehind, nil, nil, "the index is %d bytes behind", lag)
	}
}

func (s *DefaultMessageStore) damageHealth(h *Health) {
	s.damageMu.Lock()
	defer s.damageMu.Unlock()
	damaged := s.recovery.Damaged
	if len(damaged) == 0 {
		return
	}
	bytes := message.LogOffset(0)
	for _, d := range damaged {
		bytes += d.To - d.From
	}
	h.add(HealthDamaged, nil, damaged[0], "%d ranges of the log, %d bytes, can not be read; the first one begins at offset %d", len(damaged), bytes, damaged[0].From)
}
