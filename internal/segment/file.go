package segment

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

// File is one file of a list. All methods may be called concurrently; those that touch the file itself need a pin. It
// is open and mapped from its first pin on until Cache closes it, or it leaves its list: a store may have very many
// files, so a File is small and keeps nothing that can be computed.
type File struct {
	list  *Files
	base  int64
	sized bool // its length was on disk before the list had it

	state    atomic.Int32 // see pin.go
	dirty    atomic.Bool  // may hold something that is not synced, and is not left
	mayLeave atomic.Bool  // see Files.mayLeave
	left     atomic.Int64 // the sync of the Volume that covers the rest, see together; 0 for none
	drop     atomic.Bool  // remove the name when the last pin is gone

	seen Residency

	blocks atomic.Int64 // bytes from the start that have blocks

	mu     sync.Mutex  // one opening, closing, or allocation at a time
	id     mmap.FileID // guarded by mu
	failed error       // guarded by mu: the first sync that failed
	clean  bool        // guarded by mu: the Cache closed it, and nothing was unsynced but what was left
	handle Handle      // changed with mu held and without pins; who has a pin may read it
	view   Mapping     // like handle
	slot   int         // guarded by the Cache: where it counts the file
}

// Base returns the absolute offset of the first byte.
func (f *File) Base() int64 { return f.base }

// Size returns the length in bytes, the same for each file of a list.
func (f *File) Size() int64 { return f.list.size }

// End returns the absolute offset just past the last byte.
func (f *File) End() int64 { return f.base + f.list.size }

// Path returns where the file lies, or lay before it was removed.
func (f *File) Path() string { return filepath.Join(f.list.dir, FileName(f.base)) }

// Bytes returns the whole mapping. It is valid while the caller's pin lasts, and must be touched under Catch, and
// stored to only below Allocated. Without any pin it panics.
func (f *File) Bytes() []byte {
	if f.state.Load()&counted == 0 {
		panic("segment: Bytes of " + f.Path() + " without a pin")
	}
	return f.view.Bytes()
}

// Catch turns a fault inside the mapping of this file into an error; see mmap.Mapping.Catch:
//
//	defer f.Catch(debug.SetPanicOnFault(true), &err)
func (f *File) Catch(old bool, err *error) {
	debug.SetPanicOnFault(old)
	if r := recover(); r != nil {
		*err = f.Caught(r)
	}
}

// Caught is for who has a Catch of its own, because it goes from file to file: it returns the error for a recovered
// fault inside the mapping of this file, and panics with the very same value otherwise. Needs a pin.
func (f *File) Caught(recovered any) error { return f.view.Caught(recovered) }

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
	n, err := f.handle.WriteAt(p, off)
	f.MarkDirty()
	return n, err
}

// MarkDirty says that something was stored through the mapping, by somebody who will let the last pin go before a Sync.
// It comes after the store: what a Sync does not see yet is for the next one.
func (f *File) MarkDirty() {
	if !f.dirty.Load() {
		f.dirty.Store(true)
	}
}

// DataEnd returns a position in the file from which on it reads as zeros, as far as the filesystem knows without
// reading: the end of the last range that is not a hole. Needs a pin.
func (f *File) DataEnd() (int64, error) { return f.handle.DataEnd(f.list.size) }

func (f *File) check(off, n int64) error {
	if off < 0 || off > f.list.size-n {
		return fmt.Errorf("%s: %w: %d bytes at %d of %d", f.Path(), ErrBadOffset, n, off, f.list.size)
	}
	return nil
}

// Sync returns nil when everything stored and written to the file before the call is durable. Needs a pin. After an
// error nobody knows what is kept, and a further sync would prove nothing: every later call returns that error.
func (f *File) Sync() error {
	if err := f.failure(nil); err != nil {
		return err
	}
	if f.waits() { // only the sync of the whole volume tells about what was written before the file was closed
		f.tryLeave()
		return f.failure(f.list.cache.together.sync(f.left.Load()))
	}
	f.dirty.Store(false) // before: what is stored from here on may need another one
	if f.list.derived {
		// Else the sync write-protects mapped pages one by one, and interrupts each processor for it. The log, of which
		// only a part is synced while another is written, drops that part by itself. An error only makes it slower.
		_ = f.view.Drop(0, f.list.size)
	}
	return f.failure(f.handle.Sync())
}

// failure returns the first sync that failed; err is the newest.
func (f *File) failure(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed == nil && f.state.Load()&broken == 0 {
		f.failed = err
	}
	return cmp.Or(f.failed, err)
}

// Populate makes the pages of the n bytes at off of the file present and writable, where the system can do that.
// They become dirty. The range must be below Allocated. Needs a pin.
func (f *File) Populate(off, n int64) error { return f.view.Populate(off, n) }

// Drop takes the whole pages in the n bytes at off out of the page tables, where the system can do that. Before a Sync
// of pages that are written it makes the Sync cheaper. Needs a pin.
func (f *File) Drop(off, n int64) error { return f.view.Drop(off, n) }

// CheckInPlace returns a *MovedError if the path no longer leads to this file: somebody else removed or replaced it,
// and what is written here is lost with the last pin. Needs a pin.
func (f *File) CheckInPlace() error {
	same, err := f.handle.StillAt(f.Path())
	if err != nil {
		return fmt.Errorf("check %s: %w", f.Path(), err)
	}
	if !same {
		return &MovedError{Path: f.Path()}
	}
	return nil
}

// roundUp returns n rounded up to a multiple of unit.
func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

func pageSize() int64 { return int64(os.Getpagesize()) }

var _ Mapping = (*mmap.Mapping)(nil)
