package message

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// fieldBytes is one line of a layout: the bytes of a field, and what notices
// when one of them changes.
type fieldBytes struct {
	name   string
	hex    string
	caught string // "structure" by ReadRecord, "checksum" by CheckBody, "" by neither
}

func layoutBytes(fields []fieldBytes) []byte {
	var b []byte
	for _, f := range fields {
		b = append(b, mustHex(f.hex)...)
	}
	return b
}

func mustHex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// layoutV4 is a record with two IPv4 hosts, typed by hand from the format. All
// bytes of the fixed fields differ, so a swapped field or byte order shows.
var layoutV4 = []fieldBytes{
	{"totalSize", "00 00 00 67", "structure"},
	{"magic", "DA A3 20 A7", "structure"},
	{"bodyCRC", "68 D0 A2 0D", "checksum"},
	{"queueId", "05 06 07 08", ""},
	{"flag", "09 0A 0B 0C", ""},
	{"queueOffset", "0D 0E 0F 10 11 12 13 14", ""},
	{"physicalOffset", "15 16 17 18 19 1A 1B 1C", ""},
	{"sysFlag", "1D 1E 1F 4D", "hosts"}, // structure where an address bit flips
	{"bornTimestamp", "20 21 22 23 24 25 26 27", ""},
	{"bornHost address", "28 29 2A 2B", ""},
	{"bornHost port", "2C 2D 2E 2F", ""},
	{"storeTimestamp", "30 31 32 33 34 35 36 37", ""},
	{"storeHost address", "38 39 3A 3B", ""},
	{"storeHost port", "3C 3D 3E 3F", ""},
	{"reconsumeTimes", "40 41 42 43", ""},
	{"preparedTransactionOffset", "44 45 46 47 48 49 4A 4B", ""},
	{"bodyLength", "00 00 00 03", "structure"},
	{"body", "51 52 53", "checksum"},
	{"topicLength", "03", "structure"},
	{"topic", "61 2D 62", ""},
	{"propertiesLength", "00 06", "structure"},
	{"properties", "54 41 47 53 01 78", ""},
}

// layoutV6 is the same with two IPv6 hosts: 24 bytes more.
var layoutV6 = []fieldBytes{
	{"totalSize", "00 00 00 7F", "structure"},
	{"magic", "DA A3 20 A7", "structure"},
	{"bodyCRC", "68 D0 A2 0D", "checksum"},
	{"queueId", "05 06 07 08", ""},
	{"flag", "09 0A 0B 0C", ""},
	{"queueOffset", "0D 0E 0F 10 11 12 13 14", ""},
	{"physicalOffset", "15 16 17 18 19 1A 1B 1C", ""},
	{"sysFlag", "1D 1E 1F 7D", "hosts"},
	{"bornTimestamp", "20 21 22 23 24 25 26 27", ""},
	{"bornHost address", "80 81 82 83 84 85 86 87 88 89 8A 8B 8C 8D 8E 8F", ""},
	{"bornHost port", "2C 2D 2E 2F", ""},
	{"storeTimestamp", "30 31 32 33 34 35 36 37", ""},
	{"storeHost address", "90 91 92 93 94 95 96 97 98 99 9A 9B 9C 9D 9E 9F", ""},
	{"storeHost port", "3C 3D 3E 3F", ""},
	{"reconsumeTimes", "40 41 42 43", ""},
	{"preparedTransactionOffset", "44 45 46 47 48 49 4A 4B", ""},
	{"bodyLength", "00 00 00 03", "structure"},
	{"body", "51 52 53", "checksum"},
	{"topicLength", "03", "structure"},
	{"topic", "61 2D 62", ""},
	{"propertiesLength", "00 06", "structure"},
	{"properties", "54 41 47 53 01 78", ""},
}

// layoutMessage is the message of layoutV4.
func layoutMessage() MessageExt {
	return MessageExt{
		Message:                   Message{Topic: "a-b", Flag: 0x090A0B0C, Body: []byte{0x51, 0x52, 0x53}, Properties: "TAGS\x01x"},
		QueueID:                   0x05060708,
		StoreSize:                 103,
		QueueOffset:               0x0D0E0F1011121314,
		LogOffset:                 0x15161718191A1B1C,
		SysFlag:                   0x1D1E1F4D,
		BodyCRC:                   0x68D0A20D,
		BornTimestamp:             0x2021222324252627,
		BornHost:                  Host{netip.AddrFrom4([4]byte{0x28, 0x29, 0x2A, 0x2B}), 0x2C2D2E2F},
		StoreTimestamp:            0x3031323334353637,
		StoreHost:                 Host{netip.AddrFrom4([4]byte{0x38, 0x39, 0x3A, 0x3B}), 0x3C3D3E3F},
		ReconsumeTimes:            0x40414243,
		PreparedTransactionOffset: 0x4445464748494A4B,
	}
}

