package consumequeue

import (
	"fmt"
	"maps"
)

// manyQueues is from how many on one sync of their whole filesystem is cheaper
// than one of each file.
const manyQueues = 64

// Flush syncs every queue that has something unsynced. It looks at those that
// changed since the last one.
func (t *Table) Flush() error {
	t.markMu.Lock()
	dirty, entries := t.dirty, t.newEntries
	t.dirty, t.newEntries = nil, make(map[string]bool)
	for _, q := range dirty {
		q.marks.And(^uint32(markDirty)) // before: what changes from here on needs another one
	}
	t.markMu.Unlock()
	left, err := t.flush(dirty, entries)
	if err == nil {
		return nil
	}
	for _, q := range left {
		q.mark()
	}
	t.markMu.Lock()
	defer t.markMu.Unlock()
	maps.Copy(t.newEntries, entries)
	return fmt.Errorf("consume queues: %w", err)
}

// flush syncs queues, and directories for their entries. With an error it
// returns the queues that are not synced.
func (t *Table) flush(dirty []*Queue, entries map[string]bool) (left []*Queue, err error) {
	if len(dirty)+len(entries) >= manyQueues && t.cfg.Cache.SyncsTogether() {
		return t.flushTogether(dirty, entries)
	}
	for i, q := range dirty {
		if err := q.Flush(); err != nil {
			return dirty[i:], fmt.Errorf("%s/%d: %w", q.Topic, q.ID, err)
		}
	}
	return nil, t.syncDirs(entries)
}

func (t *Table) syncDirs(dirs map[string]bool) error {
	for dir := range dirs {
		if err := t.cfg.FS.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// flushTogether does it with one sync of the filesystem, as far as all of it lies
// on that.
func (t *Table) flushTogether(dirty []*Queue, entries map[string]bool) (left []*Queue, err error) {
	covered, elsewhere := make([]span, len(dirty)), false
	for i, q := range dirty {
		var alone bool
		if covered[i], alone, err = q.leave(); err != nil {
			return dirty, fmt.Errorf("%s/%d: %w", q.Topic, q.ID, err)
		}
		elsewhere = elsewhere || alone
	}
	if err := t.cfg.Cache.SyncTogether(); err != nil {
		return dirty, err
	}
	for i, q := range dirty {
		q.flushed.CompareAndSwap(covered[i].from, covered[i].to)
	}
	if !elsewhere {
		return nil, nil
	}
	return nil, t.syncDirs(entries)
}

// span is units from one number to before another.
type span struct{ from, to int64 }

// leave writes what Flush would sync, and leaves it to Cache.SyncTogether. Where
// that does not do, it syncs it alone.
func (q *Queue) leave() (s span, alone bool, err error) {
	q.flushing.Lock()
	defer q.flushing.Unlock()
	s = span{q.flushed.Load(), q.max.Load()}
	if s.from >= s.to || q.failed != nil {
		return s, false, q.failed
	}
	if err := q.writeTail(); err != nil {
		return s, false, err
	}
	if q.files.Leave(s.from*UnitSize, s.to*UnitSize) {
		return s, false, nil
	}
	q.failed = q.files.Sync(s.from*UnitSize, s.to*UnitSize)
	return s, true, q.failed
}

// Flush syncs the units that are not known to be on disk. It may be called
// concurrently with everything. The first sync that fails is final, because a
// second one would vouch for what the first one lost: every later call returns
// its error.
func (q *Queue) Flush() error {
	q.flushing.Lock()
	defer q.flushing.Unlock()
	from, to := q.flushed.Load(), q.max.Load()
	if from >= to || q.failed != nil {
		return q.failed
	}
	if err := q.writeTail(); err != nil {
		return err
	}
	if q.failed = q.files.Sync(from*UnitSize, to*UnitSize); q.failed != nil {
		return q.failed
	}
	q.flushed.CompareAndSwap(from, to) // unless a unit before to was replaced meanwhile
	return nil
}
