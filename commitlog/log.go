// Package commitlog is RocketMQ's CommitLog: one sequence of records over
// fixed-size files, in which every message of a store lies once.
//
// Laws of the package:
//
//   - Offsets are assigned under one short lock. No sync, page allocation, file
//     creation or log line happens under it.
//   - Nobody sees a record before Visible covers it: without staging at once,
//     with staging after its sync.
//   - A failed sync is final: every later append is refused with its cause.
//   - Positions move only after the bytes are in place.
//
// A Log works in one of two ways. Without staging a record is written straight
// into the mapped file: it is in the page cache when Append returns. With
// staging records are collected in memory, and Flush writes and syncs all of
// them at once: no page of the file is touched under the lock, and what was not
// synced is nowhere.
package commitlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// Config says where a log lies and how it works.
type Config struct {
	FS       segment.FS
	Dir      string
	FileSize int64 // bytes; 0 takes the size of the files that are there
	FileMode fs.FileMode
	DirMode  fs.FileMode
	Cache    *segment.Cache // bounds how many files are mapped; nil means no bound

	Staged bool // see the package comment
	Now    func() time.Time

	// SyncTimeout is how long a Completion waits at most; needed with Staged.
	SyncTimeout time.Duration
	// MaxDirty bounds, without staging, the bytes that are not synced: an append
	// beyond it calls WantFlush, which must lead to a Flush soon, and waits for
	// that. 0 is no bound. A single placement may be larger.
	MaxDirty  int64
	WantFlush func()

	AppendCRC   bool                // give each record message.PropertyCRC32
	StoreHost   message.Host        // for records that do not bring their own
	DelayLevels message.DelayLevels // decide the tags code of parked messages
	// Damaged, if not nil, is told of each range that Scan finds unreadable.
	Damaged func(Damage)
	// Permit, if not nil, is asked before each new file, off the put lock. An
	// append that needs the file gets its error, and may be tried again.
	Permit func() error
	// Rolled, if not nil, is called when an append has gone on to another file.
	// The put lock is held: it must return at once.
	Rolled func()
	// Visible, if not nil, is called with staging when Visible has moved, before
	// anybody is answered who waits for that sync. It must return at once.
	Visible func()
	// Synced, if not nil, is told of each sync that put something on disk, by the
	// goroutine that called Flush, which holds no lock any more.
	Synced func(Sync)
}

// Log is a commit log. After Open come Recover and Start; then all methods may
// be called concurrently.
type Log struct {
	cfg   Config
	files *segment.Files
	size  int64 // of a file
	ahead *segment.Ahead

	waiting waiting

	_       [64]byte     // apart from what appends change under the lock
	visible atomic.Int64 // readers and the dispatcher stay below
	_       [64]byte
	durable atomic.Int64 // synced

	completions *completions // nil without staging
	batches     batchRanges
	recent      *recent // nil when nobody follows

	flushing sync.Mutex                // held by the one Flush that works; taken before mu
	syncing  atomic.Pointer[time.Time] // when the Flush under way began; nil when none is
	counted  int64                     // messages that a Sync has told; guarded by flushing

	mu       sync.Mutex    // the put lock
	end      int64         // where the next record goes
	current  *segment.File // holds end, pinned; nil before the first append to a file
	lastTime int64         // store timestamp of the last record, ms
	staged   *group        // collects appends; nil without staging
	spare    []byte        // buffer for the next group
	flushed  chan struct{} // closed by the next Flush that moved durable, or failed; nil when nobody waits for it
	failed   error         // the sync that failed
	closed   bool
	messages int64 // placed since Start
	bytes    int64 // of their records
	taken    int64 // of them, those that the last sync was to take along

	damageMu sync.Mutex
	damage   []Damage // known unreadable ranges, ascending
}

// Open loads the files of the log. It changes nothing but for a zero-length
// last file, which it removes.
func Open(cfg Config) (*Log, error) {
	files, err := segment.Open(segment.Config{
		FS: cfg.FS, Dir: cfg.Dir, FileSize: cfg.FileSize, Step: allocationStep,
		FileMode: cfg.FileMode, DirMode: cfg.DirMode, Cache: cfg.Cache,
	})
	if err != nil {
		return nil, fmt.Errorf("commit log: %w", err)
	}
	return &Log{cfg: cfg, files: files, size: files.FileSize()}, nil
}

