package store

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// TestRecordsGoesThroughTheLog over the ends of its files, from every record.
func TestRecordsGoesThroughTheLog(t *testing.T) {
	cfg, clock, _ := tinyConfig(FlushAsync)
	s := openStore(t, scratch(t), cfg)
	for range 5 {
		putTiny(t, s, "t", 2)
		putTiny(t, s, "u", 1)
		clock.advance(1e9)
	}
	var offsets []message.LogOffset
	times := map[message.LogOffset]int64{}
	for v, err := range s.Records(t.Context(), -5) {
		require.NoError(t, err)
		offsets = append(offsets, v.LogOffset())
		times[v.LogOffset()] = v.StoreTimestamp()
	}
	require.Len(t, offsets, 15)
	for i, off := range offsets {
		n := 0
		for v, err := range s.Records(t.Context(), off) {
			require.NoError(t, err)
			require.Equal(t, offsets[i+n], v.LogOffset())
			n++
		}
		require.Equal(t, 15-i, n)
		begin := s.OffsetByTime(times[off])
		require.Contains(t, times, begin)
		require.LessOrEqual(t, begin, off)
		for _, before := range offsets {
			if before < begin {
				require.Less(t, times[before], times[off])
			}
		}
	}
	for v, err := range s.Records(t.Context(), 0) {
		require.NoError(t, err)
		require.Zero(t, v.LogOffset())
		break
	}
	for v, err := range s.Records(t.Context(), s.MaxOffset()) {
		require.Failf(t, "there is nothing behind the end", "%v %v", v, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range s.Records(ended, 0) {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.NoError(t, s.Close())
	for _, err := range s.Records(t.Context(), 0) {
		require.ErrorIs(t, err, message.ErrClosed)
	}
}
