package message

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Record layout, big-endian. B and S are the widths of the two hosts: 8, or 20
// where sysFlag says IPv6.
//
//	offset        size field                     meaning
//	0                4 totalSize                 bytes of the record, this field included
//	4                4 magic                     0xDAA320A7
//	8                4 bodyCRC                   CRC-32 (IEEE) of the body, top bit cleared; 0 without a body
//	12               4 queueId
//	16               4 flag                      the application's
//	20               8 queueOffset               entries; 0 for prepared and rolled-back records
//	28               8 physicalOffset            log offset of the record's first byte
//	36               4 sysFlag                   see SysFlag
//	40               8 bornTimestamp             ms, producer's clock
//	48               B bornHost                  address, port
//	48+B             8 storeTimestamp            ms, store's clock
//	56+B             S storeHost                 address, port
//	56+B+S           4 reconsumeTimes
//	60+B+S           8 preparedTransactionOffset log offset
//	68+B+S           4 bodyLength
//	72+B+S           n body
//	…                1 topicLength               1 to 127 bytes when we write it; read as unsigned
//	…                n topic                     UTF-8
//	…                2 propertiesLength          0 to 32767
//	…                n properties                see Properties
//
// The checksum covers the body alone. Zero is no magic, so space that was
// never written reads as the end of the log.
//
// Source: RocketMQ store/CommitLog.java, calMsgLength and MessageExtEncoder.
const (
	offTotalSize      = 0
	offMagic          = offTotalSize + 4
	offBodyCRC        = offMagic + 4
	offQueueID        = offBodyCRC + 4
	offFlag           = offQueueID + 4
	offQueueOffset    = offFlag + 4
	offLogOffset      = offQueueOffset + 8
	offSysFlag        = offLogOffset + 8
	offBornTimestamp  = offSysFlag + 4
	offBornHost       = offBornTimestamp + 8
	relStoreTimestamp = 0                     // from the end of bornHost
	relStoreHost      = relStoreTimestamp + 8 // from the end of bornHost
	relReconsume      = 0                     // from the end of storeHost
	relPrepared       = relReconsume + 4
	relBodyLength     = relPrepared + 8
	relBody           = relBodyLength + 4

	// fixedSize is what a record takes beside hosts, body, topic and properties.
	fixedSize = offBornHost + relStoreHost + relBody + 1 + 2

	// MinRecordSize is the size of a record with IPv4 hosts and nothing else.
	MinRecordSize = fixedSize + 2*hostWidthV4
)

var _ [75]byte = [fixedSize]byte{}     // the sum that the format states
var _ [91]byte = [MinRecordSize]byte{} // with two IPv4 hosts

// Magic numbers of the commit log.
const (
	RecordMagic = 0xDAA320A7
	// BlankMagic marks the unused end of a segment file.
	BlankMagic = 0xCBD43194
	// recordMagicV2 marks records of RocketMQ 5 whose topic length takes two
	// bytes. RocketMQ 4.9.3 and PocketMQ do not read them.
	recordMagicV2 = 0xDAA320AB
)

// BlankSize is the size of the blank that ends a segment file, so a record of
// n bytes needs n+BlankSize bytes of room.
//
//	offset size field
//	     0    4 bytes left in the file, this field included
//	     4    4 magic, 0xCBD43194
//
// What follows in the file is undefined.
const BlankSize = 8

// PutBlank writes the blank into the first BlankSize bytes of dst; left is the
// number of bytes to the end of the file.
func PutBlank(dst []byte, left int) {
	binary.BigEndian.PutUint32(dst[4:], BlankMagic)
	binary.BigEndian.PutUint32(dst, uint32(left))
}

// Limits of the format, in bytes. A store's configuration may set lower ones.
const (
	MaxTopicLength      = 127
	MaxPropertiesLength = 32767
	// MaxRecordOverhead is what a record may take beyond its body.
	MaxRecordOverhead = fixedSize + 2*hostWidthV6 + MaxTopicLength + MaxPropertiesLength
)

// BodyCRC is the checksum that a record holds for its body.
func BodyCRC(body []byte) uint32 {
	return crc32.ChecksumIEEE(body) & 0x7FFFFFFF
}

// Kind says what lies at a position of the log.
type Kind uint8

// What ReadRecord finds.
const (
	KindRecord  Kind = iota // a whole record that is consistent in itself
	KindBlank               // the rest of this file is unused
	KindNothing             // zeros: nothing was written here
	KindDamaged             // anything else; the error says what
)

func (k Kind) String() string {
	switch k {
	case KindRecord:
		return "record"
	case KindBlank:
		return "blank"
	case KindNothing:
		return "nothing"
	case KindDamaged:
		return "damaged"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}
