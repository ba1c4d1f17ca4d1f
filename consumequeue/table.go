package consumequeue

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/pocketmq/pocketmq/internal/recent"
	"github.com/pocketmq/pocketmq/internal/segment"
)

// Config says where the queues lie: Dir/<topic>/<queue id>/<20 digits>.
type Config struct {
	FS       segment.FS
	Dir      string
	FileSize int64 // bytes, rounded up to whole units; 0 takes that of the files that are there
	Default  int64 // bytes, where FileSize is 0 and there is no file
	FileMode fs.FileMode
	DirMode  fs.FileMode
	Cache    *segment.Cache // bounds how many files are mapped; nil means no bound

	// TailBytes bounds the units, in bytes, that wait in memory until their file is
	// opened for many of them at once, where more queues are in use than Cache has
	// files mapped. 0 means that none do.
	TailBytes int64

	// Loaded, if not nil, is shown each queue that was there at Open, before its
	// first use, when nobody else uses it. It may read and change the queue; an
	// error is that of the Load, and the next one tries again.
	Loaded func(*Queue) error
}

// How much of a queue's file gets blocks at once: a page for a queue with few
// messages, which most are, and then as much as there is already, up to 3,276
// units.
const (
	firstStep      = 4 << 10
	allocationStep = 64 << 10
)

// Table is all queues of a store. Find, Len, All and Flush may be called
// concurrently with everything; the rest is for one goroutine at a time.
type Table struct {
	cfg Config

	sizeFromDefault bool

	damaged []damagedQueue // found by OpenTable, until ResetDamaged

	recent recent.Slots[Queue] // that are loaded; a queue never leaves its table

	mu     sync.RWMutex
	queues map[queueKey]*Queue
	topics recent.Names
	closed atomic.Bool

	markMu  sync.Mutex // guards what follows, but for kept
	dirty   []*Queue   // may have something unsynced
	changed []*Queue   // since the last call of Changed

	newEntries map[string]bool // directories with entries that are not known to be on disk

	kept    atomic.Int64 // bytes of all tails
	keeping []*Queue     // have a tail, or had one
}

type queueKey struct {
	topic string
	id    int32
}

// OpenTable lists all queues below cfg.Dir, with their files, and opens none; a
// missing directory has none. It changes nothing on disk but for zero-length last
// files, which it removes.
// Directories whose name is no queue id are skipped, as RocketMQ does.
//
// A queue of which a file is missing between others, or has the wrong size, is
// left for ResetDamaged. When no file of any queue has cfg.FileSize it is that
// which is wrong: the error is a *segment.SizeError.
func OpenTable(cfg Config) (*Table, error) {
	cfg.FileSize = wholeUnits(cfg.FileSize)
	t := &Table{cfg: cfg, queues: make(map[queueKey]*Queue), newEntries: make(map[string]bool)}
	err := t.load()
	if err == nil {
		err = t.settleSize(cfg.FileSize)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("consume queues: %w", err), t.Close())
	}
	if t.cfg.FileSize == 0 {
		t.cfg.FileSize, t.sizeFromDefault = wholeUnits(cfg.Default), true
	}
	return t, nil
}

// wholeUnits rounds up to a multiple of UnitSize, as RocketMQ does.
func wholeUnits(n int64) int64 { return (n + UnitSize - 1) / UnitSize * UnitSize }

func (t *Table) load() error { return t.walk(t.loadQueue) }

// walk visits every directory of a queue.
func (t *Table) walk(visit func(topic string, id int32) error) error {
	topics, err := t.directories(t.cfg.Dir)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		ids, err := t.directories(filepath.Join(t.cfg.Dir, topic))
		if err != nil {
			return err
		}
		for _, name := range ids {
			id, err := strconv.ParseInt(name, 10, 32)
			if err != nil || id < 0 || strconv.FormatInt(id, 10) != name {
				continue // "007" is not where queue 7 lies
			}
			if err := visit(topic, int32(id)); err != nil {
				return err
			}
		}
	}
	return nil
}

