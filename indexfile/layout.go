package indexfile

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/pocketmq/pocketmq/message"
)

// Header layout, big-endian, 40 bytes:
//
//	offset size field          meaning
//	     0    8 beginTimestamp store time (ms) of the first entry's record
//	     8    8 endTimestamp   store time (ms) of the last entry's record
//	    16    8 beginPhyOffset log offset of the first entry's record
//	    24    8 endPhyOffset   log offset of the last entry's record
//	    32    4 hashSlotCount  slots that are not empty
//	    36    4 indexCount     number of the next entry; 0 in a file without entries
//
// A file without entries holds what its predecessor ended with: timestamps and
// offsets both of its last entry.
//
// Source: RocketMQ store/index/IndexHeader.java.
const (
	headerBeginTimestamp = 0
	headerEndTimestamp   = headerBeginTimestamp + 8
	headerBeginOffset    = headerEndTimestamp + 8
	headerEndOffset      = headerBeginOffset + 8
	headerSlotCount      = headerEndOffset + 8
	headerCount          = headerSlotCount + 4
	headerSize           = headerCount + 4
)

// Slot layout, big-endian, 4 bytes. Slot s lies at 40 + 4·s:
//
//	offset size field meaning
//	     0    4 entry the newest entry of the slot, 0 for none
const slotSize = 4

// Entry layout, big-endian, 20 bytes. Entry e lies at 40 + 4·slots + 20·e; there
// is no entry 0, so a file holds one less than it has places for.
//
//	offset size field     meaning
//	     0    4 keyHash   see KeyHash
//	     4    8 phyOffset log offset of the record
//	    12    4 timeDiff  store time minus beginTimestamp, in whole seconds, at least 0
//	    16    4 prev      the entry before it in its slot, 0 for none
//
// Source: RocketMQ store/index/IndexFile.java, putKey.
const (
	entryHash   = 0
	entryOffset = entryHash + 4
	entryDiff   = entryOffset + 8
	entryPrev   = entryDiff + 4
	entrySize   = entryPrev + 4
)

var (
	_ [40]byte = [headerSize]byte{}
	_ [20]byte = [entrySize]byte{}
)

// RocketMQ's geometry: files of 420,000,040 bytes.
const (
	RocketMQSlots   = 5_000_000
	RocketMQEntries = 20_000_000
)

// FileSize is the size in bytes of a file with room for so many slots and
// entries, of which one entry is never used.
func FileSize(slots, entries int32) int64 {
	return headerSize + slotSize*int64(slots) + entrySize*int64(entries)
}

// checkGeometry wants at least one slot and one usable entry, and a size that
// RocketMQ can compute, in 32 bits.
func checkGeometry(slots, entries int32) error {
	switch {
	case slots < 1:
		return &message.IllegalError{Field: "index slots", Value: fmt.Sprint(slots), Reason: "must be at least 1"}
	case entries < 2:
		return &message.IllegalError{Field: "index entries", Value: fmt.Sprint(entries), Reason: "must be at least 2"}
	}
	if size := FileSize(slots, entries); size > math.MaxInt32 {
		return &message.LimitError{Field: "index file size", Limit: math.MaxInt32, Value: size}
	}
	return nil
}

// Header says what a file holds. Without entries Count is 1.
type Header struct {
	BeginTimestamp int64             // store time of the first entry's record, ms
	EndTimestamp   int64             // store time of the last entry's record, ms
	BeginLogOffset message.LogOffset // of the first entry's record
	EndLogOffset   message.LogOffset // of the last entry's record
	SlotCount      int32             // slots that are not empty
	Count          int32             // number of the next entry; the first is 1
}

