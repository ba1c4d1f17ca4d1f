package message

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUniqueIDTime(t *testing.T) {
	zone := time.FixedZone("east", 3600)
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, zone)
	for _, test := range []struct {
		key  string
		want time.Time
	}{
		{"0A0000010001000000010000000A0000", time.Date(2026, 3, 1, 0, 0, 0, 10e6, zone)},
		// 20 days: in this month it would be in the future.
		{"0A0000010001000000016700" + "0A000000", time.Date(2026, 2, 1, 0, 0, 0, 0, zone).Add(0x67000A00 * time.Millisecond)},
		{"0123456789ABCDEF0123456789ABCDEF0001000000010000000A0000", time.Date(2026, 3, 1, 0, 0, 0, 10e6, zone)},
	} {
		got, err := UniqueIDTime(test.key, now)
		require.NoError(t, err, test.key)
		require.True(t, test.want.Equal(got), "%s: %v, not %v", test.key, got, test.want)
	}
	for key, text := range map[string]string{
		"":                                   "0 characters",
		"0A":                                 "2 characters, not 32 or 56",
		"order-17":                           "not hexadecimal",
		"0A00000100010000000100000":          "not hexadecimal", // odd
		"0A0000010001000000010000000A0000FF": "34 characters",
	} {
		_, err := UniqueIDTime(key, now)
		require.ErrorIs(t, err, ErrIllegal)
		require.ErrorContains(t, err, text)
	}
}

// TestUniqueIDTimeIsWhenItWasMade reads ids of the source of ids.
func TestUniqueIDTimeIsWhenItWasMade(t *testing.T) {
	made := time.Date(2026, 3, 31, 23, 59, 59, 123e6, time.UTC)
	id := NewUniqueIDs(netip.Addr{}, 1, 2, func() time.Time { return made }).Next().String()
	for _, later := range []time.Duration{time.Millisecond, time.Second, 24 * time.Hour, 29 * 24 * time.Hour} {
		got, err := UniqueIDTime(id, made.Add(later))
		require.NoError(t, err)
		require.True(t, made.Equal(got), "%v later: %v", later, got)
	}
}
