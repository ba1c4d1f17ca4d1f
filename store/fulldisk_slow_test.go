//go:build slow && linux

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// smallDisk mounts a file system of that size in memory. It needs root, or
// `unshare -Urm`.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "none", dir).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: a real full disk; not allowed to mount one (try unshare -Urm): %v: %s", err, out)
	}
	t.Cleanup(func() {
		out, err := exec.Command("umount", dir).CombinedOutput()
		require.NoError(t, err, string(out))
	})
	return dir
}

// ballast fills the disk of dir to the last byte.
func ballast(t *testing.T, dir string) (remove func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "ballast"))
	require.NoError(t, err)
	for chunk := make([]byte, 64<<10); len(chunk) > 0; {
		if _, err := f.Write(chunk); err != nil {
			chunk = chunk[:len(chunk)/2]
		}
	}
	require.NoError(t, f.Close())
	return func() { require.NoError(t, os.Remove(f.Name())) }
}

// TestRealFullDisk: others fill the disk. Messages are refused, everything else
// goes on, also after a reopen; when there is space, eight writers go on without
// a restart, and nothing acknowledged is lost.
func TestRealFullDisk(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			disk := smallDisk(t, "24m")
			cfg := Config{Flush: mode, SegmentSize: 1 << 20, ConsumeQueueFileSize: 20_000, Reserve: 512 << 10, MaxBodySize: 64 << 10}
			s := openStore(t, filepath.Join(disk, "store"), cfg)
			var acked atomic.Int64
			put := func() error {
				_, err := s.PutMessage(t.Context(), inner("t", 0, string(make([]byte, 5000))))
				if err == nil {
					acked.Add(1)
				}
				return err
			}
			for range 300 {
				require.NoError(t, put())
			}
			remove := ballast(t, disk)
			var err error
			for range 1000 {
				if err = put(); err != nil {
					break
				}
			}
			for range 100 {
				require.ErrorIs(t, err, message.ErrDiskFull)
				err = put()
			}
			for i := range 20 {
				require.NoError(t, s.WriteConfig("consumerOffset.json", fmt.Appendf(nil, "{%d}", i)))
			}
			require.Equal(t, int(acked.Load()), len(bodies(t, s, "t", 0)))
			closeStore(t, s)
			s = openStore(t, filepath.Join(disk, "store"), cfg)
			require.True(t, s.Recovery().Clean)
			require.Equal(t, int(acked.Load()), len(bodies(t, s, "t", 0)))
			require.ErrorIs(t, put(), message.ErrDiskFull)
			remove()
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 100 {
						if err := put(); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			require.Equal(t, int(acked.Load()), len(bodies(t, s, "t", 0)))
			require.False(t, s.reserve.short())
			closeStore(t, s)
		})
	}
}

// TestRealDiskWithManyWriters pushes many times its size through a small disk:
// the gate closes above 80 percent, dropping opens it again, and whatever else
// fills the disk is no more than an error.
func TestRealDiskWithManyWriters(t *testing.T) {
	disk := smallDisk(t, "64m")
	cfg := Config{
		Flush: FlushAsync, SegmentSize: 1 << 20, ConsumeQueueFileSize: 20_000, WhenFull: DropOldest,
		Retention: Retention{DiskWarningLevelRatio: 80},
	}
	s := openStore(t, filepath.Join(disk, "store"), cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var put, refused atomic.Int64
	for w := range 8 {
		wg.Go(func() {
			for ctx.Err() == nil && put.Load() < 60_000 {
				switch _, err := s.PutMessage(ctx, inner("t", int32(w), string(make([]byte, 5000)))); {
				case err == nil:
					put.Add(1)
				case errors.Is(err, message.ErrDiskFull):
					refused.Add(1)
				case !errors.Is(err, context.Canceled):
					t.Error(err)
				}
			}
		})
	}
	for range 3 {
		<-time.After(300 * time.Millisecond)
		remove := ballast(t, disk)
		<-time.After(300 * time.Millisecond)
		remove()
	}
	wg.Wait()
	cancel()
	stats := s.Stats()
	t.Logf("%d put, %d refused, %d files dropped, %d KiB of %d in use", put.Load(), refused.Load(),
		stats.SegmentsRemoved[ReasonFull], (stats.DiskTotal-stats.DiskFree)>>10, stats.DiskTotal>>10)
	require.GreaterOrEqual(t, put.Load(), int64(60_000))
	require.Positive(t, stats.SegmentsRemoved[ReasonFull])
	left := 0
	for w := range int32(8) {
		left += len(bodies(t, s, "t", w))
	}
	require.Equal(t, put.Load(), int64(left)+stats.MessagesRemoved[ReasonFull])
	closeStore(t, s)
}
