package consumequeue

import (
	"encoding/binary"
	"math"

	"github.com/pocketmq/pocketmq/message"
)

// Unit layout, big-endian, 20 bytes:
//
//	offset size field     meaning
//	     0    8 logOffset of the record's first byte
//	     8    4 size      bytes of the record
//	    12    8 tagsCode  hash of its tag; of a parked record, when it is due (ms)
//
// Unit q of a queue lies at byte 20·q of the queue's address space. Zeros mean
// that nothing was written. A blank, logOffset 0 and size 0x7FFFFFFF, holds the
// place of a message that the queue does not have.
//
// Source: RocketMQ store/ConsumeQueue.java, CQ_STORE_UNIT_SIZE.
const (
	unitLogOffset = 0
	unitSize      = unitLogOffset + 8
	unitTagsCode  = unitSize + 4

	// UnitSize is the number of bytes of a unit.
	UnitSize = unitTagsCode + 8
)

var _ [20]byte = [UnitSize]byte{}

// Unit is one message of a queue.
type Unit struct {
	LogOffset message.LogOffset
	Size      int32
	TagsCode  int64
}

var blank = Unit{Size: math.MaxInt32}

// IsBlank reports whether the unit stands for a message that is not there.
func (u Unit) IsBlank() bool { return u.LogOffset == 0 && u.Size == math.MaxInt32 }

// isReal reports whether the unit points at a record.
func (u Unit) isReal() bool { return u.Size > 0 && !u.IsBlank() }

func (u Unit) put(dst []byte) {
	binary.BigEndian.PutUint64(dst[unitLogOffset:], uint64(u.LogOffset))
	binary.BigEndian.PutUint32(dst[unitSize:], uint32(u.Size))
	binary.BigEndian.PutUint64(dst[unitTagsCode:], uint64(u.TagsCode))
}

// Append adds the unit's UnitSize bytes to b.
func (u Unit) Append(b []byte) []byte {
	var buf [UnitSize]byte
	u.put(buf[:])
	return append(b, buf[:]...)
}

func unitAt(b []byte) Unit {
	return Unit{
		LogOffset: message.LogOffset(binary.BigEndian.Uint64(b[unitLogOffset:])),
		Size:      int32(binary.BigEndian.Uint32(b[unitSize:])),
		TagsCode:  int64(binary.BigEndian.Uint64(b[unitTagsCode:])),
	}
}

// ParseUnit reads the unit in the first UnitSize bytes of b.
func ParseUnit(b []byte) Unit { return unitAt(b) }
