package segment

import (
	"fmt"
	"slices"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

// RemoveBefore removes the files that end at or before the absolute offset off, oldest first, never the last one, and
// returns their paths. It waits for nobody: a pinned file loses its name at once and its memory with the last pin.
// After an error the files named are removed and the others are as before.
func (s *Files) RemoveBefore(off int64) (removed []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for list := s.Snapshot(); len(list) > 1 && list[0].End() <= off; list = s.Snapshot() {
		err := s.remove(list[0])
		if list[0].isRetired() {
			removed = append(removed, list[0].Path())
		}
		if err != nil {
			return removed, err
		}
	}
	return removed, s.syncDir()
}

// remove takes the first or last file out of the list and off the disk. If its name can not be removed, the
// file stays in the list. The caller holds s.mu and syncs the directory.
func (s *Files) remove(f *File) error {
	idle, err := s.unlink(f)
	if err == nil && idle {
		err = f.release()
	}
	if err != nil {
		return fmt.Errorf("remove segment: %w", err)
	}
	return nil
}

// unlink is remove but for the memory, and reports whether nobody has a pin. Nobody opens the file meanwhile, and finds
// it gone without being retired.
func (s *Files) unlink(f *File) (idle bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !mmap.UnlinkMapped {
		f.drop.Store(true) // the name can go only after the mapping
	} else if err := s.fs.Remove(f.Path()); err != nil {
		return false, err
	}
	s.dirChanges.Add(1)
	s.publish(slices.DeleteFunc(slices.Clone(s.Snapshot()), func(g *File) bool { return g == f }))
	return f.state.Or(retired)&(retired|counted) == 0, nil
}

// removeFrom removes the files whose base is at or after base, newest first, as long as allowed agrees. The caller
// holds mu and syncs the directory.
func (s *Files) removeFrom(base int64, allowed func(*File) bool) (removed []string, err error) {
	for last := s.Last(); last != nil && last.base >= base && allowed(last); last = s.Last() {
		err := s.remove(last)
		if last.isRetired() {
			removed = append(removed, last.Path())
		}
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}
