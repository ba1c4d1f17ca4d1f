package store

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// storedAt opens a store and puts one message at each of the times (ms).
func storedAt(t *testing.T, times ...int64) *DefaultMessageStore {
	t.Helper()
	var now atomic.Int64
	cfg := smallConfig(FlushAsync)
	cfg.ConsumeQueueFileSize = 40 // two units: equal times span files
	cfg.Now = func() time.Time { return time.UnixMilli(now.Load()) }
	s := openStore(t, scratch(t), cfg)
	for _, ms := range times {
		now.Store(ms)
		put(t, s, "t", 0, "x")
	}
	dispatched(t, s)
	return s
}

func offsetAt(t *testing.T, s *DefaultMessageStore, ms int64, b Boundary) message.QueueOffset {
	t.Helper()
	off, err := s.OffsetInQueueByTime(t.Context(), "t", 0, ms, b)
	require.NoError(t, err)
	return off
}

func TestOffsetByTimeWithEqualTimesAndGaps(t *testing.T) {
	s := storedAt(t, 1000, 1000, 1000, 3000, 3000)
	for _, c := range []struct {
		time         int64
		lower, upper message.QueueOffset
	}{
		{math.MinInt64, 0, 0}, {0, 0, 0}, {999, 0, 0}, {1000, 0, 2}, {1001, 3, 2}, {2000, 3, 2},
		{2999, 3, 2}, {3000, 3, 4}, {3001, 5, 4}, {math.MaxInt64, 5, 4},
	} {
		require.Equal(t, c.lower, offsetAt(t, s, c.time, BoundaryLower), "lower %d", c.time)
		require.Equal(t, c.upper, offsetAt(t, s, c.time, BoundaryUpper), "upper %d", c.time)
	}
	off, err := s.OffsetInQueueByTime(t.Context(), "unknown", 0, 2000, BoundaryLower)
	require.NoError(t, err)
	require.Zero(t, off)
}

func TestOffsetByTimeIsThatOfALinearSearch(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	times := make([]int64, 200)
	for i := range times {
		times[i] = 1000
		if i > 0 {
			times[i] = times[i-1] + r.Int64N(3)
		}
	}
	s := storedAt(t, times...)
	for ms := times[0] - 2; ms <= times[len(times)-1]+2; ms++ {
		lower, upper := len(times), 0
		for i, at := range times {
			if at >= ms && i < lower {
				lower = i
			}
			if at <= ms {
				upper = i
			}
		}
		require.EqualValues(t, lower, offsetAt(t, s, ms, BoundaryLower), ms)
		require.EqualValues(t, upper, offsetAt(t, s, ms, BoundaryUpper), ms)
	}
}

func TestStoreTimes(t *testing.T) {
	s := storedAt(t, 1000, 2000)
	at, ok := s.MessageStoreTimestamp("t", 0, 1)
	require.True(t, ok)
	require.EqualValues(t, 2000, at)
	for _, off := range []message.QueueOffset{-1, 2} {
		_, ok = s.MessageStoreTimestamp("t", 0, off)
		require.False(t, ok, off)
	}
	at, ok = s.EarliestMessageTime("t", 0)
	require.True(t, ok)
	require.EqualValues(t, 1000, at, "one small message is enough")
	_, ok = s.EarliestMessageTime("unknown", 0)
	require.False(t, ok)
	closeStore(t, s)
	_, ok = s.EarliestMessageTime("t", 0)
	require.False(t, ok)
	_, err := s.OffsetInQueueByTime(t.Context(), "t", 0, 1000, BoundaryLower)
	require.ErrorIs(t, err, message.ErrClosed)
}