// put writes the header. The count comes last. Of a file that never had an
// entry it stays 0, as RocketMQ leaves it.
func (h Header) put(b []byte) {
	be := binary.BigEndian
	be.PutUint64(b[headerBeginTimestamp:], uint64(h.BeginTimestamp))
	be.PutUint64(b[headerEndTimestamp:], uint64(h.EndTimestamp))
	be.PutUint64(b[headerBeginOffset:], uint64(h.BeginLogOffset))
	be.PutUint64(b[headerEndOffset:], uint64(h.EndLogOffset))
	be.PutUint32(b[headerSlotCount:], uint32(h.SlotCount))
	if h.Count > 1 {
		be.PutUint32(b[headerCount:], uint32(h.Count))
	}
}

func headerAt(b []byte) Header {
	be := binary.BigEndian
	return Header{
		BeginTimestamp: int64(be.Uint64(b[headerBeginTimestamp:])),
		EndTimestamp:   int64(be.Uint64(b[headerEndTimestamp:])),
		BeginLogOffset: message.LogOffset(be.Uint64(b[headerBeginOffset:])),
		EndLogOffset:   message.LogOffset(be.Uint64(b[headerEndOffset:])),
		SlotCount:      int32(be.Uint32(b[headerSlotCount:])),
		Count:          max(1, int32(be.Uint32(b[headerCount:]))),
	}
}

// check says what can not be true of a file with that many places for entries.
func (h Header) check(entries int32) error {
	switch {
	case h.Count > entries:
		return fmt.Errorf("%w: entry %d is next, of %d", message.ErrCorrupt, h.Count, entries)
	case h.BeginLogOffset < 0 || h.EndLogOffset < h.BeginLogOffset:
		return fmt.Errorf("%w: log offsets %d to %d", message.ErrCorrupt, h.BeginLogOffset, h.EndLogOffset)
	case h.BeginTimestamp < 0 || h.EndTimestamp < 0:
		return fmt.Errorf("%w: times %d to %d", message.ErrCorrupt, h.BeginTimestamp, h.EndTimestamp)
	}
	return nil
}

// entry is one key of one record.
type entry struct {
	hash   int32
	offset message.LogOffset
	diff   int32 // seconds
	prev   int32
}

func (e entry) put(b []byte) {
	be := binary.BigEndian
	be.PutUint32(b[entryHash:], uint32(e.hash))
	be.PutUint64(b[entryOffset:], uint64(e.offset))
	be.PutUint32(b[entryDiff:], uint32(e.diff))
	be.PutUint32(b[entryPrev:], uint32(e.prev))
}

func entryAt(b []byte) entry {
	be := binary.BigEndian
	return entry{
		hash:   int32(be.Uint32(b[entryHash:])),
		offset: message.LogOffset(be.Uint64(b[entryOffset:])),
		diff:   int32(be.Uint32(b[entryDiff:])),
		prev:   int32(be.Uint32(b[entryPrev:])),
	}
}

// loadSlot and storeSlot access a slot as one word, which makes what was stored
// before it visible to who loads it. Slots lie at multiples of 4.
func loadSlot(b []byte) int32 {
	return int32(swap(atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[:slotSize][0])))))
}

func storeSlot(b []byte, e int32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[:slotSize][0])), swap(uint32(e)))
}

// swap converts between the machine's order and big-endian, both ways.
func swap(v uint32) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return binary.NativeEndian.Uint32(b[:])
}

// keySeparator stands between topic and key in what is hashed.
const keySeparator = '#'

// KeyHash is the hash under which a key of a topic is stored: Java's absolute
// value of the hash code of topic#key, and 0 for the smallest int, which has
// none.
//
// Source: RocketMQ store/index/IndexFile.java, indexKeyHashMethod.
func KeyHash(topic, key string) int32 { return keyHash(topicHash(topic), key) }

// topicHash is the hash code of topic#, with which those of its keys begin.
func topicHash[T string | []byte](topic T) int32 {
	return message.JavaHashFrom(message.JavaHash(topic), string(keySeparator))
}

// keyHash is KeyHash by the topicHash of the topic.
func keyHash[T string | []byte](topic int32, key T) int32 {
	h := message.JavaHashFrom(topic, key)
	if h < 0 {
		h = max(0, -h) // the smallest int is its own negative
	}
	return h
}
