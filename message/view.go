package message

import (
	"encoding/binary"
	"fmt"
)

// View is a record where it lies: in a mapped file or a buffer. It is valid as
// long as those bytes are; every slice it returns lies inside them. A View from
// ReadRecord is consistent in itself, and its methods never panic.
//
// It is four words long, and no struct in it has more than four fields: that is what
// compilers keep in registers. Another one is copied for each call of a method.
type View struct {
	raw []byte // exactly the record, or its outline
	at  places
}

// places are the positions in a record that differ from record to record, in one word:
// from the lowest bits on 32 for topic, 8 for each of topicLength, storeTime and tail,
// and outlined.
type places uint64

func placesOf(topic, topicLength, storeTime, tail int) places {
	return places(topic) | places(topicLength)<<32 | places(storeTime)<<40 | places(tail)<<48
}

func (p places) topic() int       { return int(uint32(p)) }
func (p places) topicLength() int { return int(uint8(p >> 32)) }
func (p places) storeTime() int   { return int(uint8(p >> 40)) } // storeTimestamp: what follows bornHost
func (p places) tail() int        { return int(uint8(p >> 48)) } // reconsumeTimes: what follows storeHost

// outlined says that the bytes are an outline: see ReadOutline.
const outlined places = 1 << 56

// tail is behind storeHost.
var _ = uint8(offBornHost + hostWidthV6 + relStoreHost + hostWidthV6)

// ReadRecord reads what lies at the start of b, which goes on to the end of the
// readable part of the file. The error is nil exactly for KindRecord,
// KindBlank and KindNothing, and matches ErrCorrupt for KindDamaged. The body's
// checksum is not compared: see View.CheckBody. Nothing is allocated, whatever
// the lengths in b claim.
func ReadRecord(b []byte) (View, Kind, error) {
	if len(b) < BlankSize {
		if allZero(b) {
			return View{}, KindNothing, nil
		}
		return View{}, KindDamaged, damaged("%d bytes are left, too few for a record", len(b))
	}
	size := int(int32(binary.BigEndian.Uint32(b[offTotalSize:])))
	switch magic := binary.BigEndian.Uint32(b[offMagic:]); magic {
	case RecordMagic:
	case BlankMagic:
		return View{}, KindBlank, nil
	case 0:
		if size == 0 {
			return View{}, KindNothing, nil
		}
		return View{}, KindDamaged, damaged("size %d without a magic number", size)
	case recordMagicV2:
		return View{}, KindDamaged, damaged("a record of RocketMQ 5 with a long topic")
	default:
		return View{}, KindDamaged, damaged("magic number %#08x", magic)
	}
	if size < MinRecordSize || size > len(b) {
		return View{}, KindDamaged, damaged("record size %d, not within [%d, %d]", size, MinRecordSize, len(b))
	}
	v, err := viewOf(b[:size:size])
	if err != nil {
		return View{}, KindDamaged, err
	}
	return v, KindRecord, nil
}

// viewOf finds the variable parts; raw has at least MinRecordSize bytes.
func viewOf(raw []byte) (View, error) {
	flag := SysFlag(binary.BigEndian.Uint32(raw[offSysFlag:]))
	storeTime := offBornHost + flag.bornHostWidth()
	tail := storeTime + relStoreHost + flag.storeHostWidth()
	rest := len(raw) - (tail + relBody + 1 + 2) // for body, topic and properties together
	if rest < 0 {
		return View{}, damaged("size %d is too small for its hosts", len(raw))
	}
	body := int(int32(binary.BigEndian.Uint32(raw[tail+relBodyLength:])))
	if body < 0 || body > rest {
		return View{}, damaged("body length %d, at most %d bytes are left", body, rest)
	}
	rest -= body
	start := tail + relBody + body + 1
	topic := int(raw[start-1])
	if topic > rest {
		return View{}, damaged("topic length %d, %d bytes are left", topic, rest)
	}
	rest -= topic
	if props := int(int16(binary.BigEndian.Uint16(raw[start+topic:]))); props != rest {
		return View{}, damaged("properties length %d, %d bytes are left", props, rest)
	}
	return View{raw, placesOf(start, topic, storeTime, tail)}, nil
}

