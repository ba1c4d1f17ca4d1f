package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/mmap"
	"github.com/pocketmq/pocketmq/message"
)

// TestCloseAmidPutsAndGets: every call ends with an answer, nothing acknowledged
// is lost, and no reader is sent past a message.
func TestCloseAmidPutsAndGets(t *testing.T) {
	notEmulated(t)
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			for range 5 {
				closeAmid(t, mode)
			}
		})
	}
}

func closeAmid(t *testing.T, mode FlushMode) {
	t.Helper()
	before := mmap.Live()
	cfg := smallConfig(mode)
	cfg.SegmentSize, cfg.ConsumeQueueFileSize = 1<<20, 1<<20 // there is no telling how many puts there will be
	dir := scratch(t)
	s := openStore(t, dir, cfg)
	putN(t, s, "read", 0, 100)
	dispatched(t, s)
	var acked [3]atomic.Int64
	var wg sync.WaitGroup
	for w := range acked {
		wg.Go(func() {
			for i := 0; ; i++ {
				r, err := s.PutMessage(context.Background(), inner("t", int32(w), fmt.Sprint("body", i)))
				if err != nil {
					if !errors.Is(err, message.ErrClosed) || r.Status != PutServiceNotAvailable {
						t.Errorf("put: %v, %v", r.Status, err)
					}
					return
				}
				acked[w].Add(1)
			}
		})
		wg.Go(func() {
			for off := message.QueueOffset(0); ; off = (off + 1) % 100 {
				r, err := s.GetMessage(context.Background(), GetQuery{Topic: "read", Offset: off, MaxCount: 32, Verify: true})
				if err != nil {
					if !errors.Is(err, message.ErrClosed) || r != nil {
						t.Errorf("get: %v", err)
					}
					return
				}
				if r.Status != GetFound || string(r.Messages[0].Body()) != fmt.Sprint("body", off) {
					t.Errorf("get of %d: %v, next %d", off, r.Status, r.NextBeginOffset)
				}
				r.Release()
			}
		})
	}
	wg.Go(func() {
		for {
			if _, err := s.LookMessageByOffset(context.Background(), 0); err != nil {
				if !errors.Is(err, message.ErrClosed) {
					t.Errorf("look: %v", err)
				}
				return
			}
		}
	})
	for !t.Failed() && (acked[0].Load() < 30 || acked[1].Load() < 30) { // a writer that has failed puts no more
		require.NoError(t, s.WaitDispatched(t.Context(), s.MaxOffset()))
	}
	for range 3 { // Close itself may be called from everywhere
		wg.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, before, mmap.Live(), "mappings are left")
	again := openStore(t, dir, cfg)
	require.True(t, again.Recovery().Clean)
	for w := range acked {
		require.GreaterOrEqual(t, len(bodies(t, again, "t", int32(w))), int(acked[w].Load()))
	}
	closeStore(t, again)
}

// TestGetThatClosePassesIsClosed: a reader is not sent past messages whose file
// was closed while it read.
func TestGetThatClosePassesIsClosed(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	for range 6 { // two files
		put(t, s, "t", 0, string(make([]byte, 4000)))
	}
	dispatched(t, s)
	r, err := s.GetMessage(t.Context(), GetQuery{Topic: "t", MaxCount: 32, Match: func(message.View) bool {
		closeStore(t, s)
		return true
	}})
	require.ErrorIs(t, err, message.ErrClosed)
	require.Nil(t, r)
}

// TestClosedStoreSaysSo: every call after Close answers ErrClosed, or what does
// not need the files.
func TestClosedStoreSaysSo(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	r := put(t, s, "t", 0, "x")
	closeStore(t, s)
	for range 2 {
		require.NoError(t, s.Close())
		require.NoError(t, s.Shutdown(t.Context()))
	}
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"put":   func() error { _, err := s.PutMessage(ctx, inner("t", 0, "x")); return err },
		"batch": func() error { _, err := s.PutMessages(ctx, batchOf(t, "t", 0, message.Message{})); return err },
		"get":   func() error { _, err := s.GetMessage(ctx, GetQuery{Topic: "t"}); return err },
		"look":  func() error { _, err := s.LookMessageByOffset(ctx, 0); return err },
		"flush": func() error { return s.Flush(ctx) },
	} {
		require.ErrorIs(t, call(), message.ErrClosed, name)
	}
	require.NoError(t, s.WaitDispatched(ctx, r.LogOffset), "that was done")
	require.EqualValues(t, 1, s.MaxOffsetInQueue("t", 0))
	require.Equal(t, message.LogOffset(r.Bytes), s.MaxOffset())
	require.Equal(t, []QueueInfo{{"t", 0, 0, 1}}, s.Queues())
	require.EqualValues(t, 1, s.Stats().PutMessages)
	_, ok := s.CommitLogOffsetInQueue("t", 0, 0)
	require.False(t, ok)
}

