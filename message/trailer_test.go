package message

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Records with PropertyCRC32, made by another program after RocketMQ's source:
// own properties, properties of the batch, bytes.
var crcRecords = []struct {
	own, batch Properties
	bytes      string
}{
	{"", "", "00000075daa320a73610a6860000000300000007000000000000000b0000000000001000000000000000018bcfe568017f000001000026940000018bcfe568020a01020300002a9f0000000200000000000000000000000568656c6c6f015400145f5f435243333223013139383036393538383002"},
	{"TAGS\x01a", "", "0000007cdaa320a73610a6860000000300000007000000000000000b0000000000001000000000000000018bcfe568017f000001000026940000018bcfe568020a01020300002a9f0000000200000000000000000000000568656c6c6f0154001b544147530161025f5f435243333223013337313335343337313102"},
	{"TAGS\x01a\x02", "", "0000007cdaa320a73610a6860000000300000007000000000000000b0000000000001000000000000000018bcfe568017f000001000026940000018bcfe568020a01020300002a9f0000000200000000000000000000000568656c6c6f0154001b544147530161025f5f435243333223013337313335343337313102"},
	{"k\x01v", "CLUSTER\x01c", "00000083daa320a73610a6860000000300000007000000000000000b0000000000001000000000000000018bcfe568017f000001000026940000018bcfe568020a01020300002a9f0000000200000000000000000000000568656c6c6f015400226b017602434c55535445520163025f5f435243333223013132353036383536353102"},
	{"", "CLUSTER\x01c\x02", "0000007fdaa320a73610a6860000000300000007000000000000000b0000000000001000000000000000018bcfe568017f000001000026940000018bcfe568020a01020300002a9f0000000200000000000000000000000568656c6c6f0154001e434c55535445520163025f5f435243333223013530313137353436393102"},
}

func crcMessage(own Properties) *MessageExt {
	m := &MessageExt{Message: Message{Topic: "T", Body: []byte("hello"), Properties: own, Flag: 7}, QueueID: 3}
	m.BodyCRC = BodyCRC(m.Body)
	m.QueueOffset, m.LogOffset, m.ReconsumeTimes = 11, 4096, 2
	m.BornTimestamp, m.StoreTimestamp = 1700000000001, 1700000000002
	m.BornHost = testHost("127.0.0.1:9876")
	m.StoreHost = testHost("10.1.2.3:10911")
	return m
}

func testHost(s string) Host {
	h, err := ParseHost(s)
	if err != nil {
		panic(err)
	}
	return h
}

// TestCRCPropertyIsRocketMQs byte for byte, written at once and when the place is
// known.
func TestCRCPropertyIsRocketMQs(t *testing.T) {
	for _, c := range crcRecords {
		t.Run(fmt.Sprintf("%q %q", c.own, c.batch), func(t *testing.T) {
			m, trailer := crcMessage(c.own), Trailer{Properties: c.batch, CRC: true}
			require.NoError(t, m.CheckTrailer(trailer))
			rec := make([]byte, m.RecordSizeWith(trailer))
			m.PutRecordWith(rec, trailer)
			require.Equal(t, c.bytes, hex.EncodeToString(rec))

			later := crcMessage(c.own)
			later.QueueOffset, later.LogOffset, later.StoreTimestamp = 0, 0, 0
			later.PutRecordWith(rec, trailer)
			require.NotEqual(t, c.bytes, hex.EncodeToString(rec))
			PlaceRecord(rec, m.QueueOffset, m.LogOffset, m.StoreTimestamp)
			PutCRC32(rec)
			require.Equal(t, c.bytes, hex.EncodeToString(rec))

			v, kind, err := ReadRecord(rec)
			require.NoError(t, err)
			require.Equal(t, KindRecord, kind)
			require.NoError(t, v.Check())
			require.Zero(t, testing.AllocsPerRun(100, func() { m.PutRecordWith(rec, trailer) }))
		})
	}
}

