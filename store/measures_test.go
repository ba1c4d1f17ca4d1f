package store

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// diskBytes is a Config.space that a test sets.
type diskBytes struct{ total, free atomic.Int64 }

func (d *diskBytes) space(string) (total, free int64, err error) {
	return d.total.Load(), d.free.Load(), nil
}

func newDiskBytes(total, free int64) *diskBytes {
	d := &diskBytes{}
	d.total.Store(total)
	d.free.Store(free)
	return d
}

// TestMeasuresOfSyncPuts: every put is timed, every sync, and each message
// belongs to one group.
func TestMeasuresOfSyncPuts(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	putN(t, s, "t", 0, 70)
	_, err := s.PutMessages(t.Context(), batchOf(t, "u", 1, message.Message{}, message.Message{}, message.Message{}))
	require.NoError(t, err)
	_, err = s.PutMessage(t.Context(), inner("", 0, "x"))
	require.Error(t, err)
	dispatched(t, s)
	for range 100 * oneOf {
		r, err := s.GetMessage(t.Context(), GetQuery{Topic: "t"})
		require.NoError(t, err)
		r.Release()
	}
	closeStore(t, s)

	st := s.Stats()
	require.EqualValues(t, 72, st.PutLatency.Count())
	require.Positive(t, st.PutLatency.Quantile(0.5))
	require.EqualValues(t, 71, st.Syncs, "one writer: each has a sync of its own")
	require.EqualValues(t, 71, st.SyncLatency.Count())
	require.Equal(t, st.SyncLatency.Quantile(0.99), st.SyncP99)
	require.Positive(t, st.SyncP99)
	require.EqualValues(t, 71, st.GroupSize.Count())
	require.EqualValues(t, 73, st.GroupSize.Sum())
	require.EqualValues(t, 1, st.GroupSize.Min())
	require.EqualValues(t, 3, st.GroupSize.Max())
	require.InDelta(t, 100, st.GetLatency.Count(), 60, "about one in %d", oneOf) // six standard deviations
	require.Positive(t, st.DispatchLatency.Count())
	require.LessOrEqual(t, st.DispatchLatency.Count(), int64(73))
	require.EqualValues(t, 73, st.Messages)
	require.EqualValues(t, s.MaxOffset(), st.Bytes)
	var depth int64
	for _, q := range s.Queues() {
		depth += q.Depth()
	}
	require.Equal(t, st.Messages, depth)
}

// TestMeasuresOfAsyncPuts: one of 64 is timed, and every batch.
func TestMeasuresOfAsyncPuts(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushAsync))
	putN(t, s, "t", 0, 100*oneOf)
	timed := s.Stats().PutLatency.Count()
	require.InDelta(t, 100, timed, 50, "about one in %d", oneOf)
	for range 5 {
		_, err := s.PutMessages(t.Context(), batchOf(t, "t", 0, message.Message{}, message.Message{}))
		require.NoError(t, err)
	}
	require.Equal(t, timed+5, s.Stats().PutLatency.Count())
	require.NoError(t, s.Flush(t.Context()))
	require.Eventually(t, func() bool { return s.Stats().GroupSize.Sum() == 100*oneOf+10 }, time.Minute, time.Millisecond,
		"a sync by the clock may be under way, and is counted when it is done")
	st := s.Stats()
	require.Equal(t, st.Syncs, st.GroupSize.Count())
	require.NoError(t, s.Flush(t.Context()))
	require.Equal(t, st.Syncs, s.Stats().Syncs, "nothing to sync is no sync")
}

