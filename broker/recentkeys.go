package broker

import (
	"math/bits"

	"github.com/pocketmq/pocketmq/message"
)

// recentKeys are the hashes of the keys of the newest messages, with the places of
// the messages: a ring, and a table of chains over it, newest first. It does not
// grow. A message takes 24 to 32 bytes.
type recentKeys struct {
	hashes  []uint64
	offsets []message.LogOffset
	older   []uint32 // by place in the ring: the next of the chain, counted from 1; 0 ends it
	heads   []uint32 // by hash: the first of the chain, counted from 1
	next    int      // place in the ring that is written next
	full    bool
}

func newRecentKeys(n int) *recentKeys {
	return &recentKeys{
		hashes: make([]uint64, n), offsets: make([]message.LogOffset, n), older: make([]uint32, n),
		heads: make([]uint32, 1<<bits.Len(uint(n-1))),
	}
}

func (r *recentKeys) head(hash uint64) *uint32 { return &r.heads[hash&uint64(len(r.heads)-1)] }

// add takes the place of the oldest one when the ring is full.
func (r *recentKeys) add(hash uint64, off message.LogOffset) {
	if r.full {
		r.unlink(uint32(r.next + 1))
	}
	head := r.head(hash)
	r.hashes[r.next], r.offsets[r.next], r.older[r.next] = hash, off, *head
	*head = uint32(r.next + 1)
	if r.next++; r.next == len(r.hashes) {
		r.next, r.full = 0, true
	}
}

// unlink takes the oldest one, the last of its chain, out of it.
func (r *recentKeys) unlink(oldest uint32) {
	link := r.head(r.hashes[oldest-1])
	for *link != oldest {
		link = &r.older[*link-1]
	}
	*link = 0
}

// find returns the places of the messages with this hash, newest first.
func (r *recentKeys) find(hash uint64) []message.LogOffset {
	var found []message.LogOffset
	for at := *r.head(hash); at != 0; at = r.older[at-1] {
		if r.hashes[at-1] == hash {
			found = append(found, r.offsets[at-1])
		}
	}
	return found
}
