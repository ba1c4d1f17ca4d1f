package segment

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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
	last atomic.Pointer[string] // a directory that was found in order, with those above it, a moment ago
}

// check refuses a link among the existing components of the directory dir below the root. Calls for one directory, and
// for its neighbours, tend to follow each other: what the call before has looked at is not looked at again.
func (r *rooted) check(dir string) error {
	dir = filepath.Clean(dir)
	if !within(r.root, dir) || dir == r.root {
		return nil // elsewhere, or the root itself
	}
	if last := r.last.Load(); last != nil && within(dir, *last) {
		return nil
	}
	if err := r.check(filepath.Dir(dir)); err != nil {
		return err
	}
	info, err := r.base.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		return &ForeignFileError{Path: dir, Reason: "symbolic link inside the store"}
	}
	if info.IsDir() {
		r.last.Store(&dir)
	}
	return nil
}

// within reports whether path is dir or lies below it.
func within(dir, path string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == filepath.Separator || strings.HasSuffix(dir, separator))
}

func (r *rooted) MkdirAll(dir string, perm os.FileMode) error {
	if err := r.check(dir); err != nil {
		return err
	}
	return r.base.MkdirAll(dir, perm)
}

func (r *rooted) Mkdir(dir string, perm os.FileMode) error {
	if err := r.check(dir); err != nil {
		return err
	}
	return r.base.Mkdir(dir, perm)
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

func (r *rooted) Open(path string) (Handle, error) { return r.open(path, r.base.Open) }

// open looks at the file itself only to say what is wrong: base follows no link there.
func (r *rooted) open(path string, base func(string) (Handle, error)) (Handle, error) {
	if err := r.check(filepath.Dir(path)); err != nil {
		return nil, err
	}
	h, err := base(path)
	if err == nil {
		return h, nil
	}
	if isLink := r.check(path); isLink != nil {
		return nil, isLink
	}
	return nil, err
}

func (r *rooted) OpenRead(path string) (Handle, error) { return r.open(path, r.base.OpenRead) }

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

func (r *rooted) OpenVolume(dir string) (Volume, error) {
	if err := r.check(dir); err != nil {
		return nil, err
	}
	return r.base.OpenVolume(dir)
}