// TestWritersShareGroups: the sizes of the groups add up to the messages, and
// there are fewer groups.
func TestWritersShareGroups(t *testing.T) {
	bubble(t, smallConfig(FlushSync), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
		before := s.Stats().GroupSize
		open := hold(fs, crashfs.OpSync, logFiles)
		var writers sync.WaitGroup
		for range 10 {
			writers.Go(func() {
				if _, err := s.PutMessage(context.Background(), inner("t", 0, "x")); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		require.EqualValues(t, 10, s.Stats().WaitingForSync)
		open()
		writers.Wait()
		synctest.Wait()
		st := s.Stats()
		require.Zero(t, st.WaitingForSync)
		require.EqualValues(t, before.Count()+2, st.GroupSize.Count(), "the first, and all that came during its sync")
		require.EqualValues(t, before.Sum()+10, st.GroupSize.Sum())
		require.EqualValues(t, 9, st.GroupSize.Max())
	})
}

// TestWaitingForRoomAndDispatcher counts the puts that are held up.
func TestWaitingForRoomAndDispatcher(t *testing.T) {
	t.Run("room", func(t *testing.T) {
		bubble(t, smallConfig(FlushAsync), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
			open := hold(fs, crashfs.OpCreate, logFiles)
			ctx, cancel := context.WithCancel(t.Context())
			var writer sync.WaitGroup
			writer.Go(func() {
				for ctx.Err() == nil {
					_, _ = s.PutMessage(ctx, inner("t", 0, strings.Repeat("b", 1000)))
				}
			})
			synctest.Wait()
			require.EqualValues(t, 1, s.Stats().WaitingForRoom)
			cancel()
			writer.Wait()
			open()
			require.Zero(t, s.Stats().WaitingForRoom)
			closeStore(t, s)
		})
	})
	t.Run("dispatcher", func(t *testing.T) {
		cfg := smallConfig(FlushSync)
		cfg.MaxDispatchLag = 2000
		bubble(t, cfg, func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
			open := hold(fs, crashfs.OpCreate, queueFiles)
			ctx, cancel := context.WithCancel(t.Context())
			var writer sync.WaitGroup
			writer.Go(func() {
				for ctx.Err() == nil {
					_, _ = s.PutMessage(ctx, inner("other", 0, strings.Repeat("b", 500)))
				}
			})
			synctest.Wait()
			require.EqualValues(t, 1, s.Stats().WaitingForDispatch)
			require.True(t, s.Health().Has(HealthDispatchLagging))
			require.Equal(t, HealthDegraded, s.Health().State)
			cancel()
			writer.Wait()
			require.Zero(t, s.Stats().WaitingForDispatch)
			open()
			dispatched(t, s)
			require.NoError(t, s.WaitIndexed(t.Context(), s.MaxOffset()))
			requireHealthy(t, s)
			closeStore(t, s)
		})
	})
}

// TestDispatchAge is the age of the oldest message that is not dispatched.
func TestDispatchAge(t *testing.T) {
	bubble(t, smallConfig(FlushSync), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
		require.Zero(t, s.Stats().DispatchAge)
		failing := fs.FailFrom(crashfs.OpCreate, queueFiles, 1, segment.ErrNoSpace)
		put(t, s, "other", 0, "a")
		<-time.After(30 * time.Second)
		put(t, s, "other", 0, "b")
		<-time.After(10 * time.Second)
		synctest.Wait()
		st := s.Stats()
		require.Positive(t, st.DispatchLag)
		require.InDelta(t, 40*time.Second, st.DispatchAge, float64(time.Millisecond))
		failing.Stop()
		<-time.After(2 * time.Second)
		synctest.Wait()
		st = s.Stats()
		require.Zero(t, st.DispatchLag)
		require.Zero(t, st.DispatchAge)
		require.GreaterOrEqual(t, st.DispatchLatency.Max(), 40*time.Second)
		closeStore(t, s)
	})
}

// TestOldestAge goes by the injected clock, and passes over damage.
func TestOldestAge(t *testing.T) {
	var now atomic.Int64
	now.Store(1_700_000_000_000)
	cfg := smallConfig(FlushSync)
	cfg.Now = func() time.Time { return time.UnixMilli(now.Load()) }
	dir := scratch(t)
	s := openStore(t, dir, cfg)
	require.Zero(t, s.Stats().OldestAge, "empty")
	first := put(t, s, "t", 0, "a")
	now.Add(1000)
	put(t, s, "t", 0, "b")
	now.Add(2000)
	require.Equal(t, 3*time.Second, s.Stats().OldestAge)
	now.Add(-10_000)
	require.Zero(t, s.Stats().OldestAge, "never negative")
	now.Add(10_000)
	dispatched(t, s)
	closeStore(t, s)
	require.Zero(t, s.Stats().OldestAge, "closed")

	require.NoError(t, os.Remove(filepath.Join(dir, ownDir, pointFile))) // all is read
	poke(t, dir, int64(first.LogOffset)+4, make([]byte, 4))              // its magic
	s = openStore(t, dir, cfg)
	require.Len(t, s.Recovery().Damaged, 1)
	require.Equal(t, 2*time.Second, s.Stats().OldestAge)
}