// layoutMessageV6 is the message of layoutV6.
func layoutMessageV6() MessageExt {
	m := layoutMessage()
	m.StoreSize = 127
	m.SysFlag |= FlagBornHostV6 | FlagStoreHostV6
	m.BornHost.Addr = netip.AddrFrom16([16]byte(mustHex("808182838485868788898A8B8C8D8E8F")))
	m.StoreHost.Addr = netip.AddrFrom16([16]byte(mustHex("909192939495969798999A9B9C9D9E9F")))
	return m
}

func recordOf(m MessageExt) []byte {
	b := make([]byte, m.RecordSize())
	m.PutRecord(b)
	return b
}

// readOK reads b, which must be one whole record.
func readOK(t testing.TB, b []byte) View {
	t.Helper()
	v, kind, err := ReadRecord(b)
	require.NoError(t, err)
	require.Equal(t, KindRecord, kind)
	return v
}

// javaRecords returns the records in testdata, which RocketMQ 4.9.3 wrote.
func javaRecords(t testing.TB) [][]byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "records.hex"))
	require.NoError(t, err)
	defer f.Close()
	var records [][]byte
	for s := bufio.NewScanner(f); s.Scan(); {
		if line := s.Text(); !strings.HasPrefix(line, "#") {
			records = append(records, mustHex(line))
		}
	}
	require.Greater(t, len(records), 50)
	return records
}

// newSeed chooses the seed of a random test; POCKETMQ_SEED repeats a run.
func newSeed(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("POCKETMQ_SEED"); s != "" {
		_, err := fmt.Sscan(s, &seed)
		require.NoError(t, err)
	}
	t.Logf("POCKETMQ_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// These numbers are on disk: none may ever change.
func TestFormatConstantsAreFixed(t *testing.T) {
	require.Equal(t, uint32(0xDAA320A7), uint32(RecordMagic))
	require.Equal(t, uint32(0xCBD43194), uint32(BlankMagic))
	require.Equal(t, uint32(0xDAA320AB), uint32(recordMagicV2))

	for name, c := range map[string][2]int{
		"BlankSize":           {8, BlankSize},
		"MinRecordSize":       {91, MinRecordSize},
		"fixedSize":           {75, fixedSize},
		"MaxTopicLength":      {127, MaxTopicLength},
		"MaxPropertiesLength": {32767, MaxPropertiesLength},
		"MaxRecordOverhead":   {33009, MaxRecordOverhead},
		"hostWidthV4":         {8, hostWidthV4},
		"hostWidthV6":         {20, hostWidthV6},
		"offTotalSize":        {0, offTotalSize},
		"offMagic":            {4, offMagic},
		"offBodyCRC":          {8, offBodyCRC},
		"offQueueID":          {12, offQueueID},
		"offFlag":             {16, offFlag},
		"offQueueOffset":      {20, offQueueOffset},
		"offLogOffset":        {28, offLogOffset},
		"offSysFlag":          {36, offSysFlag},
		"offBornTimestamp":    {40, offBornTimestamp},
		"offBornHost":         {48, offBornHost},
		"storeTimestamp, v4":  {56, offBornHost + hostWidthV4 + relStoreTimestamp},
		"storeHost, v4":       {64, offBornHost + hostWidthV4 + relStoreHost},
		"bodyLength, v4":      {84, offBornHost + hostWidthV4 + relStoreHost + hostWidthV4 + relBodyLength},
		"body, v4":            {88, offBornHost + hostWidthV4 + relStoreHost + hostWidthV4 + relBody},
		"elemFlag":            {12, elemFlag},
		"elemBodyLength":      {16, elemBodyLength},
		"elemBody":            {20, elemBody},
		"elemFixed":           {22, elemFixed},
		"nameValueSeparator":  {1, nameValueSeparator},
		"propertySeparator":   {2, propertySeparator},
		"FlagCompressed":      {0x01, int(FlagCompressed)},
		"FlagMultiTags":       {0x02, int(FlagMultiTags)},
		"TransactionNone":     {0x00, int(TransactionNone)},
		"TransactionPrepared": {0x04, int(TransactionPrepared)},
		"TransactionCommit":   {0x08, int(TransactionCommit)},
		"TransactionRollback": {0x0C, int(TransactionRollback)},
		"FlagBornHostV6":      {0x10, int(FlagBornHostV6)},
		"FlagStoreHostV6":     {0x20, int(FlagStoreHostV6)},
	} {
		require.Equal(t, c[0], c[1], name)
	}

	for name, c := range map[string][2]string{
		"PropertyKeys":                  {"KEYS", PropertyKeys},
		"PropertyTags":                  {"TAGS", PropertyTags},
		"PropertyWait":                  {"WAIT", PropertyWait},
		"PropertyDelayLevel":            {"DELAY", PropertyDelayLevel},
		"PropertyUniqueKey":             {"UNIQ_KEY", PropertyUniqueKey},
		"PropertyRealTopic":             {"REAL_TOPIC", PropertyRealTopic},
		"PropertyRealQueueID":           {"REAL_QID", PropertyRealQueueID},
		"PropertyInnerMultiDispatch":    {"INNER_MULTI_DISPATCH", PropertyInnerMultiDispatch},
		"PropertyInnerMultiQueueOffset": {"INNER_MULTI_QUEUE_OFFSET", PropertyInnerMultiQueueOffset},
		"ScheduleTopic":                 {"SCHEDULE_TOPIC_XXXX", ScheduleTopic},
	} {
		require.Equal(t, c[0], c[1], name)
	}
}

func TestPutRecordWritesTheLiteralBytes(t *testing.T) {
	for _, c := range []struct {
		name   string
		m      MessageExt
		layout []fieldBytes
	}{
		{"IPv4", layoutMessage(), layoutV4},
		{"IPv6", layoutMessageV6(), layoutV6},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := layoutBytes(c.layout)
			require.Equal(t, len(want), c.m.RecordSize())

			dst := bytes.Repeat([]byte{0xEE}, len(want)+5)
			c.m.PutRecord(dst)
			p := 0
			for _, f := range c.layout {
				w := mustHex(f.hex)
				require.Equal(t, hex.EncodeToString(w), hex.EncodeToString(dst[p:p+len(w)]), "%s at %d", f.name, p)
				p += len(w)
			}
			require.Equal(t, bytes.Repeat([]byte{0xEE}, 5), dst[p:], "bytes behind the record")
		})
	}
}

