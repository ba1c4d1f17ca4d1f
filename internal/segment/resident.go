package segment

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// residentChunk is the unit in which MakeResident looks and reads: what a system reads around a page fault, too.
	residentChunk = 128 << 10
	// residentFor is how long a chunk that was found in memory is taken to be there.
	residentFor = time.Second
)

// MakeResident sees to it that the n bytes at off of the file are in memory before they are touched through the
// mapping, and returns up to where that holds, at least off+n. A load from a page that is not there stops more than the
// goroutine that does it: until the disk has answered, the Go runtime can not stop the world. A read by a system call
// can be waited for.
//
// It looks at whole chunks, up to limit, behind which nothing of interest lies; who goes through a file asks again at
// what was returned. Mostly it costs a look at the clock: a chunk that was found in memory is not looked at again for
// a second. So it makes such a fault unlikely, not impossible. Errors are not its business: the guarded access meets
// them. Needs a pin.
func (f *File) MakeResident(off, n, limit int64) int64 {
	limit = min(limit, f.size)
	end := min(off+n, limit)
	if off < 0 || off >= end {
		return off + n
	}
	seen, now := f.chunks(), tick()
	chunk := off / residentChunk
	for ; chunk*residentChunk < end; chunk++ {
		if seen[chunk].Load() != now {
			f.readChunk(chunk*residentChunk, min((chunk+1)*residentChunk, limit))
			seen[chunk].Store(now)
		}
	}
	return max(off+n, min(chunk*residentChunk, limit))
}

// chunks has the tick at which each chunk of the file was last found in memory.
func (f *File) chunks() []atomic.Uint32 {
	if seen := f.seen.Load(); seen != nil {
		return *seen
	}
	seen := make([]atomic.Uint32, (f.size+residentChunk-1)/residentChunk)
	f.seen.CompareAndSwap(nil, &seen)
	return *f.seen.Load()
}

// readChunk brings [from, to) into memory, if it is not known to be there.
func (f *File) readChunk(from, to int64) {
	if f.view.Resident(from, to-from) {
		return
	}
	buf := scratch.Get().(*[residentChunk]byte)
	defer scratch.Put(buf)
	_, _ = f.ReadAt(buf[:to-from], from)
}

var scratch = sync.Pool{New: func() any { return new([residentChunk]byte) }}

// tick is the time in units of residentFor, never 0.
func tick() uint32 { return uint32(time.Since(began)/residentFor) + 1 }

var began = time.Now()
