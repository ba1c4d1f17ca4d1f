package commitlog

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/pocketmq/pocketmq/message"
)

// recent holds the outlines of the records that were appended last, for the one
// reader that keeps up with the appends: what it wants of a record it finds
// together, and need not fetch from memory that another processor has just written.
//
//	bytes  what
//	4      length n of the outline, in the machine's order
//	n      the outline, see message.PutOutline
//	0-7    nothing, up to a multiple of 8
//
// Positions count the bytes that were ever put. An outline begins in the first size
// bytes of the ring, and may end behind them; the next one is then at the start
// again. What does not fit because the reader is behind is left out: that is read in
// the log, and the reader offers a larger ring, in which the writer goes on.
type recent struct {
	ring []byte
	size int64 // of a lap
	room int64 // how far the writer may go, as far as it knows; under the put lock

	next  atomic.Pointer[recent] // the ring that is written after this one
	offer atomic.Pointer[recent] // by the reader
	small atomic.Bool            // something was left out

	_       [64]byte
	written atomic.Int64 // of the writer
	_       [64]byte
	read    atomic.Int64 // of the reader
	_       [64]byte
}

const (
	leastRecent = 128 << 10 // bytes: of some hundred records
	mostRecent  = 4 << 20   // bytes: of what a fast writer puts while the reader gets no processor
	maxOutline  = 36 << 10  // bytes: fixed part, topic and properties
)

// newRecent makes a ring, all of it in memory: the writer meets no fault in it.
func newRecent(size int64) *recent {
	q := &recent{ring: make([]byte, size+maxOutline), size: size, room: size}
	for i := 0; i < len(q.ring); i += 4 << 10 {
		q.ring[i] = 1
	}
	return q
}

// remember puts the outline of a record. The caller holds the put lock.
func (l *Log) remember(record []byte) {
	q := l.recent
	if q == nil {
		return // nobody follows
	}
	at := q.written.Load()
	if at+maxOutline > q.room {
		q.room = q.read.Load() + q.size
	}
	if at+maxOutline > q.room {
		larger := q.offer.Load()
		if larger == nil {
			if !q.small.Load() {
				q.small.Store(true)
			}
			return
		}
		q.next.Store(larger)
		l.recent, q, at = larger, larger, 0
	}
	entry := q.ring[at%q.size:][:maxOutline]
	n := message.PutOutline(entry[4:], record)
	binary.NativeEndian.PutUint32(entry, uint32(n))
	q.written.Store(q.behind(at, n))
}

// at is the outline at a position below written.
func (q *recent) at(pos int64) []byte {
	entry := q.ring[pos%q.size:]
	return entry[4:][:binary.NativeEndian.Uint32(entry)]
}

// behind is the position behind the outline of n bytes at pos.
func (q *recent) behind(pos int64, n int) int64 {
	lap := pos - pos%q.size + q.size
	return min(pos+(4+int64(n)+7)/8*8, lap)
}
