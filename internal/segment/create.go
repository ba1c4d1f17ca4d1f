package segment

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// Create makes the next file. base is the end of the last file, or, in an empty list, any multiple of the file size.
// When it returns nil the file has its full length, its first step has blocks, and its entry in the directory is
// durable; of a list that is Derived, the first file has that after the next Sync, or the next Create. On an error the
// list is unchanged and no file is left (on a full disk it matches ErrNoSpace).
func (s *Files) Create(base int64) (*File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkNext(base); err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	if err := s.beforeNext(); err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	f := &File{list: s, base: base, sized: !s.derived || s.Last() != nil}
	if err := f.create(); err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	s.publish(append(slices.Clip(s.Snapshot()), f))
	return f, nil
}

func (s *Files) checkNext(base int64) error {
	if s.closed {
		return ErrClosed
	}
	want := base - base%s.size
	if last := s.Last(); last != nil {
		want = last.End()
	}
	if base != want || base < 0 || base > base+s.size {
		return &GapError{Path: filepath.Join(s.dir, FileName(base)), Got: base, Want: want}
	}
	return nil
}

// beforeNext does what must be on disk before the next file is. For the first file it makes the directory, and syncs its
// parent even if it exists: whoever made it may have died before doing so.
func (s *Files) beforeNext() error {
	last := s.Last()
	switch {
	case last != nil && s.derived: // a file of no bytes is a remnant only if it is the last one
		if !last.sized && last.Pin() {
			_ = last.Sync() // Sync of the list will say so
			last.Unpin()
		}
		return s.syncDir()
	case last != nil || s.derived:
		return nil
	}
	if err := s.fs.MkdirAll(s.dir, s.dirMode); err != nil {
		return err
	}
	return s.fs.SyncDir(filepath.Dir(s.dir))
}

// create makes the file, mapped. After an error nothing is left of it.
func (f *File) create() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list.cache.admit(f)
	h, err := f.list.fs.CreateSized(f.Path(), f.list.fileMode, f.list.size)
	if err != nil {
		f.list.cache.forget(f)
		return err
	}
	if err = f.list.complete(h); err == nil {
		err = f.adopt(h)
	}
	if err != nil {
		f.list.cache.forget(f)
		f.list.dirChanges.Add(1)
		return errors.Join(err, h.Close(), f.list.fs.Remove(f.Path()))
	}
	f.blocks.Store(f.list.firstStep)
	f.state.Store(mapped | used)
	return nil
}

// complete brings a new file to the state that Create promises.
func (s *Files) complete(h Handle) error {
	if err := h.Allocate(0, s.firstStep); err != nil {
		return err
	}
	s.dirChanges.Add(1)
	if s.derived && s.Last() == nil {
		return nil // see File.sized
	}
	if err := h.Sync(); err != nil {
		return err
	}
	return s.syncDir()
}
