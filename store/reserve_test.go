package store

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// fillDisk makes the double a disk that others have filled as long as full is
// set: what needs space gets what the reserve gives up, and the log nothing.
func fillDisk(fsys *crashfs.FS, reserved int64) (full *atomic.Bool) {
	full = new(atomic.Bool)
	file := filepath.Join(fsys.Root(), "store", ownDir, reserveFile)
	var mu sync.Mutex
	fsys.Hook(func(c crashfs.Call) error {
		if !full.Load() || c.Op != crashfs.OpCreate && c.Op != crashfs.OpAllocate {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		info, err := os.Stat(file)
		if strings.HasSuffix(c.Path, reserveFile) || err != nil || info.Size() >= reserved {
			return segment.ErrNoSpace
		}
		reserved = info.Size() // what is free is used now
		return nil
	})
	return full
}

// TestReserve: on a disk that others have filled, offsets are saved, messages
// dispatched and read, and files removed; messages are refused. When there is
// space again, writing goes on by itself, and the reserve is whole.
func TestReserve(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			const size = 1 << 20
			fsys, dir := newCrashFS(t)
			cfg, _, _ := tinyConfig(mode)
			cfg.Reserve = size
			s := openStore(t, dir, withFS(cfg, fsys))
			file := filepath.Join(dir, ownDir, reserveFile)
			requireSize(t, file, size)
			putTiny(t, s, "t", 7)
			full := fillDisk(fsys, size)
			full.Store(true)
			refused := 0
			for range 5 {
				if _, err := s.PutMessage(t.Context(), inner("u", 0, tinyBody)); err != nil {
					require.ErrorIs(t, err, message.ErrDiskFull)
					refused++
				}
			}
			require.Positive(t, refused)
			require.NoError(t, s.WriteConfig("consumerOffset.json", []byte("{}")))
			dispatched(t, s)
			require.Equal(t, 5-refused, len(bodies(t, s, "u", 0)))
			removal, err := s.RemoveBefore(t.Context(), 2*tinySegment)
			require.NoError(t, err)
			require.Len(t, removal.Files, 2)
			info, err := os.Stat(file)
			require.NoError(t, err)
			require.Less(t, info.Size(), int64(size), "a part is used")
			require.Positive(t, info.Size(), "and a part is not")

			closeStore(t, s)
			s = openStore(t, dir, withFS(cfg, fsys)) // on the full disk
			require.True(t, s.Recovery().Clean)
			require.Equal(t, 5-refused, len(bodies(t, s, "u", 0)))
			full.Store(false)
			for range 20 {
				put(t, s, "u", 0, tinyBody)
			}
			requireSize(t, file, size)
			require.Equal(t, 25-refused, len(bodies(t, s, "u", 0)))
			closeStore(t, s)

			cfg.Reserve = size / 2
			closeStore(t, openStore(t, dir, cfg))
			requireSize(t, file, size/2)
			cfg.Reserve = -1
			closeStore(t, openStore(t, dir, cfg))
			require.NoFileExists(t, file)
		})
	}
}

func requireSize(t *testing.T, path string, size int64) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, size, info.Size())
}

// TestLogGetsNoFileBeforeTheReserveIsWhole: what is free first fills it up.
func TestLogGetsNoFileBeforeTheReserveIsWhole(t *testing.T) {
	fsys, dir := newCrashFS(t)
	cfg, _, _ := tinyConfig(FlushSync)
	s := openStore(t, dir, withFS(cfg, fsys))
	putTiny(t, s, "t", 2)
	fault := fsys.FailFrom(crashfs.OpAllocate, "store/pocketmq/reserve", 1, segment.ErrNoSpace) // before: else it may be whole again
	require.True(t, s.reserve.give())
	_, err := s.PutMessage(t.Context(), inner("t", 0, tinyBody))
	for n := 0; err == nil && n < 10; n++ { // files that were made ahead
		_, err = s.PutMessage(t.Context(), inner("t", 0, tinyBody))
	}
	require.ErrorIs(t, err, message.ErrDiskFull)
	require.ErrorContains(t, err, "reserve")
	fault.Stop()
	put(t, s, "t", 0, tinyBody)
	require.False(t, s.reserve.short())
}

// TestDropOldestOnAFullDisk: the disk, not the limit, has no room for a file.
func TestDropOldestOnAFullDisk(t *testing.T) {
	for _, mode := range bothModes {
		fsys, dir := newCrashFS(t)
		cfg, _, _ := tinyConfig(mode)
		cfg.WhenFull = DropOldest
		s := openStore(t, dir, withFS(cfg, fsys))
		fsys.Hook(func(c crashfs.Call) error {
			if c.Op == crashfs.OpCreate && strings.Contains(c.Path, "commitlog/") && s.log.Files() >= 5 {
				return segment.ErrNoSpace
			}
			return nil
		})
		putTiny(t, s, "t", 60)
		fsys.Hook(nil)
		require.EqualValues(t, s.MinOffsetInQueue("t", 0), s.Stats().MessagesRemoved[ReasonFull])
		require.GreaterOrEqual(t, len(bodies(t, s, "t", 0)), 7)
		closeStore(t, s)
	}
}

