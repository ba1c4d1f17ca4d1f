package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/pocketmq/pocketmq/internal/segment"
)

// reserveFile lies in ownDir. What is in it does not matter: its blocks are kept
// for the day on which others have filled the disk.
const reserveFile = "reserve"

// maxDefaultReserve bounds the default: what the reserve is for, offsets,
// checkpoint, and the units of what is dispatched, takes no more.
const maxDefaultReserve = 8 << 20

// reserve gives its blocks, piece by piece, to writes that find the disk full.
// Those of the log do not ask it. Until it is whole again the log gets no
// further file.
type reserve struct {
	fs    segment.FS // the one that does not ask the reserve
	path  string
	mode  fs.FileMode
	given func() // called when a piece was given up

	mu     sync.Mutex
	handle segment.Handle // nil while there is no file
	have   int64          // bytes with blocks
	want   int64
}

// openReserve takes over the file that is there. The caller owns the directory.
func openReserve(fsys segment.FS, dir string, mode fs.FileMode, given func()) (*reserve, error) {
	r := &reserve{fs: fsys, path: filepath.Join(dir, ownDir, reserveFile), mode: mode, given: given}
	h, err := fsys.Open(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reserve: %w", err)
	}
	r.handle = h
	if r.have, err = h.Size(); err != nil {
		return nil, errors.Join(fmt.Errorf("reserve: %w", err), h.Close())
	}
	return r, nil
}

// resize makes the reserve want bytes large, as far as there is room; 0 removes
// the file.
func (r *reserve) resize(want int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.want = want
	switch {
	case want == 0 && r.handle == nil:
		return nil
	case want == 0:
		err := r.handle.Close()
		r.handle, r.have = nil, 0
		return errors.Join(err, r.fs.Remove(r.path))
	case r.have > want:
		if err := r.handle.Truncate(want); err != nil {
			return fmt.Errorf("reserve: %w", err)
		}
	}
	if r.have = min(r.have, want); r.have > 0 { // a file that is there may have holes
		if err := r.handle.Allocate(0, r.have); err != nil && !errors.Is(err, segment.ErrNoSpace) {
			return fmt.Errorf("reserve: %w", err)
		}
	}
	return r.fill()
}

// refill makes the reserve whole, if there is room. It returns an error that
// matches segment.ErrNoSpace as long as there is not.
func (r *reserve) refill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fill(); err != nil {
		return err
	}
	if r.have < r.want {
		return &FullError{What: "reserve of the store", Have: r.have, Limit: r.want, Unit: "bytes"}
	}
	return nil
}

// fill takes what there is room for. The caller holds mu.
func (r *reserve) fill() error {
	err := r.create()
	for err == nil && r.have < r.want {
		n := min(r.piece(), r.want-r.have)
		if err = r.handle.Allocate(r.have, n); err == nil {
			r.have += n
		}
	}
	if err != nil && !errors.Is(err, segment.ErrNoSpace) {
		return fmt.Errorf("reserve: %w", err)
	}
	return nil
}

func (r *reserve) create() (err error) {
	if r.handle == nil && r.want > 0 {
		r.handle, err = r.fs.Create(r.path, r.mode)
	}
	return err
}

// give gives up a piece; false if there was none.
func (r *reserve) give() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.handle == nil || r.have == 0 {
		return false
	}
	left := max(0, r.have-r.piece())
	if err := r.handle.Truncate(left); err != nil {
		return false
	}
	r.have = left
	r.given()
	return true
}

// piece is what is given or taken at once.
func (r *reserve) piece() int64 { return max(r.want/16, 64<<10) }

// bytes is the size of the reserve, as it should be.
func (r *reserve) bytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.want
}

// short reports whether a part was given up.
func (r *reserve) short() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.have < r.want
}

// close lets go of the file, which stays for the next Open.
func (r *reserve) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.handle == nil {
		return nil
	}
	h := r.handle
	r.handle, r.have = nil, 0
	return h.Close()
}

// sparing is an FS whose writes ask the reserve when the disk is full.
type sparing struct {
	segment.FS

	reserve *reserve
}

// again repeats do for as long as it finds the disk full and the reserve gives.
func (r *reserve) again(do func() error) error {
	err := do()
	for errors.Is(err, segment.ErrNoSpace) && r.give() {
		err = do()
	}
	return err
}

func (s sparing) MkdirAll(dir string, perm os.FileMode) error {
	return s.reserve.again(func() error { return s.FS.MkdirAll(dir, perm) })
}

func (s sparing) Create(path string, perm os.FileMode) (h segment.Handle, err error) {
	err = s.reserve.again(func() (err error) {
		h, err = s.FS.Create(path, perm)
		return err
	})
	return s.handle(h, err)
}

func (s sparing) CreateSized(path string, perm os.FileMode, size int64) (h segment.Handle, err error) {
	err = s.reserve.again(func() (err error) {
		h, err = s.FS.CreateSized(path, perm, size)
		return err
	})
	return s.handle(h, err)
}

func (s sparing) Open(path string) (segment.Handle, error) {
	h, err := s.FS.Open(path)
	return s.handle(h, err)
}

func (s sparing) Rename(from, to string) error {
	return s.reserve.again(func() error { return s.FS.Rename(from, to) })
}

func (s sparing) Link(from, to string) error {
	return s.reserve.again(func() error { return s.FS.Link(from, to) })
}

func (s sparing) handle(h segment.Handle, err error) (segment.Handle, error) {
	if err != nil {
		return nil, err
	}
	return sparingHandle{h, s.reserve}, nil
}

type sparingHandle struct {
	segment.Handle

	reserve *reserve
}

func (h sparingHandle) WriteAt(p []byte, off int64) (n int, err error) {
	err = h.reserve.again(func() (err error) {
		n, err = h.Handle.WriteAt(p, off)
		return err
	})
	return n, err
}

func (h sparingHandle) Truncate(size int64) error {
	return h.reserve.again(func() error { return h.Handle.Truncate(size) })
}

func (h sparingHandle) Allocate(off, n int64) error {
	return h.reserve.again(func() error { return h.Handle.Allocate(off, n) })
}
