package message

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"
)

// uniqueIDv6 is the size of a unique id with an IPv6 address, as RocketMQ makes
// them on hosts that have no other.
const uniqueIDv6 = len(UniqueID{}) + 12

// UniqueIDTime tells roughly when the producer made a unique id: its text holds the
// time since the start of a month, in the producer's time zone. It is taken to be
// in now's month, or where that lies in the future in the month before; in now's
// time zone. Other texts, which may be unique keys as well, are an *IllegalError.
//
// Source: RocketMQ common/message/MessageClientIDSetter.java, getNearlyTimeFromID.
func UniqueIDTime(key string, now time.Time) (time.Time, error) {
	b, err := hex.DecodeString(key)
	if err != nil {
		return time.Time{}, &IllegalError{"unique id", shorten(key), "is not hexadecimal"}
	}
	if len(b) != len(UniqueID{}) && len(b) != uniqueIDv6 {
		return time.Time{}, &IllegalError{"unique id", shorten(key), fmt.Sprintf("has %d characters, not %d or %d", len(key), 2*len(UniqueID{}), 2*uniqueIDv6)}
	}
	since := time.Duration(binary.BigEndian.Uint32(b[len(b)-6:])) * time.Millisecond
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, now.Location())
	if t := month.Add(since); t.Before(now) {
		return t, nil
	}
	return month.AddDate(0, -1, 0).Add(since), nil
}
