package indexfile

import (
	"encoding/binary"
	"runtime/debug"
	"slices"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// together is how many files touch goes through at once.
const together = 16

// mostEntries is how far touch follows a chain. Most are shorter; one that is very
// long, of a key that many records have, is not followed to its end by most queries.
const mostEntries = 16

// touch brings what the search will read in files, which are kept, into the
// processor's caches. To follow a chain is to wait for memory at each entry, because
// an entry says where the next one is. Going through the files in step, the waits of
// all of them are one.
func (s *search) touch(files []*file) {
	var pinned [together]*file
	n := 0
	for _, f := range slices.Backward(files) {
		h := f.header()
		if s.overlaps(h) && f.pinKept() == nil { // else the search meets the error
			pinned[n] = f
			n++
		}
		if n > 0 && pinned[n-1].view.Load() == nil { // read with system calls
			n--
			_ = f.unpin()
		}
		if h.BeginTimestamp < s.begin {
			break
		}
	}
	if n > 1 {
		s.touchChains(pinned[:n])
	}
	for _, f := range pinned[:n] {
		_ = f.unpin() // it was only read
	}
}

// touchChains goes through the chains of hash in step. So that one load does not
// wait for another there is no branch that depends on what is loaded: who is at the
// end of a chain stays at entry 0, whose place is never used.
func (s *search) touchChains(files []*file) {
	var fault error // the search meets it
	defer message.CatchFault(debug.SetPanicOnFault(true), &fault)
	var chains [together]chain
	for i, f := range files {
		chains[i] = chain{f, f.bytes(), f.entries}
		chains[i].follow(f.slotAt(s.hash), s.clock)
	}
	for range mostEntries {
		left := uint32(0)
		for i, f := range files {
			left |= chains[i].follow(f.entryAt(chains[i].at)+entryPrev, s.clock)
		}
		if left == 0 {
			return
		}
	}
}

// chain is where touchChains is in a file.
type chain struct {
	*file
	b  []byte
	at int32 // entry
}

// follow goes on to the entry that the word at pos names, if that is an older one.
func (c *chain) follow(pos int64, now *segment.Clock) uint32 {
	if !c.resident.Has(pos, now) {
		c.loaded(pos, slotSize, now)
	}
	next := binary.BigEndian.Uint32(c.b[pos:])
	if next >= uint32(c.at) {
		next = 0
	}
	c.at = int32(next)
	return next
}