// directories lists the names of the directories in dir.
func (t *Table) directories(dir string) ([]string, error) {
	entries, err := t.cfg.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			reason := "not a directory"
			if e.Type()&fs.ModeSymlink != 0 {
				reason = "symbolic link inside the store"
			}
			return nil, &segment.ForeignFileError{Path: filepath.Join(dir, e.Name()), Reason: reason}
		}
		names = append(names, e.Name())
	}
	return names, nil
}

// loadQueue opens one queue; a directory without files is left for later, a
// damaged one for ResetDamaged.
func (t *Table) loadQueue(topic string, id int32) error {
	q, err := t.open(topic, id)
	var size *segment.SizeError
	switch {
	case errors.Is(err, segment.ErrUnknownSize):
		return nil
	case errors.Is(err, segment.ErrGap), errors.As(err, &size):
		t.setAside(topic, id, size)
		return nil
	case err != nil:
		return err
	}
	if n := q.FileSize(); n%UnitSize != 0 {
		t.setAside(topic, id, &segment.SizeError{Path: q.files.Dir(), Got: n, Want: wholeUnits(n)})
		return q.files.Close()
	}
	t.cfg.FileSize = q.FileSize()
	t.add(q)
	return nil
}

// takeSize keeps the size of files that are about to go, if there is no other
// queue that tells it.
func (t *Table) takeSize(f fs.DirEntry) error {
	info, err := f.Info()
	if err != nil {
		return fmt.Errorf("consume queues: %w", err)
	}
	if n := info.Size(); t.sizeFromDefault && n > 0 && n%UnitSize == 0 {
		t.cfg.FileSize, t.sizeFromDefault = n, false
	}
	return nil
}

func (t *Table) dir(topic string, id int32) string {
	return filepath.Join(t.cfg.Dir, topic, strconv.Itoa(int(id)))
}

// makeDir makes the directory of a queue, and that of its topic. The next Flush
// makes the entries durable: one sync for all new queues of a topic.
func (t *Table) makeDir(q *Queue) error {
	topic := filepath.Join(t.cfg.Dir, q.Topic)
	err := t.mkdir(topic)
	if errors.Is(err, fs.ErrNotExist) { // the very first
		if err = t.cfg.FS.MkdirAll(t.cfg.Dir, t.dirMode()); err == nil {
			err = t.mkdir(topic)
		}
	}
	if err != nil {
		return err
	}
	return t.mkdir(q.files.Dir())
}

// mkdir makes dir if there is none. Whoever made it before may have died before
// its entry was durable.
func (t *Table) mkdir(dir string) error {
	if err := t.cfg.FS.Mkdir(dir, t.dirMode()); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	t.markMu.Lock()
	defer t.markMu.Unlock()
	t.newEntries[filepath.Dir(dir)] = true
	return nil
}

func (t *Table) dirMode() fs.FileMode { return cmp.Or(t.cfg.DirMode, 0o700) }

func (t *Table) open(topic string, id int32) (*Queue, error) {
	files, err := segment.Open(segment.Config{
		FS: t.cfg.FS, Dir: t.dir(topic, id),
		FileSize: t.cfg.FileSize, FirstStep: firstStep, Step: allocationStep, Cache: t.cfg.Cache, Derived: true,
		FileMode: t.cfg.FileMode, DirMode: t.cfg.DirMode,
	})
	if err != nil {
		return nil, err
	}
	q := &Queue{Topic: topic, ID: id, Known: -1, table: t, files: files}
	q.newest.Store(-1)
	return q, nil
}

func (t *Table) add(q *Queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q.Topic = t.topics.Of(q.Topic)
	t.queues[queueKey{q.Topic, q.ID}] = q
	t.recent.Grow(len(t.queues))
}

// findMax sets Max to what follows the last unit that is not zero.
func (q *Queue) findMax() error {
	files := q.files.Snapshot()
	for _, f := range slices.Backward(files) {
		n, err := usedUnits(f)
		if err != nil {
			return fmt.Errorf("consume queue %s: %w", f.Path(), err)
		}
		if n > 0 || f == files[0] {
			q.max.Store(f.Base()/UnitSize + n)
			break
		}
	}
	q.flushed.Store(q.max.Load())
	q.min.Store(min(q.first(), q.max.Load()))
	return nil
}

