// Package recent remembers what was looked up last, so that most look-ups of a queue
// take no lock and meet no map.
package recent

import "sync/atomic"

// Slots are what was found last of the queues that have it, by a weak hash of topic and
// queue id; queues of one topic get slots of their own. Two queues may share a slot: who
// loads one compares names. The zero value is empty. It may be used concurrently.
type Slots[T any] [64]atomic.Pointer[T]

// Slot is where something of the queue is remembered. Topic may be bytes that are used by
// nobody after the call.
func Slot[T any, S string | []byte](s *Slots[T], topic S, queueID int32) *atomic.Pointer[T] {
	h := uint(queueID) + uint(len(topic))*7
	if len(topic) > 0 {
		h += uint(topic[0])*31 + uint(topic[len(topic)-1])*13
	}
	return &s[h%uint(len(s))]
}
