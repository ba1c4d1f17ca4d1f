package message

import (
	"encoding/binary"
	"strconv"
	"strings"
	"unicode/utf8"
)

// RecordSize is the number of bytes that m takes as a record.
func (m *MessageExt) RecordSize() int { return m.RecordSizeWith(Trailer{}) }

// RecordSizeWith is RecordSize with t added.
func (m *MessageExt) RecordSizeWith(t Trailer) int {
	return fixedSize + m.BornHost.width() + m.StoreHost.width() +
		len(m.Body) + len(m.Topic) + t.length(m.Properties)
}

// PutRecord writes m as a record into the first RecordSize bytes of dst, taking
// QueueOffset, LogOffset, StoreTimestamp and BodyCRC from m. The address bits
// of SysFlag follow the hosts; StoreSize is ignored. The fields must have
// passed Check, except that a longer topic is written as Java writes it.
//
// Size and magic are written last: after a kill in the middle, memory that was
// zero before does not look like a record. Nothing is allocated.
func (m *MessageExt) PutRecord(dst []byte) { m.PutRecordWith(dst, Trailer{}) }

// PutRecordWith is PutRecord with t added, into the first RecordSizeWith(t) bytes.
// m must have passed CheckTrailer, too.
func (m *MessageExt) PutRecordWith(dst []byte, t Trailer) {
	size := m.RecordSizeWith(t)
	_ = dst[size-1] // a short dst is the caller's bug, whatever its capacity
	dst = dst[:size:size]
	be := binary.BigEndian

	be.PutUint32(dst[offBodyCRC:], m.BodyCRC)
	be.PutUint32(dst[offQueueID:], uint32(m.QueueID))
	be.PutUint32(dst[offFlag:], uint32(m.Flag))
	be.PutUint64(dst[offQueueOffset:], uint64(m.QueueOffset))
	be.PutUint64(dst[offLogOffset:], uint64(m.LogOffset))
	be.PutUint32(dst[offSysFlag:], uint32(m.SysFlag.withHosts(m.BornHost, m.StoreHost)))
	be.PutUint64(dst[offBornTimestamp:], uint64(m.BornTimestamp))

	p := offBornHost
	p += m.BornHost.put(dst[p:])
	be.PutUint64(dst[p+relStoreTimestamp:], uint64(m.StoreTimestamp))
	p += relStoreHost
	p += m.StoreHost.put(dst[p:])
	be.PutUint32(dst[p+relReconsume:], uint32(m.ReconsumeTimes))
	be.PutUint64(dst[p+relPrepared:], uint64(m.PreparedTransactionOffset))
	be.PutUint32(dst[p+relBodyLength:], uint32(len(m.Body)))
	p += relBody
	p += copy(dst[p:], m.Body)
	dst[p] = byte(len(m.Topic))
	p++
	p += copy(dst[p:], m.Topic)
	be.PutUint16(dst[p:], uint16(t.length(m.Properties)))
	t.put(dst[p+2:], m.Properties)
	if t.CRC {
		PutCRC32(dst)
	}

	be.PutUint32(dst[offMagic:], RecordMagic)
	be.PutUint32(dst[offTotalSize:], uint32(size))
}

// PlaceRecord sets what a record learns last: its number in the queue, its
// place in the log, and the store's time in ms. rec starts with a record that
// PutRecord wrote; one that has PropertyCRC32 needs PutCRC32 afterwards.
func PlaceRecord(rec []byte, queueOffset QueueOffset, logOffset LogOffset, storeTimestamp int64) {
	be := binary.BigEndian
	be.PutUint64(rec[offQueueOffset:], uint64(queueOffset))
	be.PutUint64(rec[offLogOffset:], uint64(logOffset))
	storeTime := offBornHost + SysFlag(be.Uint32(rec[offSysFlag:])).bornHostWidth()
	be.PutUint64(rec[storeTime+relStoreTimestamp:], uint64(storeTimestamp))
}

// CheckTopic refuses a topic that can not be stored: it must take 1 to 127
// bytes of UTF-8 and be one safe path element, because a topic is also the
// name of a directory. Whether a client may use it is for mq and broker to say.
func CheckTopic(topic string) error { return checkTopic(topic, MaxTopicLength) }

// CheckStoredTopic is CheckTopic for topics found in a log: RocketMQ, which
// counts characters, lets some through that take up to 255 bytes.
func CheckStoredTopic(topic string) error { return checkTopic(topic, 255) }

func checkTopic(topic string, limit int) error {
	switch {
	case topic == "":
		return &IllegalError{"topic", "", "is empty"}
	case len(topic) > limit:
		return &LimitError{Field: "topic", Limit: int64(limit), Value: int64(len(topic))}
	case topic == "." || topic == "..":
		return &IllegalError{"topic", topic, "is not a name for a directory"}
	case strings.ContainsAny(topic, "/\\\x00"):
		return &IllegalError{"topic", topic, "has a path separator or a NUL"}
	case !utf8.ValidString(topic):
		return &IllegalError{"topic", topic, "is not UTF-8"}
	}
	return nil
}

// Check refuses what would harm the log: a topic that CheckTopic refuses, more
// than maxBody bytes of body, more than 32,767 bytes of properties, a negative
// queue id. The errors are a *LimitError or an *IllegalError.
func (m *MessageExt) Check(maxBody int) error {
	if err := CheckTopic(m.Topic); err != nil {
		return err
	}
	if m.QueueID < 0 {
		return &IllegalError{"queue id", strconv.Itoa(int(m.QueueID)), "is negative"}
	}
	return m.CheckLengths(maxBody)
}

// CheckLengths is the part of Check that is about body and properties.
func (m *MessageExt) CheckLengths(maxBody int) error {
	if len(m.Body) > maxBody {
		return &LimitError{Field: "body", Limit: int64(maxBody), Value: int64(len(m.Body))}
	}
	if len(m.Properties) > MaxPropertiesLength {
		return &LimitError{Field: "properties", Limit: MaxPropertiesLength, Value: int64(len(m.Properties))}
	}
	return nil
}