func TestReadRecordReadsTheLiteralBytes(t *testing.T) {
	for _, c := range []struct {
		name   string
		m      MessageExt
		layout []fieldBytes
	}{
		{"IPv4", layoutMessage(), layoutV4},
		{"IPv6", layoutMessageV6(), layoutV6},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := append(layoutBytes(c.layout), "what follows"...)
			v := readOK(t, b)
			require.Equal(t, c.m, v.Message())
			require.NoError(t, v.CheckBody())

			require.Equal(t, int(c.m.StoreSize), v.Size())
			require.Equal(t, b[:v.Size()], v.Raw())
			require.Equal(t, "a-b", string(v.Topic()))
			require.Equal(t, []byte{0x51, 0x52, 0x53}, v.Body())
			require.Equal(t, "TAGS\x01x", string(v.Properties()))
			tag, ok := v.Property("TAGS")
			require.True(t, ok)
			require.Equal(t, "x", string(tag))
			_, ok = v.Property("KEYS")
			require.False(t, ok)
		})
	}
}

func TestNegativeFieldsKeepTheirSign(t *testing.T) {
	m := MessageExt{
		Message:                   Message{Topic: "t", Flag: -2},
		QueueID:                   -1,
		QueueOffset:               -3,
		LogOffset:                 -4,
		SysFlag:                   math.MinInt32,
		BornTimestamp:             -5,
		BornHost:                  Host{netip.MustParseAddr("255.255.255.255"), -6},
		StoreTimestamp:            math.MinInt64,
		StoreHost:                 Host{netip.MustParseAddr("0.0.0.0"), math.MinInt32},
		ReconsumeTimes:            -7,
		PreparedTransactionOffset: -8,
	}
	m.StoreSize = int32(m.RecordSize())
	require.Equal(t, m, readOK(t, recordOf(m)).Message())
}

// What PlaceRecord sets can not be told from what PutRecord would have written.
func TestPlaceRecordSetsOnlyItsThreeFields(t *testing.T) {
	for _, born := range []string{"192.0.2.1:1", "[2001:db8::1]:1"} {
		for _, store := range []string{"192.0.2.2:2", "[2001:db8::2]:2"} {
			var err error
			m := layoutMessage()
			m.BornHost, err = ParseHost(born)
			require.NoError(t, err)
			m.StoreHost, err = ParseHost(store)
			require.NoError(t, err)
			want := recordOf(m)

			m.QueueOffset, m.LogOffset, m.StoreTimestamp = 0, 0, 0
			rec := recordOf(m)
			rec = append(rec, 0xEE)
			PlaceRecord(rec, 0x0D0E0F1011121314, 0x15161718191A1B1C, 0x3031323334353637)
			require.Equal(t, append(want, 0xEE), rec, "%s, %s", born, store)
		}
	}
}