// DamagedRecordSize returns the size of a record that ReadRecord calls damaged
// though it was written as a whole: magic number, place and body are right, only
// the lengths behind the body do not add up to its size. RocketMQ 4.9.3 writes
// such records for topics of 128 bytes and more. b is as for ReadRecord, at its
// place in the log.
func DamagedRecordSize(b []byte, at LogOffset) (int, bool) {
	if len(b) < MinRecordSize || binary.BigEndian.Uint32(b[offMagic:]) != RecordMagic {
		return 0, false
	}
	size := int(int32(binary.BigEndian.Uint32(b[offTotalSize:])))
	if size < MinRecordSize || size > len(b) || LogOffset(binary.BigEndian.Uint64(b[offLogOffset:])) != at {
		return 0, false
	}
	flag := SysFlag(binary.BigEndian.Uint32(b[offSysFlag:]))
	tail := offBornHost + flag.bornHostWidth() + relStoreHost + flag.storeHostWidth()
	body := tail + relBody
	if body > size {
		return 0, false
	}
	length := int(int32(binary.BigEndian.Uint32(b[tail+relBodyLength:])))
	if length < 0 || length > size-body {
		return 0, false
	}
	if length > 0 && BodyCRC(b[body:body+length]) != binary.BigEndian.Uint32(b[offBodyCRC:]) {
		return 0, false
	}
	return size, true
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// Raw is the whole record; of an outline the outline.
func (v View) Raw() []byte { return v.raw }

// Size is the number of bytes of the whole record.
func (v View) Size() int {
	if v.at&outlined != 0 {
		return int(v.u32(offTotalSize))
	}
	return len(v.raw)
}

func (v View) u32(p int) uint32 { return binary.BigEndian.Uint32(v.raw[p:]) }
func (v View) i64(p int) int64  { return int64(binary.BigEndian.Uint64(v.raw[p:])) }

// BodyCRC is the checksum that the record holds; CheckBody compares it.
func (v View) BodyCRC() uint32 { return v.u32(offBodyCRC) }

// QueueID is the queue that the record belongs to.
func (v View) QueueID() int32 { return int32(v.u32(offQueueID)) }

// Flag is the application's number.
func (v View) Flag() int32 { return int32(v.u32(offFlag)) }

// QueueOffset is the record's ordinal in its queue; 0 where SysFlag says that
// it takes none.
func (v View) QueueOffset() QueueOffset { return QueueOffset(v.i64(offQueueOffset)) }

// LogOffset is where the record says that it begins. It is not compared with
// where it lies.
func (v View) LogOffset() LogOffset { return LogOffset(v.i64(offLogOffset)) }

// SysFlag is the bit set that the record carries about itself.
func (v View) SysFlag() SysFlag { return SysFlag(v.u32(offSysFlag)) }

// BornTimestamp is the producer's clock, in ms since the Unix epoch.
func (v View) BornTimestamp() int64 { return v.i64(offBornTimestamp) }

// BornHost is the producer's address.
func (v View) BornHost() Host { return hostAt(v.raw[offBornHost:], v.SysFlag().bornHostWidth()) }

// StoreTimestamp is the store's clock, in ms since the Unix epoch.
func (v View) StoreTimestamp() int64 { return v.i64(v.at.storeTime()) }

// StoreHost is the store's address.
func (v View) StoreHost() Host {
	return hostAt(v.raw[v.at.storeTime()+relStoreHost:], v.SysFlag().storeHostWidth())
}

// ReconsumeTimes is how often the message was delivered again.
func (v View) ReconsumeTimes() int32 { return int32(v.u32(v.at.tail() + relReconsume)) }

// PreparedTransactionOffset is the place of the prepared half, 0 without one.
func (v View) PreparedTransactionOffset() LogOffset {
	return LogOffset(v.i64(v.at.tail() + relPrepared))
}

// Body is the body as stored; it lies inside the record.
func (v View) Body() []byte {
	end := v.at.topic() - 1
	return v.raw[v.at.tail()+relBody : end : end]
}

// Topic lies inside the record. It may be empty, or longer than this package
// writes it.
func (v View) Topic() []byte {
	end := v.topicEnd()
	return v.raw[v.at.topic():end:end]
}

func (v View) topicEnd() int { return v.at.topic() + v.at.topicLength() }

// Properties is the property string; it lies inside the record.
func (v View) Properties() []byte { return v.raw[v.topicEnd()+2:] }

// Property finds one property; the value lies inside the record.
func (v View) Property(name string) ([]byte, bool) { return lookup(v.Properties(), name) }

// CheckBody compares the body with its checksum; the error matches ErrCorrupt.
// RocketMQ does not verify an empty body, so neither does this.
func (v View) CheckBody() error {
	body := v.Body()
	if len(body) == 0 {
		return nil
	}
	if got, want := BodyCRC(body), v.BodyCRC(); got != want {
		return damaged("body checksum %08x, the record says %08x", got, want)
	}
	return nil
}

// Message copies everything out of the record.
func (v View) Message() MessageExt {
	return MessageExt{
		Message: Message{
			Topic:      string(v.Topic()),
			Flag:       v.Flag(),
			Body:       append([]byte(nil), v.Body()...),
			Properties: Properties(v.Properties()),
		},
		QueueID:                   v.QueueID(),
		StoreSize:                 int32(v.Size()),
		QueueOffset:               v.QueueOffset(),
		LogOffset:                 v.LogOffset(),
		SysFlag:                   v.SysFlag(),
		BodyCRC:                   v.BodyCRC(),
		BornTimestamp:             v.BornTimestamp(),
		BornHost:                  v.BornHost(),
		StoreTimestamp:            v.StoreTimestamp(),
		StoreHost:                 v.StoreHost(),
		ReconsumeTimes:            v.ReconsumeTimes(),
		PreparedTransactionOffset: v.PreparedTransactionOffset(),
	}
}
