package segment

import (
	"errors"
	"io/fs"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

// File.state is one word: the number of pins, and what goes with it. A file with a pin is mapped, and stays so: that
// is what a pin is for. One that is mapped may lose that at any moment in which it has no pin, so mapping and number
// of pins are changed together, and exactly one goroutine sees "retired and no pins".
const (
	retired = 1 << 30    // left the list: no new pin, and release at the moment the count is 0
	mapped  = 1 << 29    // handle and view are there
	used    = 1 << 28    // pinned since the Cache looked for a file to close
	broken  = 1 << 27    // handle and view only say why the file could not be opened; until the last pin is gone
	counted = broken - 1 // the number of pins
)

// none is the state of a file that is neither mapped nor pinned.
const none = 0

// IsMapped reports whether the file is open at the moment.
func (f *File) IsMapped() bool { return f.state.Load()&mapped != 0 }

// isRetired tells whether the file has left its list.
func (f *File) isRetired() bool { return f.state.Load()&retired != 0 }

// removed is isRetired for who has found the name gone: it may be just about to be retired.
func (f *File) removed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.isRetired()
}

// Pin keeps the mapping and the descriptor until Unpin, after opening the file if need be. It returns false once the
// file has left its list. A file that can not be opened is pinned all the same, and every access to it is an error,
// that of Bytes through Catch, which says why; it is opened anew when all these pins are gone.
func (f *File) Pin() bool {
	for {
		n := f.state.Load()
		if n&(retired|mapped) != mapped {
			return n&retired == 0 && f.pinUnmapped()
		}
		if f.state.CompareAndSwap(n, (n+1)|used) {
			return true
		}
	}
}

// pinUnmapped is Pin for a file that was not mapped when it was looked at.
func (f *File) pinUnmapped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		n := f.state.Load()
		switch {
		case n&retired != 0:
			return false
		case n&mapped != 0:
			if f.state.CompareAndSwap(n, (n+1)|used) {
				return true
			}
		default: // it stays so: only who holds mu maps a file
			if f.state.CompareAndSwap(none, f.open()|used|1) {
				return true
			}
			_ = f.close() // retired meanwhile, and nobody is left to tell
			return false
		}
	}
}

// Unpin ends one pin. After the last one of a file that left its list, the memory is gone.
func (f *File) Unpin() {
	n := f.state.Add(-1)
	if n&counted == counted {
		panic("segment: Unpin of " + f.Path() + " without a pin")
	}
	if n&counted == 0 && n&(retired|broken) != 0 {
		f.unpinned(n)
	}
}

// unpinned does what the last pin of a file leaves to do that is retired or broken.
func (f *File) unpinned(n int32) {
	if n&retired != 0 {
		_ = f.release() // nobody is left to tell
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state.CompareAndSwap(n, none) {
		f.handle, f.view = nil, nil
	}
}

// retire ends the file; its caller took it out of the list. The error is that of releasing it, if that happens here.
func (f *File) retire() error {
	if f.state.Or(retired)&(retired|counted) == 0 {
		return f.release()
	}
	return nil
}

// release runs exactly once, when no pin is left and none can come.
func (f *File) release() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.close()
	if f.drop.Load() {
		err = errors.Join(err, f.list.fs.Remove(f.Path()))
	}
	return err
}

// open makes handle and view and returns mapped; with broken if they only say why they can not be used. The caller
// holds mu.
func (f *File) open() int32 {
	f.list.cache.admit(f)
	h, err := f.openHandle()
	if err == nil {
		if err = f.adopt(h); err == nil {
			return mapped
		}
		err = errors.Join(err, h.Close())
	}
	f.list.cache.forget(f)
	u := &unavailable{err}
	f.handle, f.view = u, u
	return mapped | broken
}

// openHandle opens the file for the caller, who holds mu.
func (f *File) openHandle() (Handle, error) {
	h, err := f.list.fs.Open(f.Path())
	if errors.Is(err, fs.ErrNotExist) {
		err = &MovedError{Path: f.Path()}
	}
	if err != nil {
		return nil, err
	}
	if err := f.checkSame(h); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// checkSame refuses a file that changed since it was listed, or that has been put in its place.
func (f *File) checkSame(h Handle) error {
	size, err := h.Size()
	if err != nil {
		return err
	}
	if size != f.list.size {
		return &SizeError{Path: f.Path(), Got: size, Want: f.list.size}
	}
	id, err := h.ID()
	if err == nil && f.id.Differs(id) {
		err = &MovedError{Path: f.Path()}
	}
	return err
}

// adopt maps the open file h and takes it over.
func (f *File) adopt(h Handle) error {
	id, err := h.ID()
	if err != nil {
		return err
	}
	view, err := h.Map(f.list.size)
	if err != nil {
		return err
	}
	f.id, f.handle, f.view, f.clean = id, h, view, false
	f.mayLeave.Store(f.list.mayLeave(id))
	return nil
}

// close ends mapping and descriptor, if they are there. The caller holds mu, and nobody has a pin.
func (f *File) close() error {
	if f.handle == nil {
		return nil
	}
	f.list.cache.forget(f)
	err := errors.Join(f.view.Unmap(), f.handle.Close())
	f.handle, f.view = nil, nil
	f.seen.Forget()
	return err
}

// unavailable stands in for a file that can not be opened.
type unavailable struct{ why error }

func (u *unavailable) ReadAt([]byte, int64) (int, error)  { return 0, u.why }
func (u *unavailable) WriteAt([]byte, int64) (int, error) { return 0, u.why }
func (u *unavailable) Size() (int64, error)               { return 0, u.why }
func (u *unavailable) ID() (mmap.FileID, error)           { return mmap.FileID{}, u.why }
func (u *unavailable) DataEnd(int64) (int64, error)       { return 0, u.why }
func (u *unavailable) Truncate(int64) error               { return u.why }
func (u *unavailable) Allocate(int64, int64) error        { return u.why }
func (u *unavailable) Map(int64) (Mapping, error)         { return nil, u.why }
func (u *unavailable) Sync() error                        { return u.why }
func (u *unavailable) Lock() error                        { return u.why }
func (u *unavailable) StillAt(string) (bool, error)       { return false, u.why }
func (u *unavailable) Close() error                       { return nil }
func (u *unavailable) Populate(int64, int64) error        { return u.why }
func (u *unavailable) Drop(int64, int64) error            { return u.why }
func (u *unavailable) Resident(int64, int64) bool         { return true }
func (u *unavailable) Unmap() error                       { return nil }

// Bytes panics with what Caught turns into the error.
func (u *unavailable) Bytes() []byte { panic(u) }

func (u *unavailable) Caught(recovered any) error {
	if recovered == u {
		return u.why
	}
	panic(recovered)
}