// A caller that misjudged the room must hear of it, not overwrite what follows
// in the same mapping.
func TestPutRecordPanicsOnShortDestination(t *testing.T) {
	m := layoutMessage()
	backing := make([]byte, 2*m.RecordSize())
	require.Panics(t, func() { m.PutRecord(backing[:m.RecordSize()-1]) })
	require.True(t, allZero(backing))
	require.Panics(t, func() { m.PutRecord(nil) })
}

func TestPutRecordTakesAddressBitsFromTheHosts(t *testing.T) {
	m := layoutMessage()
	m.SysFlag = FlagBornHostV6 | FlagStoreHostV6 | FlagCompressed | 0x7C0
	v := readOK(t, recordOf(m))
	require.Equal(t, FlagCompressed|0x7C0, v.SysFlag())
	require.Equal(t, m.BornHost, v.BornHost())
}

func TestHostsTakeTheirWidthInAllCombinations(t *testing.T) {
	v4a, v4b := Host{netip.MustParseAddr("192.0.2.1"), 50000}, Host{netip.MustParseAddr("192.0.2.2"), 10911}
	v6a, v6b := Host{netip.MustParseAddr("2001:db8::1"), 50001}, Host{netip.MustParseAddr("2001:db8::2"), 10912}
	mapped := Host{netip.MustParseAddr("::ffff:192.0.2.3"), 10913}
	for _, c := range []struct {
		name         string
		born, store  Host
		flag         SysFlag
		size         int
		storeTimePos int
		messageID    string // hex of the store host, then the log offset
	}{
		{"both IPv4", v4a, v4b, 0, 94, 56, "C000020200002A9F" + "0000000000000CA0"},
		{"born host IPv6", v6a, v4b, 0x10, 106, 68, "C000020200002A9F" + "0000000000000CA0"},
		{"store host IPv6", v4a, v6b, 0x20, 106, 56, "20010DB8000000000000000000000002" + "00002AA0" + "0000000000000CA0"},
		{"both IPv6", v6a, v6b, 0x30, 118, 68, "20010DB8000000000000000000000002" + "00002AA0" + "0000000000000CA0"},
		{"IPv4-mapped IPv6 counts as IPv6", mapped, mapped, 0x30, 118, 68, "00000000000000000000FFFFC0000203" + "00002AA1" + "0000000000000CA0"},
		{"no hosts", Host{}, Host{}, 0, 94, 56, "0000000000000000" + "0000000000000CA0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := MessageExt{
				Message:        Message{Topic: "abc"},
				BornHost:       c.born,
				StoreHost:      c.store,
				LogOffset:      3232,
				StoreTimestamp: 0x0102030405060708,
			}
			require.Equal(t, c.size, m.RecordSize())
			b := recordOf(m)
			require.Equal(t, mustHex("0102030405060708"), b[c.storeTimePos:c.storeTimePos+8])

			v := readOK(t, b)
			require.Equal(t, c.flag, v.SysFlag())
			require.Equal(t, int64(0x0102030405060708), v.StoreTimestamp())
			if c.born != (Host{}) {
				require.Equal(t, c.born, v.BornHost())
				require.Equal(t, c.store, v.StoreHost())
			} else {
				require.Equal(t, Host{netip.IPv4Unspecified(), 0}, v.StoreHost(), "a zero host reads back as 0.0.0.0")
			}
			require.Equal(t, "abc", string(v.Topic()))
			got := v.Message()
			require.Equal(t, c.messageID, got.OffsetMessageID().String())
			require.Equal(t, b, recordOf(got))
		})
	}
}

func TestBlankIsSizeAndMagic(t *testing.T) {
	file := bytes.Repeat([]byte{0xEE}, 100)
	PutBlank(file, len(file))
	require.Equal(t, mustHex("00 00 00 64  CB D4 31 94"), file[:8])
	require.Equal(t, bytes.Repeat([]byte{0xEE}, 92), file[8:], "the rest stays undefined")
	_, kind, err := ReadRecord(file)
	require.NoError(t, err)
	require.Equal(t, KindBlank, kind)

	smallest := make([]byte, BlankSize)
	PutBlank(smallest, BlankSize)
	require.Equal(t, mustHex("00 00 00 08  CB D4 31 94"), smallest)
	require.Panics(t, func() { PutBlank(make([]byte, BlankSize-1), 100) })
}

// Readers know a blank by its magic only.
func TestBlankOfAnySizeIsABlank(t *testing.T) {
	for _, size := range []string{"00000000", "00000007", "FFFFFFFF", "7FFFFFFF", "80000000"} {
		_, kind, err := ReadRecord(mustHex(size + "CBD43194"))
		require.NoError(t, err)
		require.Equal(t, KindBlank, kind, size)
	}
}

func TestUnwrittenSpaceIsNothing(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 90, 91, 4096} {
		_, kind, err := ReadRecord(make([]byte, n))
		require.NoError(t, err)
		require.Equal(t, KindNothing, kind, "%d zeros", n)
	}
}