// TestDefaultReserve is one file of the log, and not too much.
func TestDefaultReserve(t *testing.T) {
	for size, want := range map[int64]int64{16 << 10: 16 << 10, 64 << 20: 8 << 20} {
		s := openStore(t, scratch(t), Config{SegmentSize: size})
		requireSize(t, filepath.Join(s.Dir(), ownDir, reserveFile), want)
		closeStore(t, s)
	}
}

// TestEdgeConfigFitsIn8MiB: after many messages, large and small, in several
// queues, with and without a consumer, whatever is done about full.
func TestEdgeConfigFitsIn8MiB(t *testing.T) {
	for _, policy := range []FullPolicy{RejectWhenFull, DropOldest} {
		for _, body := range []int{10, 200, 100 << 10} {
			t.Run(fmt.Sprint(policy, " ", body), func(t *testing.T) {
				cfg := EdgeConfig()
				cfg.Flush, cfg.WhenFull = FlushAsync, policy
				if policy == DropOldest {
					cfg.Retention.Groups = IgnoreGroups
				}
				s := openStore(t, scratch(t), cfg)
				most, refused := int64(0), 0
				for i := range min(24<<20/(body+100), 60_000) {
					_, err := s.PutMessage(t.Context(), inner(fmt.Sprint("topic", i%4), int32(i/4%4), strings.Repeat("b", body)))
					if err != nil {
						require.ErrorIs(t, err, message.ErrDiskFull)
						if refused++; refused > 100 {
							break
						}
					}
					if i%2000 == 0 {
						most = max(most, onDisk(t, s.Dir()))
					}
				}
				require.Equal(t, policy == RejectWhenFull, refused > 0)
				dispatched(t, s)
				require.NoError(t, s.WriteConfig("topics.json", make([]byte, 10_000)))
				closeStore(t, s)
				most = max(most, onDisk(t, s.Dir()))
				t.Logf("%d KiB", most>>10)
				require.LessOrEqual(t, most, int64(8<<20))
				require.Greater(t, most, int64(4<<20))
			})
		}
	}
}

// onDisk is what a store takes of the disk, about as du counts it.
func onDisk(t *testing.T, dir string) (total int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it was removed meanwhile
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // it was removed meanwhile
		}
		total += (info.Size() + 4095) / 4096 * 4096
		return nil
	})
	require.NoError(t, err)
	return total
}

// TestConsumingMakesRoom: a full store that rejects takes messages again when a
// group has consumed.
func TestConsumingMakesRoom(t *testing.T) {
	cfg, _, _ := tinyConfig(FlushSync)
	cfg.MaxBytes, cfg.Retention.Groups, cfg.WhenFull = 10*tinySegment, RemoveConsumed, BlockWhenFull
	s := openStore(t, scratch(t), cfg)
	var consumed atomic.Int64
	s.SetConsumed(func(string, int32) (message.QueueOffset, bool) { return message.QueueOffset(consumed.Load()), true })
	putTiny(t, s, "t", 16)
	answer := make(chan error, 1)
	go func() { _, err := s.PutMessage(t.Context(), inner("t", 0, tinyBody)); answer <- err }()
	select {
	case err := <-answer:
		t.Fatal("there is no room", err)
	case <-time.After(20 * time.Millisecond):
	}
	consumed.Store(3)
	s.NotifyConsumed()
	require.NoError(t, <-answer)
	require.EqualValues(t, 2, s.MinOffsetInQueue("t", 0))
}

// TestReserveIsFilledUpByItself when others have made room, and nobody puts.
func TestReserveIsFilledUpByItself(t *testing.T) {
	bubble(t, smallConfig(FlushSync), func(t *testing.T, fsys *crashfs.FS, s *DefaultMessageStore) {
		fault := fsys.FailFrom(crashfs.OpAllocate, "store/pocketmq/reserve", 1, segment.ErrNoSpace)
		require.True(t, s.reserve.give())
		rest(s)
		require.True(t, s.reserve.short())
		require.Positive(t, fault.Fired())
		fault.Stop()
		rest(s)
		require.False(t, s.reserve.short())
		stop := fsys.Record()
		rest(s)
		require.Empty(t, stop(), "and then there is nothing to do")
		closeStore(t, s)
	})
}
