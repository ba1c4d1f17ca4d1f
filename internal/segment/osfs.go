package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

// OS is the real filesystem.
var OS FS = osFS{}

type osFS struct{}

func (fsys osFS) MkdirAll(dir string, perm os.FileMode) error {
	dir = filepath.Clean(dir)
	info, err := os.Stat(dir)
	if err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: errNotDirectory}
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return err
	}
	if err := fsys.MkdirAll(parent, perm); err != nil {
		return err
	}
	if err := os.Mkdir(dir, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return mmap.NoSpace(err)
	}
	return mmap.SyncDir(parent)
}

func (osFS) Mkdir(dir string, perm os.FileMode) error { return mmap.NoSpace(os.Mkdir(dir, perm)) }

func (osFS) Create(path string, perm os.FileMode) (Handle, error) {
	f, err := mmap.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, mmap.NoSpace(err)
	}
	return &osHandle{f: f}, nil
}

func (osFS) CreateSized(path string, perm os.FileMode, size int64) (Handle, error) {
	f, err := mmap.CreateSized(path, perm, size)
	if err != nil {
		return nil, mmap.NoSpace(err)
	}
	return &osHandle{f: f}, nil
}

func (osFS) Open(path string) (Handle, error) { return openRegular(path, os.O_RDWR, false) }

func (osFS) OpenRead(path string) (Handle, error) { return openRegular(path, os.O_RDONLY, true) }

// openRegular looks before it opens: opening a named pipe would wait for its other end.
func openRegular(path string, flag int, readOnly bool) (Handle, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errNotARegular}
	}
	f, err := mmap.OpenFile(path, flag, 0)
	if err != nil {
		return nil, err
	}
	return &osHandle{f: f, readOnly: readOnly}, nil
}

func (osFS) Remove(path string) error                  { return os.Remove(path) }
func (osFS) Rename(from, to string) error              { return mmap.NoSpace(os.Rename(from, to)) }
func (osFS) Link(from, to string) error                { return mmap.NoSpace(os.Link(from, to)) }
func (osFS) ReadDir(dir string) ([]os.DirEntry, error) { return os.ReadDir(dir) }
func (osFS) Lstat(path string) (os.FileInfo, error)    { return os.Lstat(path) }
func (osFS) SyncDir(dir string) error                  { return mmap.SyncDir(dir) }

func (osFS) OpenVolume(dir string) (Volume, error) {
	v, err := mmap.OpenVolume(dir)
	if err != nil {
		return nil, err
	}
	return v, nil
}

// osHandle is a file of the operating system.
type osHandle struct {
	f        *os.File
	readOnly bool
	view     atomic.Pointer[mmap.Mapping] // what Sync has to flush where the system needs that
}

func (h *osHandle) ReadAt(p []byte, off int64) (int, error) { return h.f.ReadAt(p, off) }

func (h *osHandle) WriteAt(p []byte, off int64) (int, error) {
	n, err := h.f.WriteAt(p, off)
	return n, mmap.NoSpace(err)
}

func (h *osHandle) Size() (int64, error) {
	info, err := h.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (h *osHandle) ID() (mmap.FileID, error) {
	info, err := h.f.Stat()
	if err != nil {
		return mmap.FileID{}, err
	}
	return mmap.FileIDOf(info), nil
}

func (h *osHandle) DataEnd(size int64) (int64, error) { return mmap.DataEnd(h.f, size) }

func (h *osHandle) Truncate(size int64) error   { return mmap.NoSpace(h.f.Truncate(size)) }
func (h *osHandle) Allocate(off, n int64) error { return mmap.Allocate(h.f, off, n) }

func (h *osHandle) Map(length int64) (Mapping, error) {
	mapFile := mmap.Map
	if h.readOnly {
		mapFile = mmap.MapReadOnly
	}
	m, err := mapFile(h.f, length)
	if err != nil {
		return nil, err
	}
	if !h.readOnly {
		h.view.Store(m)
	}
	return m, nil
}

func (h *osHandle) Sync() error { return mmap.Datasync(h.f, h.view.Load()) }
func (h *osHandle) Lock() error { return mmap.LockFile(h.f) }

func (h *osHandle) StillAt(path string) (bool, error) {
	at, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	mine, err := h.f.Stat()
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	return os.SameFile(at, mine), nil
}

func (h *osHandle) Close() error { return h.f.Close() }
