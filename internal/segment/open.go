package segment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

// Open lists the files of a directory; a missing directory is an empty list. It opens none: that is what the first pin
// of a file does. Every entry must be a regular file named
// by 20 digits (else *ForeignFileError) of the right length (else *SizeError), and the files must follow each other
// (else *GapError). One leftover is repaired: a last file of zero length, from a crash while it was made, is removed.
// On an error nothing was changed on disk.
func Open(cfg Config) (*Files, error) {
	s := &Files{
		fs: cfg.FS, dir: filepath.Clean(cfg.Dir),
		fileMode: cmp.Or(cfg.FileMode, 0o600), dirMode: cmp.Or(cfg.DirMode, 0o700), cache: cfg.Cache, derived: cfg.Derived,
	}
	if s.fs == nil {
		s.fs = OS
	}
	s.publish(nil)
	found, err := s.scan()
	if err != nil {
		return nil, fmt.Errorf("open segments: %w", err)
	}
	if s.size, err = fileSize(s.dir, cfg.FileSize, found); err != nil {
		return nil, fmt.Errorf("open segments: %w", err)
	}
	s.step = s.wholePages(cmp.Or(max(cfg.Step, 0), s.size))
	s.firstStep = min(s.wholePages(cmp.Or(max(cfg.FirstStep, 0), s.step)), s.step)
	if err := checkEntries(found, s.size); err != nil {
		return nil, fmt.Errorf("open segments: %w", err)
	}
	if err := s.take(found); err != nil {
		return nil, fmt.Errorf("open segments: %w", err)
	}
	return s, nil
}

// wholePages returns n rounded up to whole pages, but no more than a file.
func (s *Files) wholePages(n int64) int64 { return min(roundUp(min(n, s.size), pageSize()), s.size) }

// scan lists the directory in order of base offset.
func (s *Files) scan() ([]entry, error) {
	names, err := s.fs.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := make([]entry, 0, len(names))
	for _, name := range names {
		e, err := s.inspect(name.Name())
		if err != nil {
			return nil, err
		}
		found = append(found, e)
	}
	return found, nil // in the order of the names: all have the same number of digits
}

func (s *Files) inspect(name string) (entry, error) {
	base, err := parseName(s.dir, name)
	if err != nil {
		return entry{}, err
	}
	path := filepath.Join(s.dir, name)
	info, err := s.fs.Lstat(path)
	if err != nil {
		return entry{}, err
	}
	if !info.Mode().IsRegular() {
		return entry{}, &ForeignFileError{Path: path, Reason: errNotARegular.Error()}
	}
	return entry{path: path, base: base, size: info.Size(), id: mmap.FileIDOf(info)}, nil
}

// take makes the list of what was found. An empty last file is removed.
func (s *Files) take(found []entry) error {
	if last := len(found) - 1; last >= 0 && found[last].size == 0 {
		if err := s.fs.Remove(found[last].path); err != nil {
			return err
		}
		s.dirChanges.Add(1)
		found = found[:last]
	}
	if len(found) == 0 {
		return nil
	}
	list := make([]*File, len(found))
	for i, e := range found {
		list[i] = &File{list: s, base: e.base, id: e.id}
	}
	s.publish(list)
	s.dirChanges.Add(1)
	return nil
}
