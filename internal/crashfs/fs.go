package crashfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pocketmq/pocketmq/internal/segment"
)

// FS is a segment.FS over a directory. It is safe for concurrent use.
type FS struct {
	root string

	mu  sync.Mutex // guards all nodes
	top *node

	faults faults
}

var _ segment.FS = (*FS)(nil)

// node is a file or a directory; it outlives its name.
type node struct {
	mode os.FileMode

	// A file.
	live      *os.File       // reads what the process sees; nil while that is durable
	durable   []byte         // what is on disk; replaced, never changed
	lost      []byte         // the bytes at the last Sync that failed
	rewritten map[int64]bool // pages written again since then

	// A directory.
	entries map[string]*node // on disk; nil for a file
	now     map[string]*node // as the process sees it
	pending []change         // what leads from entries to now
}

// change is one directory operation: names set in one step, to nil when removed.
type change []struct {
	name string
	node *node
}

func newDirectory(mode os.FileMode) *node {
	return &node{mode: mode, entries: make(map[string]*node), now: make(map[string]*node)}
}

func (n *node) isDir() bool { return n.entries != nil }

func (n *node) apply(c change) {
	for _, e := range c {
		if e.node == nil {
			delete(n.now, e.name)
		} else {
			n.now[e.name] = e.node
		}
	}
	n.pending = append(n.pending, c)
}

func (n *node) sync() {
	for _, c := range n.pending {
		for _, e := range c {
			if e.node == nil {
				delete(n.entries, e.name)
			} else {
				n.entries[e.name] = e.node
			}
		}
	}
	n.pending = nil
}

// New returns an FS over root, which exists. All that is in it counts as being
// on disk. Close it at the end.
func New(root string) (*FS, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	f := &FS{root: root}
	f.top, err = load(root)
	return f, err
}

func load(path string) (*node, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		b, err := os.ReadFile(path)
		return &node{mode: info.Mode().Perm(), durable: b}, err
	}
	n := newDirectory(info.Mode().Perm())
	list, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		child, err := load(filepath.Join(path, e.Name()))
		if err != nil {
			return nil, err
		}
		n.entries[e.Name()], n.now[e.Name()] = child, child
	}
	return n, nil
}

// Root is the real directory.
func (f *FS) Root() string { return f.root }

// Close gives back what the FS itself holds open. Handles are their owners'.
func (f *FS) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	f.walk(func(n *node) {
		if n.live != nil {
			errs = append(errs, n.live.Close())
			n.live = nil
		}
	})
	return errors.Join(errs...)
}

// walk visits every node once, named or not.
func (f *FS) walk(visit func(*node)) {
	seen := make(map[*node]bool)
	var rec func(n *node)
	rec = func(n *node) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		visit(n)
		for _, c := range n.entries {
			rec(c)
		}
		for _, c := range n.now {
			rec(c)
		}
		for _, c := range n.pending {
			for _, e := range c {
				rec(e.node)
			}
		}
	}
	rec(f.top)
}

// split returns the node of the directory that holds path, and the last name.
func (f *FS) split(path string) (*node, string, error) {
	rel, err := f.rel(path)
	if err != nil {
		return nil, "", err
	}
	n := f.top
	parts := strings.Split(rel, string(filepath.Separator))
	for _, p := range parts[:len(parts)-1] {
		if n = n.now[p]; n == nil || !n.isDir() {
			return nil, "", &fs.PathError{Op: "walk", Path: path, Err: fs.ErrNotExist}
		}
	}
	return n, parts[len(parts)-1], nil
}

func (f *FS) rel(path string) (string, error) {
	rel, err := filepath.Rel(f.root, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", fmt.Errorf("crashfs: %s is not below %s", path, f.root)
	}
	return rel, nil
}

// find returns the node of path, nil if there is none.
func (f *FS) find(path string) *node {
	dir, name, err := f.split(path)
	if err != nil {
		return nil
	}
	if name == "." {
		return f.top
	}
	return dir.now[name]
}

// change does one directory operation, on the real directory and in the model.
// All names are in one directory.
func (f *FS) change(path string, do func() error, model func(dir *node, name string) change) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, name, err := f.split(path)
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	dir.apply(model(dir, name))
	return nil
}

// MkdirAll implements segment.FS. Every directory made, and every sync, is a
// moment of its own.
func (f *FS) MkdirAll(dir string, perm os.FileMode) error {
	if err := f.step(OpMkdirAll, dir); err != nil {
		return err
	}
	return f.mkdirAll(filepath.Clean(dir), perm)
}

func (f *FS) mkdirAll(dir string, perm os.FileMode) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("not a directory")}
	case err == nil || !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := f.mkdirAll(filepath.Dir(dir), perm); err != nil {
		return err
	}
	err = f.change(dir, func() error { return os.Mkdir(dir, perm) }, func(_ *node, name string) change {
		return change{{name, newDirectory(perm)}}
	})
	if err != nil {
		return err
	}
	return f.SyncDir(filepath.Dir(dir))
}