// TestEveryFlippedBitIsFound in a record with PropertyCRC32, but in the
// separator and the name that tell that it has one.
func TestEveryFlippedBitIsFound(t *testing.T) {
	rec, err := hex.DecodeString(crcRecords[3].bytes)
	require.NoError(t, err)
	for i := range len(rec) - crcSize - 1 {
		for bit := range 8 {
			rec[i] ^= 1 << bit
			if v, kind, err := ReadRecord(rec); kind == KindRecord {
				require.NoError(t, err)
				require.ErrorIs(t, v.Check(), ErrCorrupt, "byte %d, bit %d", i, bit)
			}
			rec[i] ^= 1 << bit
		}
	}
	for i := len(rec) - 1 - crcDigits; i < len(rec)-1; i++ {
		for bit := range 8 {
			rec[i] ^= 1 << bit
			v, _, err := ReadRecord(rec)
			require.NoError(t, err)
			require.ErrorIs(t, v.Check(), ErrCorrupt, "digit %d, bit %d", i, bit)
			rec[i] ^= 1 << bit
		}
	}
}

// TestOnlyAWholeLastPropertyIsTheRecordsCRC: what merely looks like it is any
// property.
func TestOnlyAWholeLastPropertyIsTheRecordsCRC(t *testing.T) {
	const crc Properties = "__CRC32#\x010123456789\x02"
	for _, c := range []struct {
		p    Properties
		last bool
	}{
		{crc, true},
		{"k\x01v\x02" + crc, true},
		{"k\x01v" + crc, false}, // the value goes on
		{"k" + crc, false},      // another name
		{crc + "k\x01v", false},
		{crc[:len(crc)-1], false},
		{crc[1:], false},
		{"__CRC32#\x01012345678\x02", false},
		{"", false},
	} {
		require.Equal(t, c.last, endsInCRC([]byte(c.p)), "%q", c.p)
		rec := make([]byte, crcMessage(c.p).RecordSize())
		crcMessage(c.p).PutRecord(rec)
		v, _, err := ReadRecord(rec)
		require.NoError(t, err)
		require.Equal(t, c.last, v.Check() != nil, "%q: the number is wrong", c.p)
		for _, anywhere := range []bool{false, true} {
			got := c.p.WithoutCRC32(anywhere)
			require.False(t, endsInCRC([]byte(got)), "%q", c.p)
			if _, has := c.p.Get(PropertyCRC32); !has || !c.last && !anywhere {
				require.Equal(t, c.p, got)
			}
			if anywhere {
				_, has := got.Get(PropertyCRC32)
				require.False(t, has)
			}
		}
	}
	require.Equal(t, Properties("k\x01v"), ("k\x01v\x02" + crc).WithoutCRC32(false))
	require.Equal(t, Properties("k\x01v"), (crc + "k\x01v").WithoutCRC32(true))
}

// TestTrailerIsJoinProperties with the batch's, and counts for the limit.
func TestTrailerIsJoinProperties(t *testing.T) {
	parts := []Properties{"", "a\x01b", "a\x01b\x02", "x", "\x02"}
	for _, own := range parts {
		for _, batch := range parts {
			m := crcMessage(own)
			b := make([]byte, m.RecordSizeWith(Trailer{Properties: batch}))
			m.PutRecordWith(b, Trailer{Properties: batch})
			v, _, err := ReadRecord(b)
			require.NoError(t, err)
			require.Equal(t, JoinProperties(own, batch), Properties(v.Properties()), "%q %q", own, batch)
		}
	}
	long := Properties("k\x01" + strings.Repeat("v", MaxPropertiesLength-2-21))
	require.NoError(t, crcMessage(long).CheckTrailer(Trailer{CRC: true}))
	require.NoError(t, crcMessage(long).CheckTrailer(Trailer{Properties: long[:20]}))
	var limit *LimitError
	require.ErrorAs(t, crcMessage(long+"v").CheckTrailer(Trailer{CRC: true}), &limit)
	require.Equal(t, LimitError{Field: "properties", Limit: MaxPropertiesLength, Value: MaxPropertiesLength + 1}, *limit)
	require.NoError(t, crcMessage(long+"\x02").CheckTrailer(Trailer{CRC: true}))
	require.ErrorIs(t, crcMessage(long).CheckTrailer(Trailer{Properties: long[:21]}), ErrLimit)
	require.ErrorIs(t, crcMessage("").CheckTrailer(Trailer{Properties: long, CRC: true}), nil)
	require.ErrorIs(t, crcMessage("").CheckTrailer(Trailer{Properties: long + "v", CRC: true}), ErrLimit)
}