// A torn write leaves the first bytes of a record; a prefix that is all zeros
// can not be told from space that was never written.
func TestEveryTruncationIsDamagedOrNothing(t *testing.T) {
	for _, layout := range [][]fieldBytes{layoutV4, layoutV6} {
		record := layoutBytes(layout)
		for n := range len(record) {
			v, kind, err := ReadRecord(record[:n:n])
			require.Equal(t, View{}, v)
			if n < 4 { // 00 00 00 of the size
				require.NoError(t, err)
				require.Equal(t, KindNothing, kind, "%d bytes", n)
				continue
			}
			require.Equal(t, KindDamaged, kind, "%d bytes", n)
			require.ErrorIs(t, err, ErrCorrupt)
			if n < BlankSize {
				require.EqualError(t, err, fmt.Sprintf("corrupt data: %d bytes are left, too few for a record", n))
			} else {
				require.EqualError(t, err, fmt.Sprintf("corrupt data: record size %d, not within [91, %d]", len(record), n))
			}
		}
	}
}

// The same, with a size that was made to agree with the bytes that are there.
func TestEveryWrongTotalSizeIsDamaged(t *testing.T) {
	for _, layout := range [][]fieldBytes{layoutV4, layoutV6} {
		record := layoutBytes(layout)
		b := append(bytes.Clone(record), make([]byte, 200)...)
		for n := range len(b) + 1 {
			if n == len(record) {
				continue
			}
			binary.BigEndian.PutUint32(b, uint32(n))
			_, kind, err := ReadRecord(b)
			require.Equal(t, KindDamaged, kind, "size %d", n)
			require.ErrorIs(t, err, ErrCorrupt)
		}
	}
}

// Every value of every byte of a record. The table says which fields ReadRecord
// checks, which CheckBody, and which can change unnoticed: the format has no
// checksum over its header, topic and properties.
func TestEveryByteFlipIsCaughtOrPassesAsListed(t *testing.T) {
	for name, layout := range map[string][]fieldBytes{"IPv4": layoutV4, "IPv6": layoutV6} {
		t.Run(name, func(t *testing.T) {
			record := layoutBytes(layout)
			next := layoutBytes(layoutV4) // another record follows in the file
			b := append(bytes.Clone(record), next...)
			p := 0
			for _, f := range layout {
				for range mustHex(f.hex) {
					for x := 1; x < 256; x++ {
						b[p] = record[p] ^ byte(x)
						v, kind, err := ReadRecord(b)
						caught := f.caught
						if caught == "hosts" {
							caught = ""
							if p == offSysFlag+3 && byte(x)&0x30 != 0 {
								caught = "structure"
							}
						}
						where := fmt.Sprintf("%s, byte %d, now %#02x", f.name, p, b[p])
						if caught == "structure" {
							require.Equal(t, KindDamaged, kind, where)
							require.ErrorIs(t, err, ErrCorrupt, where)
							continue
						}
						require.NoError(t, err, where)
						require.Equal(t, KindRecord, kind, where)
						if caught == "checksum" {
							require.ErrorIs(t, v.CheckBody(), ErrCorrupt, where)
						} else {
							require.NoError(t, v.CheckBody(), where)
						}
						require.Equal(t, b[:len(record)], recordOf(v.Message()), where)
					}
					b[p] = record[p]
					p++
				}
			}
		})
	}
}

func TestImplausibleHeadersAreDamaged(t *testing.T) {
	record := layoutBytes(layoutV4)
	with := func(pos int, h string) []byte {
		b := bytes.Clone(record)
		copy(b[pos:], mustHex(h))
		return b
	}
	for _, c := range []struct {
		name, err string
		b         []byte
	}{
		{"size of 2 GiB", "record size 2147483647, not within [91, 103]", with(0, "7FFFFFFF")},
		{"negative size", "record size -1, not within [91, 103]", with(0, "FFFFFFFF")},
		{"smallest size", "record size -2147483648, not within [91, 103]", with(0, "80000000")},
		{"size 7", "record size 7, not within [91, 103]", with(0, "00000007")},
		{"size 8, nothing else", "record size 8, not within [91, 8]", mustHex("00000008DAA320A7")},
		{"size 0 with magic", "record size 0, not within [91, 103]", with(0, "00000000")},
		{"size 90", "record size 90, not within [91, 103]", with(0, "0000005A")},
		{"IPv6 hosts in too small a record", "size 103 is too small for its hosts", with(offSysFlag, "00000030")},
		{"negative body length", "body length -1, at most 12 bytes are left", with(84, "FFFFFFFF")},
		{"smallest body length", "body length -2147483648, at most 12 bytes are left", with(84, "80000000")},
		{"huge body length", "body length 2147483647, at most 12 bytes are left", with(84, "7FFFFFFF")},
		{"body length one too large", "body length 13, at most 12 bytes are left", with(84, "0000000D")},
		{"topic length 255", "topic length 255, 9 bytes are left", with(91, "FF")},
		{"negative properties length", "properties length -32768, 6 bytes are left", with(95, "8000")},
		{"size without magic", "size 103 without a magic number", with(4, "00000000")},
		{"unknown magic", "magic number 0x01020304", with(4, "01020304")},
		{"magic of RocketMQ 5", "a record of RocketMQ 5 with a long topic", with(4, "DAA320AB")},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, kind, err := ReadRecord(c.b)
			require.Equal(t, KindDamaged, kind)
			require.Equal(t, View{}, v)
			require.EqualError(t, err, "corrupt data: "+c.err)
			require.ErrorIs(t, err, ErrCorrupt)
		})
	}
}