// Mkdir implements segment.FS.
func (f *FS) Mkdir(dir string, perm os.FileMode) error {
	if err := f.step(OpMkdir, dir); err != nil {
		return err
	}
	return f.change(filepath.Clean(dir), func() error { return os.Mkdir(dir, perm) }, func(_ *node, name string) change {
		return change{{name, newDirectory(perm)}}
	})
}

// Create implements segment.FS.
func (f *FS) Create(path string, perm os.FileMode) (segment.Handle, error) {
	if err := f.step(OpCreate, path); err != nil {
		return nil, err
	}
	var h segment.Handle
	n := &node{mode: perm}
	err := f.change(path, func() (err error) {
		h, err = segment.OS.Create(path, perm)
		return err
	}, func(_ *node, name string) change { return change{{name, n}} })
	if err != nil {
		return nil, err
	}
	return f.handle(h, n, path)
}

// CreateSized implements segment.FS. The length comes after the name, as where
// the system can do no better.
func (f *FS) CreateSized(path string, perm os.FileMode, size int64) (segment.Handle, error) {
	h, err := f.Create(path, perm)
	if err != nil {
		return nil, err
	}
	if err := h.Truncate(size); err != nil {
		return nil, errors.Join(err, h.Close(), f.Remove(path))
	}
	return h, nil
}

// Open implements segment.FS.
func (f *FS) Open(path string) (segment.Handle, error) {
	if err := f.step(OpOpen, path); err != nil {
		return nil, err
	}
	h, err := segment.OS.Open(path)
	if err != nil {
		return nil, err
	}
	n, err := f.adopt(path)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return f.handle(h, n, path)
}

// adopt returns the node of path; a file put there behind the back of the FS
// counts as being on disk.
func (f *FS) adopt(path string) (*node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.find(path); n != nil {
		return n, nil
	}
	dir, name, err := f.split(path)
	if err != nil {
		return nil, err
	}
	n, err := load(path)
	if err == nil {
		dir.entries[name], dir.now[name] = n, n
	}
	return n, err
}

// OpenRead implements segment.FS.
func (f *FS) OpenRead(path string) (segment.Handle, error) {
	if err := f.step(OpOpenRead, path); err != nil {
		return nil, err
	}
	h, err := segment.OS.OpenRead(path)
	if err != nil {
		return nil, err
	}
	return &handle{Handle: h, fs: f, path: path, readOnly: true}, nil
}

// Remove implements segment.FS.
func (f *FS) Remove(path string) error {
	if err := f.step(OpRemove, path); err != nil {
		return err
	}
	return f.change(path, func() error { return os.Remove(path) }, func(_ *node, name string) change {
		return change{{name, nil}}
	})
}

// Rename implements segment.FS, within one directory.
func (f *FS) Rename(from, to string) error {
	if err := f.step(OpRename, to); err != nil {
		return err
	}
	if filepath.Dir(from) != filepath.Dir(to) {
		return fmt.Errorf("crashfs: %s and %s are in two directories", from, to)
	}
	return f.change(to, func() error { return os.Rename(from, to) }, func(dir *node, name string) change {
		old := filepath.Base(from)
		if dir.now[old] == dir.now[name] { // two names of one file: rename(2) does nothing
			return nil
		}
		return change{{old, nil}, {name, dir.now[old]}}
	})
}

// Link implements segment.FS, within one directory.
func (f *FS) Link(from, to string) error {
	if err := f.step(OpLink, to); err != nil {
		return err
	}
	if filepath.Dir(from) != filepath.Dir(to) {
		return fmt.Errorf("crashfs: %s and %s are in two directories", from, to)
	}
	return f.change(to, func() error { return os.Link(from, to) }, func(dir *node, name string) change {
		return change{{name, dir.now[filepath.Base(from)]}}
	})
}

// ReadDir implements segment.FS.
func (f *FS) ReadDir(dir string) ([]os.DirEntry, error) {
	if err := f.step(OpReadDir, dir); err != nil {
		return nil, err
	}
	return segment.OS.ReadDir(dir)
}

// Lstat implements segment.FS.
func (f *FS) Lstat(path string) (os.FileInfo, error) {
	if err := f.step(OpLstat, path); err != nil {
		return nil, err
	}
	return segment.OS.Lstat(path)
}

// SyncDir implements segment.FS.
func (f *FS) SyncDir(dir string) error {
	if err := f.step(OpSyncDir, dir); err != nil || f.lies(OpSyncDir, dir) {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.find(filepath.Clean(dir))
	if n == nil || !n.isDir() {
		return &fs.PathError{Op: "sync", Path: dir, Err: fs.ErrNotExist}
	}
	n.sync()
	return nil
}
