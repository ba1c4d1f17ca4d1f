package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

func requireHealthy(t *testing.T, s *DefaultMessageStore) {
	t.Helper()
	require.Equal(t, Health{}, s.Health())
}

// requireReason wants one reason and no other.
func requireReason(t *testing.T, s *DefaultMessageStore, code HealthCode, state HealthState) Health {
	t.Helper()
	h := s.Health()
	require.Equal(t, state, h.State, "%v", h)
	require.Equal(t, "healthy degraded failed", fmt.Sprint(HealthOK, " ", HealthDegraded, " ", HealthFailed))
	require.Len(t, h.Reasons, 1, "%v", h)
	require.Equal(t, code, h.Reasons[0].Code, "%v", h)
	require.True(t, h.Has(code))
	require.NotEmpty(t, h.Reasons[0].Text)
	require.Equal(t, state == HealthFailed, h.Cause != nil)
	return h
}

// diary notes the events of a store, in words.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// events notes all but the syncs.
func (d *diary) events() Events {
	return Events{
		Recovered:       func(r Recovery) { d.add("recovered %v", r.Clean) },
		SegmentCreated:  func(e SegmentEvent) { d.add("created %s [%d, %d)", filepath.Base(e.Path), e.From, e.To) },
		SegmentRemoved:  func(e SegmentEvent) { d.add("removed %s [%d, %d)", filepath.Base(e.Path), e.From, e.To) },
		DispatchFailed:  func(e DispatchEvent) { d.add("failed %v %d %v", e.Sink, e.Offset, e.Err != nil) },
		DispatchResumed: func(e DispatchEvent) { d.add("resumed %v %d %v", e.Sink, e.Offset, e.Err != nil) },
		Damaged:         func(e commitlog.Damage) { d.add("damaged [%d, %d)", e.From, e.To) },
		DiskFull:        func(e DiskFullEvent) { d.add("full %d %v", e.Free, e.Err != nil) },
		WritesRefused:   func(err error) { d.add("refused %v", err != nil) },
	}
}

// take returns what came since the last time.
func (d *diary) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

// watched is bubble with a diary, of which what came before is taken.
func watched(t *testing.T, cfg Config, test func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore, d *diary)) {
	t.Helper()
	var d diary
	cfg.Events = d.events()
	bubble(t, cfg, func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
		require.Equal(t, []string{"recovered true", "created 00000000000000000000 [0, 16384)"}, d.take())
		requireHealthy(t, s)
		test(t, fs, s, &d)
	})
}

func TestHealthClosed(t *testing.T) {
	for _, mode := range bothModes {
		watched(t, smallConfig(mode), func(t *testing.T, _ *crashfs.FS, s *DefaultMessageStore, d *diary) {
			closeStore(t, s)
			for range 2 {
				require.ErrorIs(t, requireReason(t, s, HealthClosed, HealthFailed).Cause, message.ErrClosed)
			}
			require.Empty(t, d.take())
		})
	}
}

func TestHealthSyncFailed(t *testing.T) {
	for _, mode := range bothModes {
		watched(t, smallConfig(mode), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore, d *diary) {
			fs.FailOn(crashfs.OpSync, logFiles, 1, syscall.EIO)
			_, err := s.PutMessage(t.Context(), inner("t", 0, "x"))
			if mode == FlushSync {
				require.ErrorIs(t, err, message.ErrFlush)
				require.True(t, s.Health().Has(HealthSyncFailed), "at once")
			}
			rest(s)
			h := requireReason(t, s, HealthSyncFailed, HealthFailed)
			require.ErrorIs(t, h.Cause, message.ErrFlush)
			require.ErrorIs(t, h.Reasons[0].Err, syscall.EIO)
			for range 3 {
				_, err = s.PutMessage(t.Context(), inner("t", 0, "x"))
				require.ErrorIs(t, err, message.ErrFlush)
			}
			rest(s)
			require.Equal(t, []string{"refused true"}, d.take(), "once")
			require.Error(t, s.Close())
			h = s.Health()
			require.Equal(t, HealthFailed, h.State)
			require.ErrorIs(t, h.Cause, message.ErrClosed)
			require.True(t, h.Has(HealthClosed))
			require.True(t, h.Has(HealthSyncFailed), "it is not forgotten")
		})
	}
}

