package consumequeue

import "sync/atomic"

// recent is the queues that were found last, by a weak hash; it is read without a
// lock. A queue never leaves its table, so what is here is right as long as the
// table is.
type recent [64]atomic.Pointer[Queue]

// slotOf is where a queue is remembered. Queues of one topic get slots of their own.
func slotOf[T string | []byte](r *recent, topic T, id int32) *atomic.Pointer[Queue] {
	h := uint(id) + uint(len(topic))*7
	if len(topic) > 0 {
		h += uint(topic[0])*31 + uint(topic[len(topic)-1])*13
	}
	return &r[h%uint(len(r))]
}