// usedUnits counts the units of f up to the last one that is not zero. It reads
// backwards from where holes begin, and not through the mapping: a hole on a full
// disk can not be mapped.
func usedUnits(f *segment.File) (int64, error) {
	if !f.Pin() {
		return 0, nil
	}
	defer f.Unpin()
	data, err := f.DataEnd()
	if err != nil {
		return 0, err
	}
	const chunk = 1 << 10 // units
	units := min((data+UnitSize-1)/UnitSize, f.Size()/UnitSize)
	buf := make([]byte, min(chunk, units)*UnitSize)
	for end := units; end > 0; {
		from := max(0, end-chunk)
		b := buf[:(end-from)*UnitSize]
		if _, err := f.ReadAt(b, from*UnitSize); err != nil {
			return 0, err
		}
		for n := end; n > from; n-- {
			if unitAt(b[(n-1-from)*UnitSize:]) != (Unit{}) {
				return n, nil
			}
		}
		end = from
	}
	return 0, nil
}

// Find returns the queue, loaded, nil if there is none. Topic may be bytes that
// are used by nobody after the call.
func Find[T string | []byte](t *Table, topic T, id int32) (*Queue, error) {
	slot := recent.Slot(&t.recent, topic, id)
	if q := slot.Load(); q != nil && q.ID == id && q.Topic == string(topic) {
		return q, nil
	}
	t.mu.RLock()
	q := t.queues[queueKey{string(topic), id}]
	t.mu.RUnlock()
	if q == nil {
		return nil, nil
	}
	if err := q.Load(); err != nil {
		return q, err
	}
	slot.Store(q)
	return q, nil
}

// Lookup returns the queue, which may not be loaded, nil if there is none.
func (t *Table) Lookup(topic string, id int32) *Queue {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.queues[queueKey{topic, id}]
}

// Make returns the queue, loaded, adding it if there is none. Its directory is
// made by its first Put.
func (t *Table) Make(topic string, id int32) (*Queue, error) {
	if q, err := Find(t, topic, id); q != nil {
		return q, err
	}
	q, err := t.open(topic, id)
	if err != nil {
		return nil, fmt.Errorf("consume queues: %w", err)
	}
	q.ready.Store(true)
	t.add(q)
	return q, nil
}

// FileSize is the size of each queue's files in bytes.
func (t *Table) FileSize() int64 { return t.cfg.FileSize }

// Len is the number of queues.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.queues)
}

// All returns the queues, which may not be loaded, in no order.
func (t *Table) All() []*Queue {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := make([]*Queue, 0, len(t.queues))
	for _, q := range t.queues {
		all = append(all, q)
	}
	return all
}

// Bits of Queue.marks.
const (
	markDirty = 1 << iota
	markChanged
	markKeeps
)

// mark notes that the queue has changed. While it is loaded that waits: nobody
// else may know it yet.
func (q *Queue) mark() {
	if q.marks.Load()&(markDirty|markChanged) != markDirty|markChanged && q.ready.Load() {
		q.table.mark(q)
	}
}

func (t *Table) mark(q *Queue) {
	t.markMu.Lock()
	defer t.markMu.Unlock()
	old := q.marks.Or(markDirty | markChanged)
	if old&markDirty == 0 {
		t.dirty = append(t.dirty, q)
	}
	if old&markChanged == 0 {
		t.changed = append(t.changed, q)
	}
}

// Changed returns the queues that were changed since the last call, all of them
// loaded. The caller owns the slice.
func (t *Table) Changed() []*Queue {
	t.markMu.Lock()
	defer t.markMu.Unlock()
	changed := t.changed
	t.changed = nil
	for _, q := range changed {
		q.marks.And(^uint32(markChanged))
	}
	return changed
}

// Keep makes the next Changed return the queues again.
func (t *Table) Keep(changed []*Queue) {
	for _, q := range changed {
		q.mark()
	}
}

// Close unmaps the queues' files as their readers let go. It does not flush. It
// is idempotent.
func (t *Table) Close() error {
	t.closed.Store(true)
	var errs []error
	for _, q := range t.All() {
		errs = append(errs, q.files.Close())
	}
	return errors.Join(errs...)
}