// totalAlloc is what f allocates, in bytes.
func totalAlloc(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestClaimedLengthsCostNoMemory(t *testing.T) {
	record := layoutBytes(layoutV4)
	bodyLength := bytes.Clone(record)
	binary.BigEndian.PutUint32(bodyLength[84:], math.MaxInt32)
	size := bytes.Clone(record)
	binary.BigEndian.PutUint32(size, math.MaxInt32)
	element := mustHex("7FFFFFFF 00000000 00000000 00000000 7FFFFFFF 0000")
	n := totalAlloc(func() {
		_, _, err := ReadRecord(bodyLength)
		require.Error(t, err)
		_, _, err = ReadRecord(size)
		require.Error(t, err)
		for _, err := range BatchElements(element) {
			require.Error(t, err)
		}
	})
	require.Less(t, n, uint64(1<<20))
}

func TestCheckBodyComparesTheChecksum(t *testing.T) {
	m := layoutMessage()
	require.NoError(t, readOK(t, recordOf(m)).CheckBody())

	m.BodyCRC ^= 1
	err := readOK(t, recordOf(m)).CheckBody()
	require.ErrorIs(t, err, ErrCorrupt)
	require.EqualError(t, err, "corrupt data: body checksum 68d0a20d, the record says 68d0a20c")

	m.Body = nil
	require.NoError(t, readOK(t, recordOf(m)).CheckBody(), "an empty body is not verified")

	m.Body, m.BodyCRC = []byte("x"), BodyCRC([]byte("x"))|0x80000000
	require.Error(t, readOK(t, recordOf(m)).CheckBody(), "the top bit is always clear")
}

// Zeros in the middle of a body are noticed. Zeros in the middle of the
// properties are not, for nothing in the format covers them: whoever wants to
// know must look at the bytes.
func TestZeroedSectorInBodyIsCaughtInPropertiesItIsNot(t *testing.T) {
	m := MessageExt{Message: Message{Topic: "t", Body: bytes.Repeat([]byte{0xAB}, 2000)}}
	m.BodyCRC = BodyCRC(m.Body)
	b := recordOf(m)
	clear(b[212:724]) // bytes 512 to 1023 of the file, if the record begins at 300
	require.ErrorIs(t, readOK(t, b).CheckBody(), ErrCorrupt)

	m.Body, m.BodyCRC = nil, 0
	m.Properties = Properties("k\x01" + strings.Repeat("v", 1198))
	b = recordOf(m)
	clear(b[212:724])
	v := readOK(t, b)
	require.NoError(t, v.CheckBody())
	require.NotEqual(t, string(m.Properties), string(v.Properties()))
}

func TestBodyCRCClearsTheTopBit(t *testing.T) {
	// Computed with Java 17: RocketMQ's UtilAll.crc32.
	require.Equal(t, uint32(0), BodyCRC(nil))
	require.Equal(t, uint32(0), BodyCRC([]byte{}))
	require.Equal(t, uint32(907060870), BodyCRC([]byte("hello")))
	require.Equal(t, uint32(1274296614), BodyCRC([]byte("123456789")), "CBF43926 without its top bit")
}

func TestNilAndEmptyBodyAreTheSameOnDisk(t *testing.T) {
	m := layoutMessage()
	m.Body = nil
	a := recordOf(m)
	m.Body = []byte{}
	require.Equal(t, a, recordOf(m))
	require.Empty(t, readOK(t, a).Body())
	require.Nil(t, readOK(t, a).Message().Body)
}

func TestViewSlicesCanNotReachTheNextField(t *testing.T) {
	b := append(layoutBytes(layoutV4), 0xEE, 0xEE)
	v := readOK(t, b)
	want := bytes.Clone(b)
	for _, s := range [][]byte{v.Raw(), v.Body(), v.Topic(), v.Properties()} {
		_ = append(s, 0x99) // must go elsewhere
	}
	require.Equal(t, want, b)
}

func TestMessageCopiesOutOfTheRecord(t *testing.T) {
	b := layoutBytes(layoutV4)
	m := readOK(t, b).Message()
	clear(b)
	require.Equal(t, layoutMessage(), m)
}

func TestRecordsOfRocketMQEncodeToTheSameBytes(t *testing.T) {
	damaged := 0
	for i, b := range javaRecords(t) {
		v, kind, err := ReadRecord(b)
		if kind == KindDamaged {
			require.EqualError(t, err, "corrupt data: properties length -18245, 272 bytes are left")
			damaged++
			continue
		}
		require.NoError(t, err, "record %d", i)
		require.NoError(t, v.CheckBody(), "record %d", i)
		m := v.Message()
		require.EqualValues(t, len(b), m.StoreSize)
		require.Equal(t, b, recordOf(m), "record %d", i)
	}
	require.Equal(t, 1, damaged, "the topic of 257 bytes, whose length byte is 1")
}

func randomHost(r *rand.Rand) Host {
	switch r.IntN(5) {
	case 0:
		return Host{netip.IPv4Unspecified(), 0}
	case 1, 2:
		return Host{netip.AddrFrom4([4]byte{byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())}), int32(r.Uint32())}
	case 3:
		return Host{netip.AddrFrom16([16]byte{10: 0xFF, 11: 0xFF, 12: byte(r.Uint32()), 15: byte(r.Uint32())}), int32(r.Uint32())}
	}
	var a [16]byte
	binary.NativeEndian.PutUint64(a[:], r.Uint64())
	binary.NativeEndian.PutUint64(a[8:], r.Uint64())
	return Host{netip.AddrFrom16(a), int32(r.Uint32())}
}

