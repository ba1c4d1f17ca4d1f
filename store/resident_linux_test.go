package store

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pocketmq/pocketmq/message"
)

// TestColdReadsMeetNoMajorFault: a goroutine that waits for a disk in a page fault
// stops the world from being stopped. Reads of what is not in memory wait in
// system calls.
func TestColdReadsMeetNoMajorFault(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dir := t.TempDir() // on a disk
	cfg := Config{Flush: FlushAsync, SegmentSize: 8 << 20, MaxBodySize: 1 << 20}
	s := openStore(t, dir, cfg)
	const n = 6000
	body := string(make([]byte, 3000))
	for i := range n {
		if i%1000 == 0 { // larger than what is read at once
			put(t, s, "t", 0, string(make([]byte, 500<<10)))
			continue
		}
		put(t, s, "t", 0, body)
	}
	closeStore(t, s)
	if !evictTree(t, dir) {
		t.Skip("this file system keeps its files in memory")
	}
	var offsets []message.LogOffset
	requireNoMajorFault(t, dir, cfg, "GetMessage", func(s *DefaultMessageStore) {
		offsets = nil
		for at := message.QueueOffset(0); at < n; {
			r, err := s.GetMessage(t.Context(), GetQuery{Topic: "t", Offset: at, MaxCount: 32, MaxBytes: 1 << 20, Verify: true})
			require.NoError(t, err)
			require.Equal(t, GetFound, r.Status)
			offsets = append(offsets, r.Messages[0].LogOffset())
			at = r.NextBeginOffset
			r.Release()
		}
	})
	requireNoMajorFault(t, dir, cfg, "LookMessageByOffset", func(s *DefaultMessageStore) {
		for _, off := range offsets {
			_, err := s.LookMessageByOffset(t.Context(), off)
			require.NoError(t, err)
		}
	})
}

// requireNoMajorFault reads the store in dir, of which nothing is in memory, and meets
// no major fault. A few attempts may meet some: the kernel takes pages back as it
// likes, those of this program too. What a read itself does is in all of them.
func requireNoMajorFault(t *testing.T, dir string, cfg Config, what string, read func(*DefaultMessageStore)) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		require.True(t, evictTree(t, dir))
		s := openStore(t, dir, cfg)
		everyFaultCounts(t, s)
		faults, blocks := threadUse(t)
		read(s)
		faultsAfter, blocksAfter := threadUse(t)
		closeStore(t, s)
		require.Greater(t, blocksAfter, blocks, what)
		if faultsAfter == faults {
			return
		}
		require.Less(t, attempt, 5, "%s: %d major faults", what, faultsAfter-faults)
	}
}

// everyFaultCounts makes faults in the log bring in one page each.
func everyFaultCounts(t *testing.T, s *DefaultMessageStore) {
	t.Helper()
	for off := s.MinOffset(); off < s.MaxOffset(); off = s.log.NextFile(off) {
		f := s.log.Acquire(off)
		require.NoError(t, unix.Madvise(f.Bytes(), unix.MADV_RANDOM))
		f.Unpin()
	}
}

func threadUse(t *testing.T) (majorFaults, blocksRead int64) {
	t.Helper()
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &u))
	return int64(u.Majflt), int64(u.Inblock) //nolint:unconvert // shorter on some processors
}

// evictTree takes the files below dir, which nobody has mapped, out of memory. It
// returns false where that can not be done.
func evictTree(t *testing.T, dir string) bool {
	t.Helper()
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &st))
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return err
		}
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	}))
	return st.Type != unix.TMPFS_MAGIC
}