const (
	// allocationStep is how much of a file gets blocks at once.
	allocationStep = 1 << 20
	// aheadWindow is how much stays ready before a fast writer, about 30 ms of
	// messages at 1 GB/s; no more than one file.
	aheadWindow = 32 << 20
	// stagedWindow is that with staging. What is filled with zeros in it goes to disk
	// with the next sync, so with more of it the slowest puts wait longer; with less,
	// more syncs change the metadata of the file, which makes them twice as long. So
	// it is what is written in stagedLead, and leastStaged before a slow writer.
	stagedWindow = 1 << 20
	leastStaged  = 256 << 10
	stagedLead   = 4 * time.Millisecond
)

// Start makes the log ready for appends after its end, which Recover found.
func (l *Log) Start(end message.LogOffset, lastTime int64) {
	l.end, l.lastTime = int64(end), lastTime
	l.visible.Store(l.end)
	l.durable.Store(l.end)
	if l.cfg.Staged {
		l.staged = newGroup(l.size, nil)
		l.completions = startCompletions(&l.durable, l.cfg.SyncTimeout)
	}
	ahead := segment.AheadConfig{Window: min(aheadWindow, l.size), Populate: true, Permit: l.cfg.Permit}
	if l.cfg.Staged {
		ahead.Window, ahead.Populate = min(stagedWindow, l.size), false
		ahead.Lead, ahead.Least = stagedLead, min(leastStaged, l.size)
	}
	l.ahead = l.files.StartAhead(l.end, ahead)
}

// Files is the number of files.
func (l *Log) Files() int { return len(l.files.Snapshot()) }

// FileSize is the size of each file in bytes.
func (l *Log) FileSize() int64 { return l.size }

// MinOffset is the start of the first file, 0 for a log without files.
func (l *Log) MinOffset() message.LogOffset {
	if f := l.files.First(); f != nil {
		return message.LogOffset(f.Base())
	}
	return 0
}

// Visible is the end of what may be read.
func (l *Log) Visible() message.LogOffset { return message.LogOffset(l.visible.Load()) }

// End is Visible, for the dispatcher: it implements dispatcher.Source.
func (l *Log) End() message.LogOffset { return l.Visible() }

// Durable is the end of what is known to be on disk.
func (l *Log) Durable() message.LogOffset { return message.LogOffset(l.durable.Load()) }

// Dirty is the number of bytes that are visible and not known to be on disk.
func (l *Log) Dirty() int64 { return max(0, l.visible.Load()-l.durable.Load()) }

// DirtyPages is Dirty in pages of 4,096 bytes, counted as RocketMQ does: by the
// pages that the two ends lie in. The end of a file counts as many.
//
// Source: RocketMQ store/MappedFile.java, isAbleToFlush.
func (l *Log) DirtyPages() int64 {
	visible, durable := l.visible.Load(), l.durable.Load()
	if visible-visible%l.size > durable {
		return math.MaxInt64
	}
	return max(0, visible/dirtyPage-durable/dirtyPage)
}

const dirtyPage = 4096

// LastTimestamp is the store timestamp of the last record placed, in ms, or what
// Start was given: no later record gets an earlier one.
func (l *Log) LastTimestamp() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastTime
}

// Refusal is the error that an append would get now without being looked at:
// nil, message.ErrClosed, or the failed sync.
func (l *Log) Refusal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusal()
}

func (l *Log) refusal() error {
	if l.closed {
		return message.ErrClosed
	}
	return l.failed
}

// Fail makes every later append and Flush return an error that has cause, as
// after a failed sync. The first cause stays.
func (l *Log) Fail(cause error) { _ = l.fail(cause) }

// CheckInPlace returns an error when a file of the log is no longer the one
// that lies at its path.
func (l *Log) CheckInPlace() error { return l.files.CheckInPlace() }

// PutBack makes files again that somebody else has removed, with what they
// hold, and returns their paths; see segment.Files.PutBack. Fail the log first.
func (l *Log) PutBack() ([]string, error) {
	l.mu.Lock()
	end := l.end
	l.mu.Unlock()
	return l.files.PutBack(end)
}

// fileEnd is the end of the file that holds off.
func (l *Log) fileEnd(off int64) int64 { return off - off%l.size + l.size }

// Seal refuses further appends. Flush still writes what was placed before.
func (l *Log) Seal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// Close seals the log, gives back the files that were made ahead, and unmaps.
// It does not flush: who waits for a sync that will not come gets
// message.ErrClosed. One that is under way is waited for, and so is the last
// Completion. It is idempotent.
func (l *Log) Close() error {
	l.Seal()
	var err error
	if l.ahead != nil {
		err = l.ahead.Close()
	}
	l.flushing.Lock() // from here on a Flush finds nothing to do
	l.mu.Lock()
	if l.failed == nil && l.end != l.durable.Load() {
		l.give(message.ErrClosed)
	}
	if l.current != nil {
		l.current.Unpin()
		l.current = nil
	}
	c := l.completions
	l.completions = nil
	l.mu.Unlock()
	l.flushing.Unlock()
	if c != nil {
		c.close()
	}
	return errors.Join(err, l.files.Close())
}

