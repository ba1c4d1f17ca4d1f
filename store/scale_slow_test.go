//go:build slow && unix

package store

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHundredThousandQueues of one message each: with fewer than 1,000 files
// mapped at a time, little of the disk, and little memory. Its log tells how long
// each step takes.
func TestHundredThousandQueues(t *testing.T) {
	sc := newScale(t, scratch(t), 0, 1000, 100)
	step := func(name string, do func()) {
		began, busy := time.Now(), processorTime(t)
		do()
		t.Logf("%-28s %8v, %8v of processors; at most %d mapped and %d open", name, time.Since(began).Round(time.Millisecond),
			(processorTime(t) - busy).Round(time.Millisecond), sc.fs.mostMapped, sc.fs.mostOpen)
		require.Less(t, sc.fs.mostMapped, 1000)
		require.Less(t, sc.fs.mostOpen, 1000)
	}
	var s *DefaultMessageStore
	open := func() { // not openStore: its Cleanup would keep the memory
		var err error
		s, err = Open(t.Context(), sc.dir, sc.cfg)
		require.NoError(t, err)
	}
	before := heap()
	open()
	step("put into new queues", func() { sc.fill(t, s) })
	step("close", func() { closeStore(t, s); s = nil })
	bytes, err := usedBytes(filepath.Join(sc.dir, "consumequeue"))
	require.NoError(t, err)
	t.Logf("%d bytes on disk for each queue", bytes/100_000)
	require.LessOrEqual(t, bytes, int64(100_000*9<<10))
	require.Less(t, heap()-before, int64(10<<20))

	step("open", open)
	require.True(t, s.Recovery().FromPoint)
	perQueue := (heap() - before) / 100_000
	t.Logf("%d bytes of heap for each idle queue", perQueue)
	require.Less(t, perQueue, int64(1024))
	step("put and get in one queue", func() {
		put(t, s, "topic-7", 7, "7/7")
		require.Equal(t, []string{"7/7", "7/7"}, bodies(t, s, "topic-7", 7))
	})
	step("close", func() { closeStore(t, s) })
	step("open", open)
	put(t, s, "topic-7", 8, "7/8")
	step("close", func() { closeStore(t, s) })
	step("open", open)
	step("read all", func() {
		for _, q := range s.Queues() {
			require.Positive(t, q.MaxOffset)
		}
	})
	t.Logf("%d bytes of heap for each queue that was used", (heap()-before)/100_000)
	step("close", func() { closeStore(t, s) })
	require.NoError(t, os.WriteFile(filepath.Join(sc.dir, abortFile), nil, 0o600))
	step("open after a crash", open)
	step("close", func() { closeStore(t, s) })
	crashed(t, sc.dir)
	step("open without a point", open)
	step("close", func() { closeStore(t, s) })
	require.Zero(t, sc.fs.open)
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
