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
// the log.
type recent struct {
	ring []byte
	size int64 // of a lap
	room int64 // how far the writer may go, as far as it knows; under the put lock

	_       [64]byte
	written atomic.Int64 // of the writer
	_       [64]byte
	read    atomic.Int64 // of the reader
	_       [64]byte
}

const (
	maxRecent  = 4 << 20  // bytes: what is put while the reader does not get a processor
	maxOutline = 36 << 10 // bytes: fixed part, topic and properties
)

// newRecent makes the ring for a log of files of so many bytes.
func newRecent(fileSize int64) *recent {
	size := min(max(fileSize/16, 4*maxOutline), maxRecent)
	return &recent{ring: make([]byte, size+maxOutline), size: size, room: size}
}

// add puts the outline of a record. The caller holds the put lock.
func (q *recent) add(record []byte) {
	if q == nil {
		return // nobody follows
	}
	at := q.written.Load()
	if at+maxOutline > q.room {
		if q.room = q.read.Load() + q.size; at+maxOutline > q.room {
			return
		}
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
