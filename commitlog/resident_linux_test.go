package commitlog

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// TestGoingThroughAColdLogMeetsNoMajorFault: Recover and Scan wait for the disk
// in system calls.
func TestGoingThroughAColdLogMeetsNoMajorFault(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cfg := config(t, false)
	cfg.FS, cfg.FileSize = segment.OS, 4<<20
	sizes := append(repeat(1500, 3000), 1_500_000, 400) // one is longer than what is looked at once
	placed := build(t, cfg, sizes...)
	end := placed[len(placed)-1].End()
	for _, c := range []struct {
		name string
		read func(l *Log) error
	}{
		{"Recover", func(l *Log) error {
			found, err := l.Recover(context.Background(), RecoverConfig{})
			require.EqualValues(t, len(sizes), found.Records)
			return err
		}},
		{"Scan", func(l *Log) error {
			n := 0
			_, err := l.Scan(0, end, func(*message.DispatchRequest) error { n++; return nil })
			require.Len(t, sizes, n)
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			l := load(t, cfg)
			for attempt := 1; ; attempt++ { // the kernel takes pages back as it likes, those of this program too
				if !cool(t, l, cfg.Dir) {
					t.Skip("this file system keeps its files in memory")
				}
				before := majorFaults(t)
				require.NoError(t, c.read(l))
				faults := majorFaults(t) - before
				if faults == 0 {
					return
				}
				require.Less(t, attempt, 5, "%d major faults", faults)
			}
		})
	}
}

// cool takes the files of the log out of memory, and makes faults in them bring
// in one page each. It returns false where that can not be done.
func cool(t *testing.T, l *Log, dir string) bool {
	t.Helper()
	for _, f := range l.files.Snapshot() {
		require.True(t, f.Pin())
		require.NoError(t, f.Sync())
		require.NoError(t, f.Drop(0, f.Size()))
		require.NoError(t, unix.Madvise(f.Bytes(), unix.MADV_RANDOM))
		h, err := os.Open(filepath.Join(dir, segment.FileName(f.Base())))
		require.NoError(t, err)
		require.NoError(t, unix.Fadvise(int(h.Fd()), 0, 0, unix.FADV_DONTNEED))
		require.NoError(t, h.Close())
		f.Unpin()
	}
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &st))
	return st.Type != unix.TMPFS_MAGIC
}

func majorFaults(t *testing.T) int64 {
	t.Helper()
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &u))
	return int64(u.Majflt) //nolint:unconvert // shorter on some processors
}
