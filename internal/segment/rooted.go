package segment

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Rooted returns base with one more rule: below root no path may lead through a symbolic link. The root itself, and
// what lies above it, may be links: that is how a store is put on another disk. A link inside could make two stores
// share a directory without sharing a lock. The check protects from accidents, not from an attacker who swaps
// directories while it runs. Paths are compared as text, so they must begin with root as it is given here, which
// is best absolute; others are not checked. An offending path is a *ForeignFileError.
func Rooted(base FS, root string) FS { return &rooted{base: base, root: filepath.Clean(root)} }

const separator = string(filepath.Separator)

type rooted struct {
	base FS
	root string
}

// check refuses a link among the existing components of path below the root.
func (r *rooted) check(path string) error {
	rel, inside := strings.CutPrefix(filepath.Clean(path), strings.TrimSuffix(r.root, separator)+separator)
	if !inside {
		return nil // elsewhere, or the root itself
	}
	at := r.root
	for part := range strings.SplitSeq(rel, separator) {
		at = filepath.Join(at, part)
		info, err := r.base.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info.Mode()&os.ModeSymlink != 0 {
			return &ForeignFileError{Path: at, Reason: "symbolic link inside the store"}
		}
	}
	return nil
}

func (r *rooted) MkdirAll(dir string, perm os.FileMode) error {
	if err := r.check(dir); err != nil {
		return err
	}
	return r.base.MkdirAll(dir, perm)
}

func (r *rooted) Create(path string, perm os.FileMode) (Handle, error) {
	if err := r.check(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return r.base.Create(path, perm)
}

func (r *rooted) CreateSized(path string, perm os.FileMode, size int64) (Handle, error) {
	if err := r.check(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return r.base.CreateSized(path, perm, size)
}

func (r *rooted) Open(path string) (Handle, error) {
	if err := r.check(path); err != nil {
		return nil, err
	}
	return r.base.Open(path)
}

func (r *rooted) OpenRead(path string) (Handle, error) {
	if err := r.check(path); err != nil {
		return nil, err
	}
	return r.base.OpenRead(path)
}

func (r *rooted) Remove(path string) error {
	if err := r.check(filepath.Dir(path)); err != nil {
		return err
	}
	return r.base.Remove(path)
}

func (r *rooted) Rename(from, to string) error {
	if err := errors.Join(r.check(filepath.Dir(from)), r.check(filepath.Dir(to))); err != nil {
		return err
	}
	return r.base.Rename(from, to)
}

func (r *rooted) Link(from, to string) error {
	if err := errors.Join(r.check(from), r.check(filepath.Dir(to))); err != nil {
		return err
	}
	return r.base.Link(from, to)
}

func (r *rooted) ReadDir(dir string) ([]os.DirEntry, error) {
	if err := r.check(dir); err != nil {
		return nil, err
	}
	return r.base.ReadDir(dir)
}

func (r *rooted) Lstat(path string) (os.FileInfo, error) {
	if err := r.check(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return r.base.Lstat(path)
}

func (r *rooted) SyncDir(dir string) error {
	if err := r.check(dir); err != nil {
		return err
	}
	return r.base.SyncDir(dir)
}
