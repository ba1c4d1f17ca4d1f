package segment

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// Create makes the next file. base is the end of the last file, or, in an empty list, any multiple of the file size.
// When it returns nil the file has its full length, its first step has blocks, and its entry in the directory is
// durable. On an error the list is unchanged and no file is left (on a full disk it matches ErrNoSpace).
func (s *Files) Create(base int64) (*File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkNext(base); err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	if err := s.makeDir(); err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	path := filepath.Join(s.dir, FileName(base))
	h, err := s.fs.CreateSized(path, s.fileMode, s.size)
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	f, err := s.complete(h, base, path)
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", errors.Join(err, s.discard(h, path)))
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

// makeDir makes the directory for the first file, and syncs its parent even if it exists: whoever made it may have
// died before doing so.
func (s *Files) makeDir() error {
	if s.Last() != nil {
		return nil
	}
	if err := s.fs.MkdirAll(s.dir, s.dirMode); err != nil {
		return err
	}
	return s.fs.SyncDir(filepath.Dir(s.dir))
}

// complete brings a new file to the state that Create promises.
func (s *Files) complete(h Handle, base int64, path string) (f *File, err error) {
	if err := h.Allocate(0, s.step); err != nil {
		return nil, err
	}
	if err := h.Sync(); err != nil {
		return nil, err
	}
	s.dirChanges.Add(1)
	if err := s.syncDir(); err != nil {
		return nil, err
	}
	if f, err = s.openFile(h, base, path); err != nil {
		return nil, err
	}
	f.blocks.Store(s.step)
	return f, nil
}

// discard removes a file that could not be completed.
func (s *Files) discard(h Handle, path string) error {
	s.dirChanges.Add(1)
	return errors.Join(h.Close(), s.fs.Remove(path))
}
