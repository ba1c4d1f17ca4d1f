package segment

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

// together makes one sync of a Volume do for many files. Its syncs are numbered: when number n has returned nil, all
// that was written before it began is durable. A file that has something unsynced can be left to the next one, and be
// closed. Such a file must not be synced by itself later: a write that fails when no descriptor is open may be reported
// to nobody but the Volume.
type together struct {
	volume Volume       // nil: each file is synced by itself
	begun  atomic.Int64 // the number of the last sync that began
	done   atomic.Int64 // that of the last one that succeeded

	mu     sync.Mutex // one sync at a time
	failed error      // guarded by mu: final
}

// next is the number of a sync that covers all that was written until now.
func (t *together) next() int64 { return t.begun.Load() + 1 }

// sync returns nil when a sync with the number n or a later one has succeeded.
func (t *together) sync(n int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done.Load() >= n || t.failed != nil {
		return t.failed
	}
	n = t.begun.Add(1)
	if t.failed = t.volume.Sync(); t.failed == nil {
		t.done.Store(n)
	}
	return t.failed
}

// SyncOn has files of lists that are Derived, and lie on v, synced all at once; see Files.Leave. It must be called
// before there are any files, and v be closed after them.
func (c *Cache) SyncOn(v Volume) { c.together.volume = v }

// SyncsTogether reports whether there is a Volume.
func (c *Cache) SyncsTogether() bool { return c != nil && c.together.volume != nil }

// SyncTogether returns nil when everything that was written before the call to the Volume is durable, and all that was
// left to it before. A failure is final: every later call returns it. There must be a Volume.
func (c *Cache) SyncTogether() error { return c.together.sync(c.together.next()) }

// Leave leaves to the next SyncTogether what was stored before the call in [from, to), absolute offsets, with the
// entries of the directory. It returns false, and may have left a part, where that does not do and Sync must be called.
func (s *Files) Leave(from, to int64) bool {
	if !s.derived || !s.cache.SyncsTogether() {
		return false
	}
	for _, f := range s.within(from, to) {
		if !f.tryLeave() {
			return false
		}
	}
	s.dirMu.Lock()
	defer s.dirMu.Unlock()
	s.settleEntries()
	s.dirLeft = leftEntries{s.dirChanges.Load(), s.cache.together.next()}
	return true
}

// mayLeave reports whether one sync of the Volume does for the file id of the list what one of its own does.
func (s *Files) mayLeave(id mmap.FileID) bool {
	return s.derived && s.cache.SyncsTogether() && s.cache.together.volume.Holds(id)
}

// tryLeave returns false if the file must be synced by itself, or such a sync has failed.
func (f *File) tryLeave() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leave()
	return f.failed == nil && (f.mayLeave.Load() || !f.dirty.Load())
}

// leave leaves to the next sync of the Volume what is unsynced in the file, if that may be. The caller holds mu.
func (f *File) leave() {
	if f.mayLeave.Load() && f.dirty.Swap(false) { // in this order: what is stored from here on marks it again
		f.left.Store(f.list.cache.together.next())
	}
}

// waits reports whether the file has been left to a sync that has not succeeded yet.
func (f *File) waits() bool {
	n := f.left.Load()
	return n > 0 && n > f.list.cache.together.done.Load()
}

// WriteAt writes p at the absolute offset off, within one file. Unlike a File's it needs no pin, and does not map a
// file that is not mapped if it has been, and may be left to a sync of the Volume.
func (s *Files) WriteAt(p []byte, off int64) error {
	list := s.within(off, off+int64(len(p)))
	if len(list) == 0 {
		return fmt.Errorf("write at %d of %s: %w", off, s.dir, ErrClosed)
	}
	f := list[0]
	if err := f.check(off-f.base, int64(len(p))); err != nil {
		return err
	}
	if done, err := f.writeUnmapped(p, off-f.base); done || err != nil {
		return err
	}
	if !f.Pin() {
		return fmt.Errorf("write %s: %w", f.Path(), ErrClosed)
	}
	defer f.Unpin()
	_, err := f.WriteAt(p, off-f.base)
	return err
}

// writeUnmapped writes through a handle of its own. It returns false, and has done nothing, if the file is mapped, or
// should be.
func (f *File) writeUnmapped(p []byte, off int64) (done bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state.Load() != none || !f.mayLeave.Load() {
		return false, nil
	}
	h, err := f.openHandle()
	if err != nil {
		return false, err
	}
	_, err = h.WriteAt(p, off)
	f.MarkDirty()
	f.leave()
	return true, errors.Join(err, h.Close())
}

// leftEntries is how many changes of a directory a sync of the Volume makes durable.
type leftEntries struct{ changes, sync int64 }

// settleEntries takes note of it when that sync has succeeded. The caller holds dirMu.
func (s *Files) settleEntries() {
	if s.dirLeft.sync > 0 && s.dirLeft.sync <= s.cache.together.done.Load() {
		s.dirSynced.Store(max(s.dirSynced.Load(), s.dirLeft.changes))
		s.dirLeft = leftEntries{}
	}
}
