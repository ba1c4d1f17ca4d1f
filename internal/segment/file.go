package segment

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

// File is one file of a list. All methods may be called concurrently; those that touch the file itself need a pin.
type File struct {
	base, size, step int64
	path             string
	fs               FS
	handle           Handle
	view             Mapping

	pins    atomic.Int32                    // number of pins, plus retired
	drop    atomic.Bool                     // remove the name when the last pin is gone
	prepare sync.Mutex                      // one allocation at a time
	blocks  atomic.Int64                    // bytes from the start that have blocks
	seen    atomic.Pointer[[]atomic.Uint32] // see MakeResident; nil before the first
}

// openFile maps the first size bytes of an open file. The file takes the handle over only if there is no error.
func (s *Files) openFile(h Handle, base int64, path string) (*File, error) {
	view, err := h.Map(s.size)
	if err != nil {
		return nil, err
	}
	return &File{base: base, size: s.size, step: s.step, path: path, fs: s.fs, handle: h, view: view}, nil
}

// Base returns the absolute offset of the first byte.
func (f *File) Base() int64 { return f.base }

// Size returns the length in bytes, the same for each file of a list.
func (f *File) Size() int64 { return f.size }

// End returns the absolute offset just past the last byte.
func (f *File) End() int64 { return f.base + f.size }

// Path returns where the file lies, or lay before it was removed.
func (f *File) Path() string { return f.path }

// Bytes returns the whole mapping. It is valid while the caller's pin lasts, and must be touched under Catch, and
// stored to only below Allocated. Without any pin it panics.
func (f *File) Bytes() []byte {
	if f.pins.Load()&^retired == 0 {
		panic("segment: Bytes of " + f.path + " without a pin")
	}
	return f.view.Bytes()
}

// Catch turns a fault inside the mapping of this file into an error; see mmap.Mapping.Catch:
//
//	defer f.Catch(debug.SetPanicOnFault(true), &err)
func (f *File) Catch(old bool, err *error) {
	debug.SetPanicOnFault(old)
	if r := recover(); r != nil {
		*err = f.view.Caught(r)
	}
}

// ReadAt reads through the descriptor at off, counted from the start of the file. Unlike a load from the mapping it
// is a system call: a slow disk stops the caller only. Needs a pin.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if err := f.check(off, int64(len(p))); err != nil {
		return 0, err
	}
	return f.handle.ReadAt(p, off)
}

// WriteAt writes through the descriptor at off, counted from the start of the file, and never makes the file longer.
// Needs a pin.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	if err := f.check(off, int64(len(p))); err != nil {
		return 0, err
	}
	return f.handle.WriteAt(p, off)
}

func (f *File) check(off, n int64) error {
	if off < 0 || off > f.size-n {
		return fmt.Errorf("%s: %w: %d bytes at %d of %d", f.path, ErrBadOffset, n, off, f.size)
	}
	return nil
}

// Sync returns nil when everything stored and written to the file before the call is durable. Needs a pin. After an
// error a further Sync proves nothing.
func (f *File) Sync() error { return f.handle.Sync() }

// Populate makes the pages of the n bytes at off of the file present and writable, where the system can do that.
// They become dirty. The range must be below Allocated. Needs a pin.
func (f *File) Populate(off, n int64) error { return f.view.Populate(off, n) }

// Drop takes the whole pages in the n bytes at off out of the page tables, where the system can do that. Before a Sync
// of pages that are written it makes the Sync cheaper. Needs a pin.
func (f *File) Drop(off, n int64) error { return f.view.Drop(off, n) }

// CheckInPlace returns a *MovedError if the path no longer leads to this file: somebody else removed or replaced it,
// and what is written here is lost with the last pin. Needs a pin.
func (f *File) CheckInPlace() error {
	same, err := f.handle.StillAt(f.path)
	if err != nil {
		return fmt.Errorf("check %s: %w", f.path, err)
	}
	if !same {
		return &MovedError{Path: f.path}
	}
	return nil
}

// roundUp returns n rounded up to a multiple of unit.
func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

func pageSize() int64 { return int64(os.Getpagesize()) }

var _ Mapping = (*mmap.Mapping)(nil)