func TestHealthFilesMoved(t *testing.T) {
	watched(t, smallConfig(FlushSync), func(t *testing.T, _ *crashfs.FS, s *DefaultMessageStore, d *diary) {
		require.NoError(t, os.Remove(logFile(s, 0)))
		_, _ = s.PutMessage(t.Context(), inner("t", 0, "x"))
		rest(s)
		require.ErrorIs(t, requireReason(t, s, HealthFilesMoved, HealthFailed).Cause, ErrMoved)
		require.Equal(t, []string{"refused true"}, d.take())
		require.Error(t, s.Close())
	})
}

func TestHealthDiskFull(t *testing.T) {
	space := newDiskBytes(1<<40, 0)
	cfg := smallConfig(FlushAsync)
	cfg.space = space.space
	space.free.Store(1 << 30)
	watched(t, cfg, func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore, d *diary) {
		full := fs.FailFrom(crashfs.OpCreate, logFiles, 1, segment.ErrNoSpace)
		fill := func() {
			for {
				if _, err := s.PutMessage(t.Context(), inner("t", 0, strings.Repeat("b", 1000))); err != nil {
					require.ErrorIs(t, err, message.ErrDiskFull)
					break
				}
			}
			rest(s)
		}
		space.free.Store(77)
		fill()
		require.ErrorIs(t, requireReason(t, s, HealthDiskFull, HealthFailed).Cause, message.ErrDiskFull)
		_, err := s.PutMessage(t.Context(), inner("t", 0, strings.Repeat("b", 1000)))
		require.ErrorIs(t, err, message.ErrDiskFull)
		require.Equal(t, []string{"full 77 true", "created 00000000000000016384 [16384, 32768)"}, d.take(), "each once")

		space.free.Store(1 << 30)
		h := requireReason(t, s, HealthDiskFull, HealthDegraded)
		require.ErrorIs(t, h.Reasons[0].Err, message.ErrDiskFull)
		full.Stop()
		put(t, s, "t", 0, strings.Repeat("b", 1000))
		rest(s)
		requireHealthy(t, s)
		require.Equal(t, []string{"created 00000000000000032768 [32768, 49152)"}, d.take())

		fs.FailFrom(crashfs.OpCreate, logFiles, 1, segment.ErrNoSpace)
		fill()
		require.Equal(t, "full 1073741824 true", d.take()[0], "another time")
		closeStore(t, s)
	})
}

func TestHealthDiskNearlyFull(t *testing.T) {
	space := newDiskBytes(1<<40, 1<<40)
	cfg := smallConfig(FlushSync)
	cfg.space = space.space
	watched(t, cfg, func(t *testing.T, _ *crashfs.FS, s *DefaultMessageStore, _ *diary) {
		space.free.Store(2*testSegment - 1)
		require.Contains(t, requireReason(t, s, HealthDiskNearlyFull, HealthDegraded).Reasons[0].Text, "two segments")
		space.free.Store(2 * testSegment)
		requireHealthy(t, s)
		for range 100 { // 100 KB in some minutes
			put(t, s, "t", 0, strings.Repeat("b", 1000))
		}
		require.Contains(t, requireReason(t, s, HealthDiskNearlyFull, HealthDegraded).Reasons[0].Text, "at the present rate")
		<-time.After(24 * time.Hour)
		requireHealthy(t, s)
	})
}

func TestHealthDispatchFailing(t *testing.T) {
	watched(t, smallConfig(FlushSync), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore, d *diary) {
		failing := fs.FailFrom(crashfs.OpCreate, queueFiles, 1, syscall.EIO)
		r := put(t, s, "other", 0, "x")
		rest(s)
		require.ErrorIs(t, requireReason(t, s, HealthDispatchFailing, HealthDegraded).Reasons[0].Err, syscall.EIO)
		require.Greater(t, s.Stats().DispatchFailures, int64(10))
		require.Equal(t, []string{fmt.Sprintf("failed queues %d true", r.LogOffset)}, d.take(), "once")
		failing.Stop()
		rest(s)
		requireHealthy(t, s)
		require.Equal(t, []string{fmt.Sprintf("resumed queues %d true", r.LogOffset)}, d.take())
	})
}

