package segment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// Open opens the files of a directory; a missing directory is an empty list. Every entry must be a regular file named
// by 20 digits (else *ForeignFileError) of the right length (else *SizeError), and the files must follow each other
// (else *GapError). One leftover is repaired: a last file of zero length, from a crash while it was made, is removed.
// On an error nothing was changed on disk.
func Open(cfg Config) (*Files, error) {
	s := &Files{
		fs: cfg.FS, dir: filepath.Clean(cfg.Dir),
		fileMode: cmp.Or(cfg.FileMode, 0o600), dirMode: cmp.Or(cfg.DirMode, 0o700),
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
	s.step = min(roundUp(min(cmp.Or(max(cfg.Step, 0), s.size), s.size), pageSize()), s.size)
	if err := checkEntries(found, s.size); err != nil {
		return nil, fmt.Errorf("open segments: %w", err)
	}
	if err := s.openAll(found); err != nil {
		return nil, fmt.Errorf("open segments: %w", errors.Join(err, s.Close()))
	}
	return s, nil
}

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
	slices.SortFunc(found, func(a, b entry) int { return cmp.Compare(a.base, b.base) })
	return found, nil
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
	return entry{path: path, base: base, size: info.Size()}, nil
}

// openAll opens and maps what was found, and then, when nothing can fail any more, removes an empty last file.
func (s *Files) openAll(found []entry) error {
	var unfinished string
	if last := len(found) - 1; last >= 0 && found[last].size == 0 {
		unfinished, found = found[last].path, found[:last]
	}
	list := make([]*File, 0, len(found))
	for _, e := range found {
		f, err := s.openExisting(e)
		if err != nil {
			return err
		}
		list = append(list, f)
		s.publish(list)
		s.dirChanges.Add(1)
	}
	if unfinished == "" {
		return nil
	}
	s.dirChanges.Add(1)
	return s.fs.Remove(unfinished)
}

func (s *Files) openExisting(e entry) (*File, error) {
	h, err := s.fs.Open(e.path)
	if err != nil {
		return nil, err
	}
	size, err := h.Size()
	if err == nil && size != s.size { // it changed since it was listed
		err = &SizeError{Path: e.path, Got: size, Want: s.size}
	}
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	f, err := s.openFile(h, e.base, e.path)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return f, nil
}
