package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// FullPolicy says what a put does when there is no room: beyond Config.MaxBytes,
// on a full disk, or above Retention.DiskWarningLevelRatio. What retention
// allows to remove is removed anyway.
type FullPolicy uint8

const (
	// RejectWhenFull answers message.ErrDiskFull at once. Nothing was stored.
	RejectWhenFull FullPolicy = iota
	// BlockWhenFull waits for room until the put's context ends.
	BlockWhenFull
	// DropOldest removes the oldest file of the log, with acknowledged messages
	// in it, and goes on. Stats counts what was dropped, and each file is
	// logged. Where nothing may be removed, because only the file that is
	// written to is left or by Retention.Groups, the put is refused.
	DropOldest
)

func (p FullPolicy) String() string {
	return nameOf([]string{"REJECT", "BLOCK", "DROP_OLDEST"}, uint8(p))
}

// lookWhileBlocked is how often the disk is looked at for puts that wait: others
// may have made room.
const lookWhileBlocked = time.Second

// room tells those who wait that there may be room.
type room struct {
	mu sync.Mutex
	ch chan struct{}
}

// changed returns a channel that is closed when there may be more room than now.
func (r *room) changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ch == nil {
		r.ch = make(chan struct{})
	}
	return r.ch
}

func (r *room) announce() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ch != nil {
		close(r.ch)
		r.ch = nil
	}
}

// shortage is one put's search for room. The zero value begins it.
type shortage struct {
	changed <-chan struct{} // as it was before the last attempt
}

// makeRoom returns nil when the put may try again, and the error it has to
// return otherwise. cause is that of the attempt; one that is not about room is
// returned as it is.
//
// The first failure leads to another attempt, before which the state is noted:
// so no change is missed between an attempt and the wait, and a file that
// another put had dropped meanwhile is enough for both.
func (s *DefaultMessageStore) makeRoom(ctx context.Context, cause error, sh *shortage) error {
	if !errors.Is(cause, segment.ErrNoSpace) {
		return cause
	}
	if err := s.checkOpen(); err != nil {
		return err
	}
	if s.cfg.WhenFull == RejectWhenFull {
		return cause
	}
	before := sh.changed
	sh.changed = s.room.changed()
	switch {
	case before == nil:
		return nil
	case s.cfg.WhenFull == DropOldest:
		return s.dropOldest(ctx, cause, before)
	}
	return s.waitForRoom(ctx, cause, before)
}

func (s *DefaultMessageStore) waitForRoom(ctx context.Context, cause error, changed <-chan struct{}) error {
	s.stats.blocked.Add(1)
	defer s.stats.blocked.Add(-1)
	s.stats.blockedPuts.Add(1)
	kick(s.cleanKick) // which then looks every second
	select {
	case <-changed:
		return s.checkOpen()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
}

// dropOldest lets the oldest file be removed, unless there was a change since
// the put noted it.
func (s *DefaultMessageStore) dropOldest(ctx context.Context, cause error, noted <-chan struct{}) error {
	end := s.log.NextFile(s.log.MinOffset())
	if end > s.log.Active() {
		return unchanged(noted, fmt.Errorf("%w; only the file that is written to is left", cause))
	}
	if err := s.dispatcher.Wait(ctx, end); err != nil { // nothing is dropped that nobody could have read
		return fmt.Errorf("%w; the oldest messages are not dispatched: %w", cause, err)
	}
	if _, err := s.askToClean(ctx, cleaning{drop: noted}); err != nil {
		return fmt.Errorf("%w; the oldest file is not removed: %w", cause, err)
	}
	return unchanged(noted, fmt.Errorf("%w; nothing may be removed (%v)", cause, s.cfg.Retention.Groups))
}

// unchanged returns err unless there was a change since it was noted.
func unchanged(noted <-chan struct{}, err error) error {
	select {
	case <-noted:
		return nil
	default:
		return err
	}
}

// admitDisk lets a put through when the disk does not count as full.
func (s *DefaultMessageStore) admitDisk(ctx context.Context) error {
	for sh := (shortage{}); ; {
		err := s.disk.check()
		if err == nil {
			return nil
		}
		if err := s.makeRoom(ctx, err, &sh); err != nil {
			return err
		}
	}
}

// permitFile is asked before the log makes a file, in the goroutine that makes
// it. What it refuses is no error to anybody before a put needs the file: so
// nothing is dropped for a file that nobody needs yet.
func (s *DefaultMessageStore) permitFile() error {
	if err := s.reserve.refill(); err != nil {
		return err
	}
	if s.cfg.Retention.DiskWarningLevelRatio > 0 {
		if err := s.disk.check(); err != nil {
			return err
		}
	}
	size := s.log.FileSize()
	if have := s.bytesStored() + size + derivedRoom(size); s.cfg.MaxBytes > 0 && have > s.cfg.MaxBytes {
		return &FullError{What: "store " + s.dir + " with another file (Config.MaxBytes)", Have: have, Limit: s.cfg.MaxBytes, Unit: "bytes"}
	}
	return nil
}

// derivedRoom is what the messages in a file of the log may need elsewhere
// before the log asks again: 20 bytes of a consume queue for each record of at
// least 92.
func derivedRoom(size int64) int64 { return size / 4 }

// bytesStored is the size of all files of log and queues, and of the reserve.
func (s *DefaultMessageStore) bytesStored() int64 {
	n := int64(s.log.Files())*s.log.FileSize() + s.reserve.bytes()
	for _, f := range s.followers {
		n += f.Bytes()
	}
	return n
}

// reserveSize is what Config.Reserve means, now that the size of the log's files
// is known. A limit that leaves no room for two of them is refused: the one that
// is written to is never removed.
func (s *DefaultMessageStore) reserveSize() (int64, error) {
	size := s.log.FileSize()
	want := s.cfg.Reserve
	if want == 0 {
		want = min(size, maxDefaultReserve)
	}
	want = max(want, 0)
	if least := want + 2*size + derivedRoom(size); s.cfg.MaxBytes > 0 && s.cfg.MaxBytes < least {
		return 0, &message.LimitError{Field: "Config.MaxBytes", Limit: least, Value: s.cfg.MaxBytes, AtLeast: true}
	}
	return want, nil
}