// Counter numbers the messages of one queue. The put lock of its log guards it.
type Counter struct{ next message.QueueOffset }

// NewCounter returns a counter whose next message gets the number next.
func NewCounter(next message.QueueOffset) *Counter { return &Counter{next} }

// Placed is how many messages were placed since Start, and the bytes of their
// records.
func (l *Log) Placed() (messages, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.messages, l.bytes
}

// now is the store timestamp for the next record: it never decreases along the
// log, whatever the clock does.
func (l *Log) now() int64 {
	l.lastTime = max(l.lastTime, l.cfg.Now().UnixMilli())
	return l.lastTime
}

// lock takes the put lock with room for size bytes at l.end in one file, and,
// with called, for a Completion. On an error the lock is not held and nothing
// has changed.
func (l *Log) lock(ctx context.Context, size int64, called bool) error {
	if size+message.BlankSize > l.size {
		return &message.LimitError{Field: "record (with the 8 bytes that end a segment)", Limit: l.size - message.BlankSize, Value: size}
	}
	for {
		l.mu.Lock()
		if err := l.refusal(); err != nil {
			l.mu.Unlock()
			return err
		}
		start := l.end
		if l.fileEnd(l.end)-l.end < size+message.BlankSize {
			start = l.fileEnd(l.end)
		}
		wait := l.room(start, size, called)
		if wait == nil {
			err := l.rollTo(start)
			if err != nil {
				l.mu.Unlock()
			}
			return err
		}
		l.mu.Unlock()
		l.waiting.room.Add(1)
		err := wait(ctx)
		l.waiting.room.Add(-1)
		if errors.Is(err, segment.ErrClosed) {
			return message.ErrClosed
		} else if err != nil {
			return err
		}
	}
}

// room returns nil when there is room for size bytes at start, else how to wait
// for it, without the put lock, which the caller holds now.
func (l *Log) room(start, size int64, called bool) (wait func(context.Context) error) {
	switch {
	case l.ahead.Ready() < start+size:
		return func(ctx context.Context) error { return l.waitForSpace(ctx, start+size) }
	case l.staged == nil && l.tooDirty(start+size):
		return l.waitForFlush()
	case l.staged != nil && l.staged.full(int(size)):
		return l.staged.wait
	case called && l.completions.full():
		return l.completions.wait
	}
	return nil
}

// ErrNoSegment says that the next file could not be made, for another reason
// than a full disk. Nothing was placed, and a later append may succeed.
var ErrNoSegment = errors.New("no segment file")

// waitForSpace waits until everything before upTo has blocks in a file.
func (l *Log) waitForSpace(ctx context.Context, upTo int64) error {
	err := l.ahead.Wait(ctx, upTo)
	if err == nil || ctx.Err() != nil || errors.Is(err, segment.ErrNoSpace) || errors.Is(err, segment.ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoSegment, err)
}

// rollTo moves the end to start, writing the blank that ends the current file
// when start is in the next one, and pins the file of start.
func (l *Log) rollTo(start int64) error {
	if start != l.end {
		if err := l.writeBlank(start); err != nil {
			return err
		}
		l.end = start
	}
	if l.current != nil && l.current.Base() <= start && start < l.current.Base()+l.size {
		return nil
	}
	f := l.files.Acquire(start)
	if f == nil {
		return fmt.Errorf("commit log: the file for offset %d is gone", start)
	}
	if err := f.CheckInPlace(); err != nil { // it may have been removed while it was empty
		f.Unpin()
		return fmt.Errorf("commit log: %w", err)
	}
	if l.current != nil {
		l.current.MarkDirty() // until Flush has synced it
		l.current.Unpin()
		if l.cfg.Rolled != nil {
			l.cfg.Rolled()
		}
	}
	l.current = f
	return nil
}

// writeBlank ends the current file at l.end; the file goes on to next.
func (l *Log) writeBlank(next int64) error {
	if l.staged != nil {
		b := l.staged.extend(l.end, message.BlankSize)
		message.PutBlank(b, int(next-l.end))
		l.staged.end = next
		return nil
	}
	f := l.files.Acquire(l.end)
	if f == nil {
		return fmt.Errorf("commit log: the file for offset %d is gone", l.end)
	}
	defer f.Unpin()
	return putBlank(f, l.end-f.Base())
}
