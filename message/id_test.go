package message

import (
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOffsetMessageIDIsUpperCaseHex(t *testing.T) {
	for _, c := range []struct {
		host   string
		offset LogOffset
		text   string
	}{
		{"127.0.0.1:10911", 0, "7F000001" + "00002A9F" + "0000000000000000"},
		{"192.168.1.254:10911", 3232, "C0A801FE" + "00002A9F" + "0000000000000CA0"},
		{"10.0.0.7:65535", 1 << 40, "0A000007" + "0000FFFF" + "0000010000000000"},
		{"1.2.3.4:5", 0x0102030405060708, "01020304" + "00000005" + "0102030405060708"},
		{"[1050:0:0:0:5:600:300c:326b]:123", 3232, "105000000000000000050600300C326B" + "0000007B" + "0000000000000CA0"},
		{"[::1]:123", 3232, "00000000000000000000000000000001" + "0000007B" + "0000000000000CA0"},
		{"[::ffff:1.2.3.4]:1", 1, "00000000000000000000FFFF01020304" + "00000001" + "0000000000000001"},
	} {
		host, err := ParseHost(c.host)
		require.NoError(t, err)
		id := OffsetMessageID{host, c.offset}
		require.Equal(t, c.text, id.String())

		for _, text := range []string{c.text, strings.ToLower(c.text)} {
			got, err := ParseOffsetMessageID(text)
			require.NoError(t, err)
			require.Equal(t, id, got)
		}
	}
}

func TestParseOffsetMessageIDRefusesOtherTexts(t *testing.T) {
	good := "7F00000100002A9F0000000000000CA0"
	for _, c := range []struct{ text, reason string }{
		{"", "has 0 characters, not 32 or 56"},
		{good[:31], "has 31 characters, not 32 or 56"},
		{good + "0", "has 33 characters, not 32 or 56"},
		{good + good[:23], "has 55 characters, not 32 or 56"},
		{good + good[:25], "has 57 characters, not 32 or 56"},
		{good + "," + good, "has 65 characters, not 32 or 56"},
		{"G" + good[1:], "is not hexadecimal"},
		{good[:31] + " ", "is not hexadecimal"},
		{"0x" + good[2:], "is not hexadecimal"},
		{strings.Repeat("\u8ba2", 10) + "ab", "is not hexadecimal"},
		{strings.Repeat("-1", 28), "is not hexadecimal"},
	} {
		id, err := ParseOffsetMessageID(c.text)
		require.Zero(t, id)
		require.Equal(t, &IllegalError{Field: "message id", Value: shorten(c.text), Reason: c.reason}, err)
	}
}

// clock is a time that a test sets.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func (c *clock) set(t *testing.T, s string) {
	t.Helper()
	var err error
	c.t, err = time.ParseInLocation("2006-01-02 15:04:05.000", s, time.FixedZone("test", 5*3600+1800))
	require.NoError(t, err)
}

func newTestIDs(c *clock) *UniqueIDs {
	return NewUniqueIDs(netip.MustParseAddr("10.0.0.7"), 0x51234, 0x18B4AAC2, c.now)
}

func TestUniqueIDHasTheLiteralFields(t *testing.T) {
	var c clock
	c.set(t, "2024-03-02 00:00:00.123") // 86,400,123 ms in local time
	ids := newTestIDs(&c)
	require.Equal(t, "0A000007"+"1234"+"18B4AAC2"+"05265C7B"+"0000", ids.Next().String())
	require.Equal(t, "0A000007"+"1234"+"18B4AAC2"+"05265C7B"+"0001", ids.Next().String())
}

func TestUniqueIDsTakeIPv4Addresses(t *testing.T) {
	var c clock
	c.set(t, "2024-03-01 00:00:00.000")
	for addr, want := range map[string]string{
		"192.0.2.1":        "C0000201",
		"::ffff:192.0.2.1": "C0000201",
		"2001:db8::1":      "00000000",
	} {
		ids := NewUniqueIDs(netip.MustParseAddr(addr), 1, 2, c.now)
		require.Equal(t, want+"0001"+"00000002"+"00000000"+"0000", ids.Next().String())
	}
	require.Equal(t, "00000000", NewUniqueIDs(netip.Addr{}, 1, 2, c.now).Next().String()[:8])
}

func TestUniqueIDTimeStartsAgainWithTheMonth(t *testing.T) {
	var c clock
	c.set(t, "2024-01-31 23:59:59.999")
	ids := newTestIDs(&c)
	millis := func(at string) string {
		c.set(t, at)
		return ids.Next().String()[20:28]
	}
	require.Equal(t, "9FA523FF", millis("2024-01-31 23:59:59.999"), "more than fits 31 bits")
	require.Equal(t, "00000000", millis("2024-02-01 00:00:00.000"))
	require.Equal(t, "000003E8", millis("2024-02-01 00:00:01.000"))
	require.Equal(t, "95586BFF", millis("2024-02-29 23:59:59.999"), "a leap year")
	require.Equal(t, "00000001", millis("2024-03-01 00:00:00.001"))
	require.Equal(t, "00000000", millis("2025-01-01 00:00:00.000"), "months later")
}

func TestUniqueIDTimeIsZeroWhenTheClockStepsBackOverTheMonth(t *testing.T) {
	var c clock
	c.set(t, "2024-02-01 00:00:00.500")
	ids := newTestIDs(&c)
	millis := func(at string) string {
		c.set(t, at)
		return ids.Next().String()[20:28]
	}
	require.Equal(t, "000001F4", millis("2024-02-01 00:00:00.500"))
	require.Equal(t, "00000000", millis("2024-01-31 23:59:59.900"))
	require.Equal(t, "00000000", millis("2024-01-31 23:43:20.001"), "999,999 ms before the month")
	require.Equal(t, "000001F5", millis("2024-02-01 00:00:00.501"))

	require.Equal(t, "9F95E1C0", millis("2024-01-31 23:43:20.000"), "1,000,000 ms: the month before")
	require.Equal(t, "000001F4", millis("2024-02-01 00:00:00.500"))
}

func TestUniqueIDCounterWraps(t *testing.T) {
	var c clock
	c.set(t, "2024-03-01 00:00:00.000")
	ids := newTestIDs(&c)
	seen := make(map[UniqueID]bool, 65536)
	first := ids.Next()
	seen[first] = true
	for range 65535 {
		id := ids.Next()
		require.False(t, seen[id])
		seen[id] = true
	}
	require.Equal(t, first, ids.Next(), "after 65,536 ids of one millisecond")

	c.set(t, "2024-03-01 00:00:00.001")
	require.False(t, seen[ids.Next()], "the next millisecond is new")
}

func TestUniqueIDsDifferAcrossGoroutines(t *testing.T) {
	ids := NewUniqueIDs(netip.MustParseAddr("10.0.0.7"), 1, 2, func() time.Time { return time.Unix(1_700_000_000, 0) })
	var mu sync.Mutex
	seen := make(map[UniqueID]bool)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			mine := make([]UniqueID, 1000)
			for i := range mine {
				mine[i] = ids.Next()
			}
			mu.Lock()
			defer mu.Unlock()
			for _, id := range mine {
				seen[id] = true
			}
		})
	}
	wg.Wait()
	require.Len(t, seen, 8000)
}
