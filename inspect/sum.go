package inspect

import (
	"hash/crc32"

	"github.com/pocketmq/pocketmq/message"
)

// The checksum over a whole record that RocketMQ 5.1 appends to the properties
// when enabledAppendPropCRC is set, 20 bytes:
//
//	offset size field
//	     0    8 __CRC32#
//	     8    1 0x01
//	     9   10 CRC-32 (IEEE) of all bytes of the record before these 20, top bit
//	            cleared, in decimal digits, the lowest first, filled up with zeros
//	    19    1 0x02
//
// Source: RocketMQ 5 common/message/MessageDecoder.java, createCrc32.
const (
	sumName   = "__CRC32#\x01"
	sumDigits = 10
	sumSize   = len(sumName) + sumDigits + 1
)

// checkSum compares the checksum of the whole record, if it has one.
func checkSum(v message.View) error {
	props := v.Properties()
	if len(props) < sumSize || props[len(props)-1] != 2 {
		return nil
	}
	field := props[len(props)-sumSize:]
	if string(field[:len(sumName)]) != sumName {
		return nil
	}
	digits := field[len(sumName) : sumSize-1]
	raw := v.Raw()
	sum := crc32.ChecksumIEEE(raw[:len(raw)-sumSize]) & 0x7FFFFFFF
	var want [sumDigits]byte
	for i, rest := 0, sum; i < sumDigits; i, rest = i+1, rest/10 {
		want[i] = '0' + byte(rest%10)
	}
	if string(digits) != string(want[:]) {
		return damaged("record checksum %s (lowest digit first), property __CRC32# says %q", want, digits)
	}
	return nil
}
