package segment

import (
	"errors"
	"fmt"
	"io/fs"
)

// PutBack writes the files of the list that somebody else has removed into new ones of the same names, durably, and
// returns their paths. Call it when nobody writes any more. Files at or after the absolute offset end, which hold
// nothing yet, stay gone, and one in whose place there is another is left to the people in charge. The list goes on
// with the memory of what was removed.
func (s *Files) PutBack(end int64) (paths []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, f := range s.Snapshot() {
		if f.base >= end || !f.Pin() {
			continue
		}
		switch err := s.putBack(f); {
		case err == nil:
			paths = append(paths, f.Path())
		case !errors.Is(err, fs.ErrExist):
			errs = append(errs, fmt.Errorf("put back %s: %w", f.Path(), err))
		}
		f.Unpin()
	}
	return paths, errors.Join(append(errs, s.syncDir())...)
}

// putBack fails with fs.ErrExist for a file whose name is there.
func (s *Files) putBack(f *File) error {
	h, err := s.fs.CreateSized(f.Path(), s.fileMode, s.size)
	if err != nil {
		return err
	}
	s.dirChanges.Add(1)
	if err := copyWritten(h, f); err != nil {
		return errors.Join(err, h.Close(), s.fs.Remove(f.Path()))
	}
	return h.Close()
}

// copyWritten copies what is not zero, and syncs it.
func copyWritten(h Handle, f *File) error {
	buf := make([]byte, 64<<10)
	for off := int64(0); off < f.list.size; off += int64(len(buf)) {
		part := buf[:min(int64(len(buf)), f.list.size-off)]
		if _, err := f.ReadAt(part, off); err != nil {
			return err
		}
		if isZero(part) {
			continue
		}
		if _, err := h.WriteAt(part, off); err != nil {
			return err
		}
	}
	return h.Sync()
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
