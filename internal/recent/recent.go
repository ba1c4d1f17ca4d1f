// Package recent remembers what was looked up of each queue, so that most look-ups
// take no lock and meet no map.
package recent

import (
	"math/bits"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// Slots are what was found last of the queues that have it, by a hash of the topic, and
// the queue id; queues of one topic get slots of their own, as far as there are as many. Two
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
	return &(*t)[(hash(topic)+uint64(queueID))&uint64(len(*t)-1)]
}

func hash[S string | []byte](topic S) uint64 {
	if b, ok := any(topic).([]byte); ok {
		return xxhash.Sum64(b)
	}
	return xxhash.Sum64String(string(topic))
}