func randomText(r *rand.Rand, maxRunes int) string {
	alphabet := []rune("abcXYZ019-_%|.\u00e9\u8ba2\U0001F600\x03\t")
	var b strings.Builder
	for range r.IntN(maxRunes + 1) {
		b.WriteRune(alphabet[r.IntN(len(alphabet))])
	}
	return b.String()
}

func randomMessage(r *rand.Rand) MessageExt {
	m := MessageExt{
		Message:                   Message{Topic: "T" + randomText(r, 30), Flag: int32(r.Uint32())},
		QueueID:                   int32(r.Uint32() >> 1),
		QueueOffset:               QueueOffset(r.Uint64()),
		LogOffset:                 LogOffset(r.Uint64()),
		SysFlag:                   SysFlag(r.Uint32()),
		BornTimestamp:             int64(r.Uint64()),
		BornHost:                  randomHost(r),
		StoreTimestamp:            int64(r.Uint64()),
		StoreHost:                 randomHost(r),
		ReconsumeTimes:            int32(r.Uint32()),
		PreparedTransactionOffset: LogOffset(r.Uint64()),
	}
	if n := r.IntN(200); n > 0 {
		m.Body = make([]byte, n)
		for i := range m.Body {
			m.Body[i] = byte(r.Uint32())
		}
	}
	m.BodyCRC = BodyCRC(m.Body)
	for range r.IntN(6) {
		p, err := m.Properties.With("n"+randomText(r, 5), "v"+randomText(r, 20))
		if err != nil {
			panic(err)
		}
		m.Properties = p
	}
	return m
}

func TestRandomMessagesReadBackEqual(t *testing.T) {
	r := newSeed(t)
	for i := range 3000 {
		m := randomMessage(r)
		require.NoError(t, m.Check(200))
		b := make([]byte, m.RecordSize()+r.IntN(20))
		m.PutRecord(b)
		v := readOK(t, b)
		require.NoError(t, v.CheckBody())
		got := v.Message()

		want := m
		want.StoreSize = int32(m.RecordSize())
		want.SysFlag = m.SysFlag.withHosts(m.BornHost, m.StoreHost)
		require.Equal(t, want, got, "message %d", i)
		require.Equal(t, b[:m.RecordSize()], recordOf(got))
	}
}

// RocketMQ 4.9.3 limits topics in characters and so wrote some whose length
// byte is above 127. They read back, and encode to the same bytes.
func TestOverlongTopicsOfRocketMQReadBack(t *testing.T) {
	m := layoutMessage()
	for _, n := range []int{0, 128, 255} {
		m.Topic = strings.Repeat("t", n)
		b := recordOf(m)
		v := readOK(t, b)
		require.Equal(t, m.Topic, string(v.Topic()))
		require.Equal(t, b, recordOf(v.Message()))
	}
}

