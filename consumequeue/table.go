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
}

// allocationStep is how much of a queue's file gets blocks at once: 3,276 units.
const allocationStep = 64 << 10

// Table is all queues of a store. Find, All and Flush may be called concurrently
// with everything; the rest is for one goroutine at a time.
type Table struct {
	cfg Config

	sizeFromDefault bool

	damaged []damagedQueue // found by OpenTable, until ResetDamaged

	mu     sync.RWMutex
	topics map[string]map[int32]*Queue
}

// damagedQueue is a queue with a file missing or empty between others.
type damagedQueue struct {
	topic string
	id    int32
}

// OpenTable opens all queues below cfg.Dir; a missing directory has none. It
// changes nothing on disk but for zero-length last files, which it removes.
// Directories whose name is no queue id are skipped, as RocketMQ does.
func OpenTable(cfg Config) (*Table, error) {
	cfg.FileSize = wholeUnits(cfg.FileSize)
	t := &Table{cfg: cfg, topics: make(map[string]map[int32]*Queue)}
	if err := t.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("consume queues: %w", err), t.Close())
	}
	if t.cfg.FileSize == 0 {
		t.cfg.FileSize, t.sizeFromDefault = wholeUnits(cfg.Default), true
	}
	return t, nil
}

// wholeUnits rounds up to a multiple of UnitSize, as RocketMQ does.
func wholeUnits(n int64) int64 { return (n + UnitSize - 1) / UnitSize * UnitSize }

func (t *Table) load() error {
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
			if err := t.loadQueue(topic, int32(id)); err != nil {
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

// loadQueue opens one queue; a directory without files is left for later, one
// with holes for ResetDamaged.
func (t *Table) loadQueue(topic string, id int32) error {
	q, err := t.open(topic, id)
	var size *segment.SizeError
	switch {
	case errors.Is(err, segment.ErrUnknownSize):
		return nil
	case errors.Is(err, segment.ErrGap), errors.As(err, &size) && size.Got == 0:
		t.damaged = append(t.damaged, damagedQueue{topic, id})
		return nil
	case err != nil:
		return err
	}
	if n := q.FileSize(); n%UnitSize != 0 {
		return errors.Join(&segment.SizeError{Path: q.files.Dir(), Got: n, Want: wholeUnits(n)}, q.files.Close())
	}
	t.cfg.FileSize = q.FileSize()
	t.add(q)
	return q.findMax()
}

// ResetDamaged empties the queues of which a file is missing or has no bytes
// while later ones are there, and returns their directories. They must be built
// again from the log, all of it.
func (t *Table) ResetDamaged() ([]string, error) {
	var dirs []string
	for _, d := range t.damaged {
		dir := t.dir(d.topic, d.id)
		files, err := t.cfg.FS.ReadDir(dir)
		if err != nil {
			return dirs, fmt.Errorf("consume queues: %w", err)
		}
		for _, f := range slices.Backward(files) {
			if err := t.takeSize(f); err != nil {
				return dirs, err
			}
			if err := t.cfg.FS.Remove(filepath.Join(dir, f.Name())); err != nil {
				return dirs, fmt.Errorf("consume queues: %w", err)
			}
		}
		if err := t.cfg.FS.SyncDir(dir); err != nil {
			return dirs, fmt.Errorf("consume queues: %w", err)
		}
		dirs = append(dirs, dir)
	}
	t.damaged = nil
	return dirs, nil
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

func (t *Table) open(topic string, id int32) (*Queue, error) {
	files, err := segment.Open(segment.Config{
		FS: t.cfg.FS, Dir: t.dir(topic, id),
		FileSize: t.cfg.FileSize, Step: allocationStep, FileMode: t.cfg.FileMode, DirMode: t.cfg.DirMode,
	})
	if err != nil {
		return nil, err
	}
	return &Queue{Topic: topic, ID: id, files: files}, nil
}

func (t *Table) add(q *Queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.topics[q.Topic] == nil {
		t.topics[q.Topic] = make(map[int32]*Queue)
	}
	t.topics[q.Topic][q.ID] = q
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
// backwards and not through the mapping: most of a file may be holes, and a hole
// on a full disk can not be mapped.
func usedUnits(f *segment.File) (int64, error) {
	if !f.Pin() {
		return 0, nil
	}
	defer f.Unpin()
	const chunk = 1 << 10 // units
	buf := make([]byte, chunk*UnitSize)
	for end := f.Size() / UnitSize; end > 0; {
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

// Find returns the queue, nil if there is none. Topic may be bytes that are
// used by nobody after the call.
func Find[T string | []byte](t *Table, topic T, id int32) *Queue {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.topics[string(topic)][id]
}

// Make returns the queue, opening it if there is none. Its directory is made by
// its first Put.
func (t *Table) Make(topic string, id int32) (*Queue, error) {
	if q := Find(t, topic, id); q != nil {
		return q, nil
	}
	q, err := t.open(topic, id)
	if err != nil {
		return nil, fmt.Errorf("consume queues: %w", err)
	}
	t.add(q)
	return q, nil
}

// FileSize is the size of each queue's files in bytes.
func (t *Table) FileSize() int64 { return t.cfg.FileSize }

// All returns the queues, ordered by topic and id.
func (t *Table) All() []*Queue {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var all []*Queue
	for _, ids := range t.topics {
		for _, q := range ids {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b *Queue) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// Flush syncs every queue that has something unsynced.
func (t *Table) Flush() error {
	for _, q := range t.All() {
		if err := q.Flush(); err != nil {
			return fmt.Errorf("consume queue %s/%d: %w", q.Topic, q.ID, err)
		}
	}
	return nil
}

// Close unmaps the queues' files as their readers let go. It does not flush. It
// is idempotent.
func (t *Table) Close() error {
	var errs []error
	for _, q := range t.All() {
		errs = append(errs, q.files.Close())
	}
	return errors.Join(errs...)
}
