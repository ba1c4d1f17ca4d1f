package main

import (
	"encoding/binary"
	"hash/crc32"
)

// What the limits write: the length of a body, its checksum, the body. A length of 0 ends a file.
const recordHead = 8

func putRecord(dst, body []byte) {
	binary.BigEndian.PutUint32(dst, uint32(len(body)))
	binary.BigEndian.PutUint32(dst[4:], crc32.ChecksumIEEE(body))
	copy(dst[recordHead:], body)
}

func readRecords(data []byte, yield func([]byte) error) error {
	for len(data) >= recordHead {
		size := int(binary.BigEndian.Uint32(data))
		if size == 0 || size > len(data)-recordHead {
			return nil
		}
		if err := yield(data[recordHead : recordHead+size]); err != nil {
			return err
		}
		data = data[recordHead+size:]
	}
	return nil
}