// TestGrowth: the estimate follows an injected clock, and nothing runs for it.
func TestGrowth(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	second := func(i int) time.Time { return start.Add(time.Duration(i) * time.Second) }
	var g growth
	g.begin(start, 1000)
	require.Zero(t, g.rate(start, 1000))
	g.observe(second(1), 1000+600)
	require.InEpsilon(t, 10, g.rate(second(1), 1600), 0.06, "a minute at least")

	const perSecond = 1 << 20
	g = growth{}
	g.begin(start, 0)
	for i := 1; i <= 3600; i++ {
		g.observe(second(i), int64(i)*perSecond)
		if i > 60 {
			require.InEpsilon(t, perSecond, g.rate(second(i), int64(i)*perSecond), 0.01, "steady from the first minute on")
		}
	}
	hour, bytes := second(3600), int64(3600*perSecond)
	require.InEpsilon(t, perSecond/math.E, g.rate(hour.Add(growthMemory), bytes), 0.02, "it is forgotten")
	require.Less(t, g.rate(hour.Add(24*time.Hour), bytes), 1.0)
	require.InEpsilon(t, perSecond, g.rate(hour, bytes), 0.01, "looking changes nothing")
	require.InEpsilon(t, perSecond, g.rate(hour.Add(-30*time.Minute), bytes), 0.1, "a clock that is set back harms nothing")
	g.observe(hour, 0)
	require.Negative(t, g.rate(hour, 0), "more was removed")
}

func TestUntilFull(t *testing.T) {
	for _, c := range []struct {
		free int64
		rate float64
		want time.Duration
	}{
		{100, 10, 10 * time.Second}, {100, 0, Forever}, {100, -5, Forever}, {-1, 10, Forever},
		{0, 10, 0}, {0, 0, 0}, {0, -1, 0}, {1 << 62, 1e-9, Forever}, {15, 10, 1500 * time.Millisecond},
	} {
		require.Equal(t, c.want, untilFull(c.free, c.rate), "%d bytes at %v", c.free, c.rate)
	}
}

// TestUntilFullOfAStore: what is put is counted by the maintenance goroutine,
// and sinks while nothing is put.
func TestUntilFullOfAStore(t *testing.T) {
	d := newDiskBytes(1<<40, 1<<30)
	cfg := smallConfig(FlushAsync)
	cfg.space = d.space
	bubble(t, cfg, func(t *testing.T, _ *crashfs.FS, s *DefaultMessageStore) {
		<-time.After(24 * time.Hour)
		st := s.Stats()
		require.EqualValues(t, int64(1<<40), st.DiskTotal)
		require.EqualValues(t, 1<<30, st.DiskFree)
		require.Less(t, st.GrowthRate, 1e-9)
		require.Equal(t, Forever, st.UntilFull)
		var grown int64
		for range 100 {
			grown += int64(put(t, s, "t", 0, strings.Repeat("b", 1000)).Bytes) + 20
		}
		<-time.After(3 * time.Second)
		synctest.Wait()
		require.Equal(t, s.size(), s.growth.last.bytes, "the maintenance goroutine looked")
		st = s.Stats()
		require.InEpsilon(t, float64(grown)/growthMemory.Seconds(), st.GrowthRate, 0.1)
		require.InEpsilon(t, float64(1<<30)/st.GrowthRate, st.UntilFull.Seconds(), 0.01)
		<-time.After(time.Hour)
		require.Less(t, s.Stats().GrowthRate, st.GrowthRate/100)
		d.free.Store(0)
		require.Zero(t, s.Stats().UntilFull)
		closeStore(t, s)
	})
	cfg.space = func(string) (int64, int64, error) { return 0, 0, errors.ErrUnsupported }
	s := openStore(t, scratch(t), cfg)
	put(t, s, "t", 0, "x")
	st := s.Stats()
	require.EqualValues(t, -1, st.DiskFree)
	require.EqualValues(t, -1, st.DiskTotal)
	require.Equal(t, Forever, st.UntilFull)
	requireHealthy(t, s)
}

// TestStatsAndHealthWhileBusy: they may be called at any time.
func TestStatsAndHealthWhileBusy(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	done := make(chan struct{})
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for {
				st, h := s.Stats(), s.Health()
				if st.GroupSize.Count() > 0 && st.GroupSize.Quantile(0.5) < 1 || h.State == HealthDegraded {
					t.Error(st.GroupSize, h)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for range 50 {
				if _, err := s.PutMessage(context.Background(), inner("t", 0, strings.Repeat("b", 500))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	closeStore(t, s)
	close(done)
	others.Wait()
}