func TestHealthIndexFailing(t *testing.T) {
	const indexFiles = "store/index/*"
	t.Run("put", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			fs, dir := newCrashFS(t)
			failing := fs.FailFrom(crashfs.OpCreate, indexFiles, 1, syscall.EIO)
			var d diary
			cfg := smallConfig(FlushSync)
			cfg.Events.DispatchFailed, cfg.Events.DispatchResumed = d.events().DispatchFailed, d.events().DispatchResumed
			s := openStore(t, dir, withFS(cfg, fs))
			m := inner("t", 0, "x")
			m.Properties = "KEYS\x01k"
			r, err := s.PutMessage(t.Context(), m)
			require.NoError(t, err)
			rest(s)
			require.ErrorIs(t, requireReason(t, s, HealthIndexFailing, HealthDegraded).Reasons[0].Err, syscall.EIO)
			require.Equal(t, []string{fmt.Sprintf("failed index %d true", r.LogOffset)}, d.take())
			failing.Stop()
			rest(s)
			requireHealthy(t, s)
			require.Equal(t, []string{fmt.Sprintf("resumed index %d true", r.LogOffset)}, d.take())
			closeStore(t, s)
		})
	})
	t.Run("sync", func(t *testing.T) {
		bubble(t, smallConfig(FlushSync), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
			m := inner("t", 0, strings.Repeat("b", 1000))
			m.Properties = "KEYS\x01k"
			_, err := s.PutMessage(t.Context(), m) // which makes the file, and syncs it
			require.NoError(t, err)
			require.NoError(t, s.WaitIndexed(t.Context(), s.MaxOffset()))
			fs.FailFrom(crashfs.OpSync, indexFiles, 1, syscall.EIO)
			for range 2 { // the first point may be saved before anything is indexed
				for range 2 * testSegment / 1000 {
					_, err := s.PutMessage(t.Context(), m)
					require.NoError(t, err)
				}
				rest(s)
			}
			require.ErrorIs(t, requireReason(t, s, HealthIndexFailing, HealthDegraded).Reasons[0].Err, syscall.EIO)
		})
	})
}

// TestHealthIndexBehind: it can not be written for a while; puts do not wait yet.
func TestHealthIndexBehind(t *testing.T) {
	cfg := smallConfig(FlushSync)
	cfg.MaxDispatchLag = 6000
	synctest.Test(t, func(t *testing.T) {
		fs, dir := newCrashFS(t)
		open := hold(fs, crashfs.OpCreate, "store/index/*")
		s := openStore(t, dir, withFS(cfg, fs))
		for range 10 {
			m := inner("t", 0, strings.Repeat("b", 300))
			m.Properties = "KEYS\x01k"
			_, err := s.PutMessage(t.Context(), m)
			require.NoError(t, err)
			dispatched(t, s)
		}
		requireReason(t, s, HealthIndexBehind, HealthDegraded)
		open()
		rest(s)
		requireHealthy(t, s)
		closeStore(t, s)
	})
}

func TestHealthDamaged(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	putN(t, s, "t", 0, 10)
	dispatched(t, s)
	at := mustOffset(t, s, "t", 4)
	next := mustOffset(t, s, "t", 5)
	closeStore(t, s)
	require.NoError(t, os.Remove(filepath.Join(dir, ownDir, pointFile))) // all is read
	poke(t, dir, int64(at)+4, make([]byte, 4))                           // its magic
	var d diary
	cfg := smallConfig(FlushSync)
	cfg.Events = d.events()
	s = openStore(t, dir, cfg)
	h := requireReason(t, s, HealthDamaged, HealthDegraded)
	require.ErrorIs(t, h.Reasons[0].Err, message.ErrCorrupt)
	require.Contains(t, h.Reasons[0].Text, fmt.Sprintf("1 ranges of the log, %d bytes", next-at))
	require.Equal(t, []string{fmt.Sprintf("damaged [%d, %d)", at, next), "recovered true"}, d.take())
}

func TestHealthProgressNotSaved(t *testing.T) {
	watched(t, smallConfig(FlushSync), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore, _ *diary) {
		failing := fs.FailFrom(crashfs.OpRename, "store/"+checkpointFile, 1, syscall.EIO)
		<-time.After(time.Second) // another store time
		put(t, s, "t", 0, "x")
		rest(s)
		require.ErrorIs(t, requireReason(t, s, HealthProgressNotSaved, HealthDegraded).Reasons[0].Err, syscall.EIO)
		failing.Stop()
		put(t, s, "t", 0, "x")
		rest(s)
		requireHealthy(t, s)
	})
}

// TestHealthNames: every code has one.
func TestHealthNames(t *testing.T) {
	require.Equal(t, int(HealthRebuilding)+1, len(healthCodes))
	require.Equal(t, "index queues", fmt.Sprint(SinkIndex, " ", SinkQueues))
	require.False(t, Health{}.Has(HealthClosed))
}
