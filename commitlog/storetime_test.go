package commitlog

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStoreTimeIsBelieved by the clock, by the record before, or by the one
// behind.
func TestStoreTimeIsBelieved(t *testing.T) {
	const now, day, year = int64(1_700_000_000_000), int64(clockSlack), 365 * int64(clockSlack)
	clock := func() time.Time { return time.UnixMilli(now) }
	for _, c := range []struct {
		about string
		times []int64
		want  int64
	}{
		{"none", nil, 0},
		{"the past", []int64{1000, 2000}, 2000},
		{"a step back, as of RocketMQ's clock", []int64{2000, 1000}, 1000},
		{"now", []int64{now}, now},
		{"a day ahead", []int64{now, now + day}, now + day},
		{"more than a day ahead", []int64{now, now + day + 1}, now},
		{"one alone, far ahead", []int64{now + year}, 0},
		{"two that agree", []int64{now, now + year, now + year + 5}, now + year + 5},
		{"three, and the clock was set back since", []int64{now + year, now + year, now + year + day}, now + year + day},
		{"one in the middle", []int64{now - 5, now + year, now}, now},
		{"two that do not agree", []int64{now, now + year, now + 3*year}, now},
		{"the second is before the first", []int64{now, now + 2*year, now + year}, now},
		{"one bit, the highest", []int64{now, math.MinInt64 + now}, math.MinInt64 + now},
		{"the largest", []int64{now, math.MaxInt64}, now},
		{"the largest twice", []int64{now, math.MaxInt64, math.MaxInt64}, now},
	} {
		var s storeTime
		for _, ms := range c.times {
			s.see(ms, clock)
		}
		require.Equal(t, c.want, s.last, c.about)
	}
}
