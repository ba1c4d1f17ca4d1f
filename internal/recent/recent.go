// Package recent remembers what was looked up of each queue, so that most look-ups
// take no lock and meet no map.
package recent

import (
	"math/bits"
	"sync/atomic"
)

// Slots are what was found last of the queues that have it, by a weak hash of topic and
// queue id; queues of one topic get slots of their own, as far as there are as many. Two
// queues may share a slot: who loads one compares names. The zero value has one slot. It
// may be used concurrently, but for Grow.
type Slots[T any] struct {
	table atomic.Pointer[[]atomic.Pointer[T]] // a power of two of them
	only  atomic.Pointer[T]                   // as long as there is no table
}

// From 64 slots on there are at least as many as queues, up to 65,536: half a MiB.
const (
	fewest = 64
	most   = 1 << 16
)

// Grow is called when there are so many queues. It forgets what it makes no room for.
func (s *Slots[T]) Grow(queues int) {
	had := 0
	if t := s.table.Load(); t != nil {
		had = len(*t)
	}
	if queues <= had || had == most {
		return
	}
	table := make([]atomic.Pointer[T], min(most, max(fewest, 1<<bits.Len(uint(queues)))))
	s.table.Store(&table)
}

// Slot is where something of the queue is remembered. Topic may be bytes that are used by
// nobody after the call. Nobody keeps a slot.
func Slot[T any, S string | []byte](s *Slots[T], topic S, queueID int32) *atomic.Pointer[T] {
	t := s.table.Load()
	if t == nil {
		return &s.only
	}
	return &(*t)[int(hash(topic)+uint32(queueID))&(len(*t)-1)]
}

// hash mixes the first and the last eight bytes, in which most topics differ.
func hash[S string | []byte](topic S) uint32 {
	var first, last uint64
	if n := len(topic); n >= 8 {
		first, last = eight(topic, 0), eight(topic, n-8)
	} else {
		for i := range n {
			first = first<<8 | uint64(topic[i])
		}
	}
	high, low := bits.Mul64(first^0x9e3779b97f4a7c15, last^0xd1b54a32d192ed03) // to mix all bits
	h := high ^ low
	return uint32(h>>32) ^ uint32(h)
}

func eight[S string | []byte](b S, i int) uint64 {
	return uint64(b[i]) | uint64(b[i+1])<<8 | uint64(b[i+2])<<16 | uint64(b[i+3])<<24 |
		uint64(b[i+4])<<32 | uint64(b[i+5])<<40 | uint64(b[i+6])<<48 | uint64(b[i+7])<<56
}
