package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/message"
)

// TestFewPagesWait for FlushThoroughInterval, more of them for FlushInterval
// (RocketMQ's flushCommitLogLeastPages).
func TestFewPagesWait(t *testing.T) {
	for _, c := range []struct {
		pages int
		bytes int // of one message; 0 is a few
		after time.Duration
	}{
		{0, 0, time.Second},
		{4, 0, 10 * time.Second},
		{4, 3*4096 - 200, 10 * time.Second},
		{4, 4 * 4096, time.Second},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openStore(t, scratch(t), Config{
					Flush: FlushAsync, SegmentSize: 1 << 20, MaxBodySize: 64 << 10,
					FlushInterval: time.Second, FlushThoroughInterval: 10 * time.Second, FlushLeastPages: c.pages,
				})
				put(t, s, "t", 0, string(make([]byte, c.bytes)))
				time.Sleep(c.after - 1)
				synctest.Wait()
				require.Zero(t, s.Stats().LogDurable)
				require.EqualValues(t, s.MaxOffset(), s.Stats().DirtyBytes)
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				require.Equal(t, s.MaxOffset(), s.Stats().LogDurable)
				require.Zero(t, s.Stats().DirtyBytes)
				syncs := s.Stats().Syncs
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Equal(t, syncs, s.Stats().Syncs, "idle")
				closeStore(t, s)
			})
		})
	}
}

// TestEndOfFileIsManyPages: RocketMQ syncs a full file whatever its pages.
func TestEndOfFileIsManyPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, scratch(t), Config{
			Flush: FlushAsync, SegmentSize: 8 << 10, MaxBodySize: 4 << 10,
			FlushInterval: time.Second, FlushThoroughInterval: time.Hour, FlushLeastPages: 1000,
		})
		put(t, s, "t", 0, string(make([]byte, 4<<10)))
		time.Sleep(time.Minute)
		require.Zero(t, s.Stats().LogDurable)
		put(t, s, "t", 0, string(make([]byte, 4<<10))) // in the next file
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, s.MaxOffset(), s.Stats().LogDurable)
		closeStore(t, s)
	})
}

// TestMuchThatIsDirtyIsSyncedAtOnce, however long the interval.
func TestMuchThatIsDirtyIsSyncedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, scratch(t), Config{
			Flush: FlushAsync, SegmentSize: 1 << 20, MaxBodySize: 64 << 10, FlushInterval: time.Hour, MaxDirtyBytes: 64 << 10,
		})
		body := string(make([]byte, 15<<10))
		put(t, s, "t", 0, body)
		put(t, s, "t", 0, body)
		synctest.Wait()
		require.Zero(t, s.Stats().LogDurable, "less than half")
		put(t, s, "t", 0, body)
		synctest.Wait()
		require.Equal(t, s.MaxOffset(), s.Stats().LogDurable)
		closeStore(t, s)
	})
}

// TestDirtyBytesAreBounded: with the sync held up puts wait when the bound is
// reached, until their context ends, and go on when the sync does. The bound
// holds at every moment, with many writers.
func TestDirtyBytesAreBounded(t *testing.T) {
	const most = 64 << 10
	synctest.Test(t, func(t *testing.T) {
		cfg, dir, release := HeldSyncs(t, Config{
			Flush: FlushAsync, SegmentSize: 1 << 20, MaxBodySize: 256 << 10, FlushInterval: time.Hour, MaxDirtyBytes: most,
		})
		s := openStore(t, dir, cfg)
		var stored atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 50 {
					if _, err := s.PutMessage(t.Context(), inner("t", 0, string(make([]byte, 4000)))); err != nil {
						t.Error(err)
					}
					stored.Add(1)
					if d := s.Stats().DirtyBytes; d > most {
						t.Errorf("%d bytes are dirty", d)
					}
				}
			})
		}
		synctest.Wait()
		require.EqualValues(t, most/(4000+message.MinRecordSize+1), stored.Load())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := s.PutMessage(ctx, inner("t", 0, string(make([]byte, 4000))))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, PutOSPageCacheBusy, r.Status)
		release()
		wg.Wait()
		require.EqualValues(t, 200, stored.Load())
		put(t, s, "t", 0, string(make([]byte, 2*most))) // one that is larger than the bound
		dispatched(t, s)
		require.EqualValues(t, 201, s.MaxOffsetInQueue("t", 0))
		closeStore(t, s)
	})
}

// TestWaitForDirtyBytesEnds when the sync fails, and when the store is closed.
func TestWaitForDirtyBytesEnds(t *testing.T) {
	for _, fail := range []bool{false, true} {
		t.Run(fmt.Sprint("fail=", fail), func(t *testing.T) {
			fs, dir := newCrashFS(t)
			synctest.Test(t, func(t *testing.T) {
				cfg := withFS(Config{Flush: FlushAsync, SegmentSize: 1 << 20, MaxBodySize: 64 << 10, FlushInterval: time.Hour, MaxDirtyBytes: 8 << 10}, fs)
				s := openStore(t, dir, cfg)
				put(t, s, "t", 0, "x")
				require.NoError(t, s.Flush(t.Context()))
				gate := make(chan struct{})
				fs.Hook(func(c crashfs.Call) error {
					if c.Op != crashfs.OpSync {
						return nil
					}
					<-gate
					if fail {
						return context.DeadlineExceeded
					}
					return nil
				})
				defer fs.Hook(nil)
				put(t, s, "t", 0, string(make([]byte, 7<<10)))
				waits := make(chan error, 1)
				go func() {
					_, err := s.PutMessage(context.Background(), inner("t", 0, string(make([]byte, 7<<10))))
					waits <- err
				}()
				synctest.Wait()
				require.Empty(t, waits)
				closed := make(chan error, 1)
				if !fail {
					go func() { closed <- s.Close() }()
					untilSealed(s)
				}
				close(gate)
				if fail {
					require.ErrorIs(t, <-waits, message.ErrFlush)
					require.Error(t, s.Close())
					return
				}
				require.ErrorIs(t, <-waits, message.ErrClosed)
				require.NoError(t, <-closed)
			})
		})
	}
}