// TestIdentityIsStable: drawn once, another one for each directory, and never
// guessed when its file is damaged.
func TestIdentityIsStable(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	host := s.StoreHost()
	require.True(t, host.Addr.IsLoopback())
	require.EqualValues(t, 10911, host.Port)
	closeStore(t, s)
	s = openStore(t, dir, smallConfig(FlushAsync))
	require.Equal(t, host, s.StoreHost())
	closeStore(t, s)
	other := openStore(t, scratch(t), smallConfig(FlushSync))
	require.NotEqual(t, host, other.StoreHost())

	path := filepath.Join(dir, ownDir, primaryFile)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, b := range [][]byte{nil, good[:len(good)/2], []byte("0123456789abcdef\n{}")} {
		require.NoError(t, os.WriteFile(path, b, 0o600))
		_, err := Open(t.Context(), dir, smallConfig(FlushSync))
		require.ErrorIs(t, err, message.ErrCorrupt)
		require.ErrorContains(t, err, primaryFile)
	}
	require.NoError(t, os.WriteFile(path, good, 0o600))
	given := smallConfig(FlushSync)
	given.StoreHost, err = message.ParseHost("10.0.0.1:10911")
	require.NoError(t, err)
	s = openStore(t, dir, given)
	require.Equal(t, given.StoreHost, s.StoreHost())
	require.Equal(t, given.StoreHost, put(t, s, "t", 0, "x").StoreHost)
	closeStore(t, s)
	require.Equal(t, host, openStore(t, dir, smallConfig(FlushSync)).StoreHost())
}

// TestRecoveryIsCheapAfterACleanStop: Open after Close reads nothing of the log,
// however long it is.
func TestRecoveryIsCheapAfterACleanStop(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushAsync))
	for range 100 {
		put(t, s, "t", 0, string(make([]byte, 3000)))
	}
	closeStore(t, s)
	s = openStore(t, dir, smallConfig(FlushAsync))
	rec := s.Recovery()
	require.True(t, rec.Clean)
	require.True(t, rec.FromPoint)
	require.Zero(t, rec.Bytes)
	require.Equal(t, s.MaxOffset(), rec.LogEnd)
	closeStore(t, s)
}

// TestSizesAreTakenFromTheFiles: sizes of 0 take what is there.
func TestSizesAreTakenFromTheFiles(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	putN(t, s, "t", 0, 30)
	closeStore(t, s)
	cfg := Config{MaxBodySize: 1000}
	s = openStore(t, dir, cfg)
	require.Equal(t, sequence(30), bodies(t, s, "t", 0))
	putN(t, s, "t", 30, 300)
	closeStore(t, s)
	info, err := os.Stat(logFile(s, testSegment))
	require.NoError(t, err)
	require.EqualValues(t, testSegment, info.Size())
	info, err = os.Stat(queueFile(s, "t", 15*testQueueFile))
	require.NoError(t, err)
	require.EqualValues(t, testQueueFile, info.Size())
}

// TestStats count what happened.
func TestStats(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	a := put(t, s, "t", 0, "x")
	b, err := s.PutMessages(t.Context(), batchOf(t, "u", 1, message.Message{Body: []byte("1")}, message.Message{Body: []byte("2")}))
	require.NoError(t, err)
	_, err = s.PutMessage(t.Context(), inner("", 0, "x"))
	require.Error(t, err)
	dispatched(t, s)
	got := read(t, s, "u", 1, 0)
	st := s.Stats()
	require.EqualValues(t, 3, st.PutMessages)
	require.EqualValues(t, a.Bytes+b.Bytes, st.PutBytes)
	require.EqualValues(t, 1, st.PutFailures)
	require.EqualValues(t, 2, st.GetMessages)
	require.EqualValues(t, got.Bytes, st.GetBytes)
	require.Positive(t, st.Syncs)
	require.Equal(t, s.MaxOffset(), st.LogEnd)
	require.Equal(t, s.MaxOffset(), st.LogDurable)
	require.Equal(t, s.MaxOffset(), st.DispatchedEnd)
	require.Zero(t, st.DispatchLag)
	require.Zero(t, st.LogStart)
	require.Equal(t, 2, st.Queues)
}

// TestFlushMakesDurable though the interval is far away.
func TestFlushMakesDurable(t *testing.T) {
	cfg := smallConfig(FlushAsync)
	cfg.FlushInterval = time.Hour
	fs, dir := newCrashFS(t)
	s := openStore(t, dir, withFS(cfg, fs))
	putN(t, s, "t", 0, 200)
	require.NoError(t, s.Flush(t.Context()))
	require.Equal(t, s.MaxOffset(), s.Stats().LogDurable)
	image := scratch(t)
	_, err := fs.Crash(0, image)
	require.NoError(t, err)
	crashed := openStore(t, filepath.Join(image, "store"), smallConfig(FlushAsync))
	require.Equal(t, sequence(200), bodies(t, crashed, "t", 0))
	closeStore(t, crashed)
	closeStore(t, s)
}
