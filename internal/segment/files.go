package segment

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// Config describes a list of files.
type Config struct {
	FS  FS     // nil means OS
	Dir string // holds nothing but the files; made with the first one

	FileSize  int64 // bytes of each file; 0 takes the size of the files present
	Step      int64 // most bytes allocated at a time, rounded up to whole pages; 0 means a whole file
	FirstStep int64 // bytes allocated with the file; each step after it is as long as all before, up to Step; 0 means Step

	Cache *Cache // bounds how many files are mapped, together with those of other lists; nil means no bound

	// Derived says that a list that is lost can be made again, and that there are very many: Create of the first file
	// syncs nothing, Sync does that later, and the directory is made, and its entry made durable, by the caller. A
	// crash before Sync may leave the file with no bytes.
	Derived bool

	FileMode, DirMode os.FileMode // before umask; 0 means 0600 and 0700
}

// Files is a list of consecutive files. Readers see it through snapshots that are replaced, never changed.
type Files struct {
	fs                FS
	dir               string
	size              int64
	firstStep, step   int64
	cache             *Cache
	fileMode, dirMode os.FileMode
	derived           bool

	list atomic.Pointer[[]*File]

	mu     sync.Mutex // serialises what changes the list
	closed bool
	ahead  *Ahead

	dirMu      sync.Mutex   // one sync of the directory at a time
	dirChanges atomic.Int64 // changes of entries so far
	dirSynced  atomic.Int64 // how many of them are durable
	dirLeft    leftEntries  // guarded by dirMu
}

// FileSize returns the length in bytes of each file.
func (s *Files) FileSize() int64 { return s.size }

// Dir returns the directory of the files.
func (s *Files) Dir() string { return s.dir }

// Snapshot returns the files of this moment, oldest first. The slice must not be modified. Pin a file before touching it.
func (s *Files) Snapshot() []*File { return *s.list.Load() }

// First returns the oldest file, nil if there is none.
func (s *Files) First() *File {
	if list := s.Snapshot(); len(list) > 0 {
		return list[0]
	}
	return nil
}

// Last returns the newest file, nil if there is none. While an Ahead runs, it may be one not written to yet.
func (s *Files) Last() *File {
	if list := s.Snapshot(); len(list) > 0 {
		return list[len(list)-1]
	}
	return nil
}

// Acquire returns the file that holds the absolute offset off, pinned, or nil if there is none any more or not yet.
// It takes no lock, and its cost does not depend on the number of files.
func (s *Files) Acquire(off int64) *File {
	list := s.Snapshot()
	if len(list) == 0 || off < list[0].base {
		return nil
	}
	i := (off - list[0].base) / s.size
	if i >= int64(len(list)) || !list[i].Pin() {
		return nil
	}
	return list[i]
}

// publish makes list what readers see. The caller holds mu.
func (s *Files) publish(list []*File) { s.list.Store(&list) }

// Sync returns nil when everything stored before the call in [from, to), absolute offsets, is durable, with the
// entries of the directory. It syncs whole files, one after the other. After an error nobody knows what is kept, and
// a further Sync proves nothing. Offsets without a file are passed over.
func (s *Files) Sync(from, to int64) error {
	for _, f := range s.within(from, to) {
		if err := f.syncUnlessGone(); err != nil {
			return fmt.Errorf("sync segment: %w", err)
		}
	}
	return s.syncDir()
}

// syncUnlessGone is Sync of a file that may leave its list meanwhile.
func (f *File) syncUnlessGone() error {
	if done, err := f.syncClosed(); done || err != nil || !f.Pin() {
		return err
	}
	defer f.Unpin()
	return f.Sync()
}

// within returns the files that hold a byte of [from, to).
func (s *Files) within(from, to int64) []*File {
	list := s.Snapshot()
	if len(list) == 0 {
		return nil
	}
	first := list[0].base
	lo := min(max(from-first, 0)/s.size, int64(len(list)))
	hi := min((max(to-first, 0)+s.size-1)/s.size, int64(len(list)))
	return list[lo:max(lo, hi)]
}

// syncDir syncs the directory if an entry changed since the last time. Open counts as a change: whoever made the files
// may have died before they were durable. A change made while the sync runs needs another one.
func (s *Files) syncDir() error {
	if s.dirSynced.Load() == s.dirChanges.Load() {
		return nil
	}
	s.dirMu.Lock()
	defer s.dirMu.Unlock()
	s.settleEntries()
	changes := s.dirChanges.Load()
	if s.dirSynced.Load() == changes {
		return nil
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return fmt.Errorf("sync segment directory: %w", err)
	}
	s.dirSynced.Store(changes)
	return nil
}

// CheckInPlace returns a *MovedError if a file of the list that is mapped, or the first one, was removed or replaced by
// somebody else. Of others that is noticed when they are opened again.
func (s *Files) CheckInPlace() error {
	for i, f := range s.Snapshot() {
		if i > 0 && f.state.Load()&mapped == 0 || !f.Pin() {
			continue // closed, or removed by ourselves meanwhile
		}
		err := f.CheckInPlace()
		f.Unpin()
		if err != nil && !f.removed() {
			return err
		}
	}
	return nil
}

// Close ends the list, and the Ahead of it. A file is unmapped when its last pin is gone. It syncs nothing. A second
// call does nothing and returns nil.
func (s *Files) Close() error {
	s.mu.Lock()
	a := s.ahead
	s.mu.Unlock()
	var errs []error
	if a != nil {
		errs = append(errs, a.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	list := s.Snapshot()
	s.publish(nil)
	for _, f := range list {
		errs = append(errs, f.retire())
	}
	return errors.Join(errs...)
}
