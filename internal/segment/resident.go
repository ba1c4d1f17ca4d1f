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
// mapping, and returns up to where that holds, at least off+n. It looks at whole chunks, up to limit, behind which
// nothing of interest lies; who goes through a file asks again at what was returned. See Residency. Needs a pin.
func (f *File) MakeResident(off, n, limit int64, now *Clock) int64 {
	return f.seen.Make(f.view, f.handle, f.list.size, off, n, limit, now)
}

// Residency remembers what of a mapped file is in memory. A load from a page that is not there stops more than the
// goroutine that does it: until the disk has answered, the Go runtime can not stop the world. A read by a system call
// can be waited for.
//
// Mostly it costs a look at the clock: a chunk that was found in memory is not looked at again for a second. So it
// makes such a fault unlikely, not impossible. Errors are not its business: the guarded access meets them.
type Residency struct {
	seen atomic.Pointer[[]atomic.Uint32] // the tick at which each chunk was last found in memory; nil before the first
}

// Make brings the n bytes at off of a file of that size into memory, and the rest of the chunks that they lie in, up to
// limit; it returns up to where that holds, at least off+n.
func (r *Residency) Make(view Mapping, file Handle, size, off, n, limit int64, now *Clock) int64 {
	limit = min(limit, size)
	end := min(off+n, limit)
	if off < 0 || off >= end {
		return off + n
	}
	seen, tick := r.chunks(size), now.tick()
	chunk := off / residentChunk
	for ; chunk*residentChunk < end; chunk++ {
		if seen[chunk].Load() != tick {
			readChunk(view, file, chunk*residentChunk, min((chunk+1)*residentChunk, limit))
			seen[chunk].Store(tick)
		}
	}
	return max(off+n, min(chunk*residentChunk, limit))
}

// Has reports whether the byte at off was found in memory lately. It is what Make begins with, for who asks often.
func (r *Residency) Has(off int64, now *Clock) bool {
	seen := r.seen.Load()
	return seen != nil && (*seen)[off/residentChunk].Load() == now.tick()
}

// Forget is for a file that is mapped no longer.
func (r *Residency) Forget() { r.seen.Store(nil) }

func (r *Residency) chunks(size int64) []atomic.Uint32 {
	if seen := r.seen.Load(); seen != nil {
		return *seen
	}
	seen := make([]atomic.Uint32, (size+residentChunk-1)/residentChunk)
	r.seen.CompareAndSwap(nil, &seen)
	return seen
}

// readChunk brings [from, to) into memory, if it is not known to be there.
func readChunk(view Mapping, file Handle, from, to int64) {
	if view.Resident(from, to-from) {
		return
	}
	buf := scratch.Get().(*[residentChunk]byte)
	defer scratch.Put(buf)
	_, _ = file.ReadAt(buf[:to-from], from)
}

var scratch = sync.Pool{New: func() any { return new([residentChunk]byte) }}

// Clock is a moment: that in which somebody first asked. Who makes several ranges resident at once looks at the clock
// once. The zero value is ready; it is for one goroutine.
type Clock struct{ now uint32 }

// tick is the time in units of residentFor, never 0.
func (c *Clock) tick() uint32 {
	if c.now == 0 {
		c.now = uint32(time.Since(began)/residentFor) + 1
	}
	return c.now
}

var began = time.Now()
