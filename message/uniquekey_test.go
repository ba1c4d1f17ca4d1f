package message

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAddToIsWith compares with the general way, for ids of all digits.
func TestAddToIsWith(t *testing.T) {
	now := time.Date(2026, 3, 9, 1, 2, 3, 4_000_000, time.UTC)
	source := func() *UniqueIDs {
		return NewUniqueIDs(netip.MustParseAddr("1.35.69.103"), 0x89AB, 0xCDEF09AF, func() time.Time { return now })
	}
	ids, same := source(), source()
	for _, p := range []Properties{
		"", "a\x01b", "a\x01b\x02", "a\x01b\x02c\x01d", "no property", "\x02", "UNIQ_KEY\x01", "UNIQ_KEYS\x01x", "ü\x01\xff",
	} {
		id := same.Next().String()
		want, err := p.With(PropertyUniqueKey, id)
		require.NoError(t, err)
		got, key := ids.AddTo(p)
		require.Equal(t, want, got)
		require.Equal(t, id, key)
		require.Regexp(t, "^[0-9A-F]{32}$", key)
		again, key := ids.AddTo(got)
		require.Equal(t, got, again)
		require.Equal(t, id, key)
	}
	p, key := ids.AddTo("UNIQ_KEY\x01mine\x02a\x01b")
	require.Equal(t, Properties("UNIQ_KEY\x01mine\x02a\x01b"), p)
	require.Equal(t, "mine", key)
	require.Equal(t, 1.0, testing.AllocsPerRun(100, func() { ids.AddTo("a\x01b") }))
}
