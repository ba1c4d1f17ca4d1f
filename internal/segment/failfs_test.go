package segment

import (
	"errors"
	"os"
	"sync"
)

var errInjected = errors.New("injected failure")

// failFS hands each call on to the real filesystem, after asking fail, which sees the name of the operation and the
// path and may answer an error instead. It records what was called.
type failFS struct {
	FS
	mu    sync.Mutex
	fail  func(op, path string) error
	calls []string
}

func newFailFS() *failFS { return &failFS{FS: OS} }

// failNth makes the n-th call from now fail, counted from 1, and with sticky all after it.
func (f *failFS) failNth(n int, sticky bool, err error) {
	f.set(func(op, path string) error {
		n--
		if n == 0 || n < 0 && sticky {
			return err
		}
		return nil
	})
}

func (f *failFS) set(fail func(op, path string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail, f.calls = fail, nil
}

func (f *failFS) did() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...)
}

func (f *failFS) step(op, path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, op)
	if f.fail == nil {
		return nil
	}
	return f.fail(op, path)
}

func (f *failFS) MkdirAll(dir string, perm os.FileMode) error {
	if err := f.step("mkdirall", dir); err != nil {
		return err
	}
	return f.FS.MkdirAll(dir, perm)
}

func (f *failFS) Mkdir(dir string, perm os.FileMode) error {
	if err := f.step("mkdir", dir); err != nil {
		return err
	}
	return f.FS.Mkdir(dir, perm)
}

func (f *failFS) Create(path string, perm os.FileMode) (Handle, error) {
	if err := f.step("create", path); err != nil {
		return nil, err
	}
	return f.wrap(path)(f.FS.Create(path, perm))
}

func (f *failFS) CreateSized(path string, perm os.FileMode, size int64) (Handle, error) {
	if err := f.step("create", path); err != nil {
		return nil, err
	}
	return f.wrap(path)(f.FS.CreateSized(path, perm, size))
}

func (f *failFS) Open(path string) (Handle, error) {
	if err := f.step("open", path); err != nil {
		return nil, err
	}
	return f.wrap(path)(f.FS.Open(path))
}

func (f *failFS) OpenRead(path string) (Handle, error) {
	if err := f.step("openread", path); err != nil {
		return nil, err
	}
	return f.wrap(path)(f.FS.OpenRead(path))
}

func (f *failFS) Remove(path string) error {
	if err := f.step("remove", path); err != nil {
		return err
	}
	return f.FS.Remove(path)
}

func (f *failFS) Rename(from, to string) error {
	if err := f.step("rename", to); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

func (f *failFS) Link(from, to string) error {
	if err := f.step("link", to); err != nil {
		return err
	}
	return f.FS.Link(from, to)
}

func (f *failFS) ReadDir(dir string) ([]os.DirEntry, error) {
	if err := f.step("readdir", dir); err != nil {
		return nil, err
	}
	return f.FS.ReadDir(dir)
}

func (f *failFS) Lstat(path string) (os.FileInfo, error) {
	if err := f.step("lstat", path); err != nil {
		return nil, err
	}
	return f.FS.Lstat(path)
}

func (f *failFS) SyncDir(dir string) error {
	if err := f.step("syncdir", dir); err != nil {
		return err
	}
	return f.FS.SyncDir(dir)
}

func (f *failFS) wrap(path string) func(Handle, error) (Handle, error) {
	return func(h Handle, err error) (Handle, error) {
		if err != nil {
			return nil, err
		}
		return &failHandle{Handle: h, fs: f, path: path}, nil
	}
}

type failHandle struct {
	Handle
	fs   *failFS
	path string
}

func (h *failHandle) ReadAt(p []byte, off int64) (int, error) {
	if err := h.fs.step("readat", h.path); err != nil {
		return 0, err
	}
	return h.Handle.ReadAt(p, off)
}

func (h *failHandle) WriteAt(p []byte, off int64) (int, error) {
	if err := h.fs.step("writeat", h.path); err != nil {
		return 0, err
	}
	return h.Handle.WriteAt(p, off)
}

func (h *failHandle) Size() (int64, error) {
	if err := h.fs.step("size", h.path); err != nil {
		return 0, err
	}
	return h.Handle.Size()
}

func (h *failHandle) Truncate(size int64) error {
	if err := h.fs.step("truncate", h.path); err != nil {
		return err
	}
	return h.Handle.Truncate(size)
}

func (h *failHandle) Allocate(off, n int64) error {
	if err := h.fs.step("allocate", h.path); err != nil {
		return err
	}
	return h.Handle.Allocate(off, n)
}

func (h *failHandle) Map(length int64) (Mapping, error) {
	if err := h.fs.step("map", h.path); err != nil {
		return nil, err
	}
	return h.Handle.Map(length)
}

func (h *failHandle) Sync() error {
	if err := h.fs.step("sync", h.path); err != nil {
		return err
	}
	return h.Handle.Sync()
}

// Close always closes, and then may report an error, as close(2) does.
func (h *failHandle) Close() error {
	err := h.Handle.Close()
	if err := h.fs.step("close", h.path); err != nil {
		return err
	}
	return err
}