// Hosts and lengths are all that a record needs; each variable part may take
// all that is left.
func TestSmallestRecordsReadBack(t *testing.T) {
	v4, v6 := Host{Addr: netip.IPv4Unspecified()}, Host{Addr: netip.IPv6Unspecified()}
	for size, hosts := range map[int][2]Host{91: {v4, v4}, 103: {v4, v6}, 115: {v6, v6}} {
		for _, m := range []Message{{}, {Body: []byte("body")}, {Topic: "topic"}, {Properties: "properties"}} {
			m := MessageExt{Message: m, BornHost: hosts[0], StoreHost: hosts[1]}
			m.StoreSize = int32(size + len(m.Body) + len(m.Topic) + len(m.Properties))
			m.SysFlag = m.SysFlag.withHosts(m.BornHost, m.StoreHost)
			b := recordOf(m)
			require.Len(t, b, int(m.StoreSize))
			require.Equal(t, m, readOK(t, b).Message())
		}
	}
}

func TestOneMessageIsWrittenFromManyGoroutines(t *testing.T) {
	m := layoutMessage()
	want := layoutBytes(layoutV4)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if b := recordOf(m); !bytes.Equal(b, want) {
					t.Error("different bytes")
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, layoutMessage(), m)
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	m := layoutMessageV6()
	m.Properties = "KEYS\x01k1 k2\x02TAGS\x01TagA\x02DELAY\x013"
	b := recordOf(m)
	v := readOK(t, b)
	nonASCII := []byte(strings.Repeat("\u8ba2\xff", 50))
	levels, err := ParseDelayLevels(DefaultDelayLevels)
	require.NoError(t, err)
	filter := ParseTagFilter("TagA || TagB")
	var batch []byte
	for range 10 {
		batch, err = AppendBatchElement(batch, &m.Message)
		require.NoError(t, err)
	}
	truncated := batch[:len(batch)-m.RecordSize()/2]

	var sum int
	for name, f := range map[string]func(){
		"PutRecord":           func() { m.PutRecord(b) },
		"PlaceRecord":         func() { PlaceRecord(b, 1, 2, 3) },
		"ReadRecord":          func() { v, _, _ = ReadRecord(b) },
		"ReadRecord, nothing": func() { _, _, _ = ReadRecord(make([]byte, 8)) },
		"CheckBody":           func() { _ = v.CheckBody() },
		"Check":               func() { _ = m.Check(100) },
		"View.Property":       func() { p, _ := v.Property("TAGS"); sum += len(p) },
		"View hosts":          func() { sum += int(v.BornHost().Port) + int(v.StoreHost().Port) },
		"Properties.Get":      func() { s, _ := m.Properties.Get("DELAY"); sum += len(s) },
		"Properties.All": func() {
			for n := range m.Properties.All() {
				sum += len(n)
			}
		},
		"Properties.Without, not there": func() { sum += len(m.Properties.Without("x")) },
		"TagsCode, string":              func() { sum += int(TagsCode("TagA")) },
		"TagsCode, bytes":               func() { sum += int(TagsCode(nonASCII)) },
		"DelayLevels.TagsCode":          func() { sum += int(levels.TagsCode(v)) },
		"TagFilter.Match":               func() { _ = filter.Match(2598919) },
		"BatchElements": func() {
			for e, err := range BatchElements(batch) {
				if err != nil {
					panic(err)
				}
				sum += len(e.Body) + len(e.Properties)
			}
		},
	} {
		require.Zero(t, testing.AllocsPerRun(100, f), name)
	}
	for _, err := range BatchElements(truncated) {
		if err != nil {
			return
		}
	}
	t.Fatal("a truncated batch gave no error")
}

func TestKindNamesItself(t *testing.T) {
	require.Equal(t, "record blank nothing damaged Kind(9)",
		fmt.Sprint(KindRecord, " ", KindBlank, " ", KindNothing, " ", KindDamaged, " ", Kind(9)))
}

func TestSysFlagBits(t *testing.T) {
	require.Equal(t, TransactionPrepared, SysFlag(0x7F7).Transaction())
	require.Equal(t, TransactionNone, (FlagCompressed | FlagMultiTags | FlagBornHostV6 | FlagStoreHostV6).Transaction())
	for transaction, queued := range map[SysFlag]bool{
		TransactionNone: true, TransactionPrepared: false, TransactionCommit: true, TransactionRollback: false,
	} {
		for _, others := range []SysFlag{0, FlagCompressed, 0x7F3, math.MinInt32} {
			f := others.WithTransaction(transaction)
			require.Equal(t, queued, f.Queued(), "%#x", f)
			require.Equal(t, transaction, f.Transaction())
			require.Equal(t, others, f.WithTransaction(TransactionNone))
		}
	}
	require.Equal(t, FlagCompressed|TransactionCommit, FlagCompressed.WithTransaction(0x7F8), "only the type is taken")
}
