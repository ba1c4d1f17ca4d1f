package mmap

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// blocks returns the bytes of disk that f takes.
func blocks(t *testing.T, f *os.File) int64 {
	t.Helper()
	info, err := f.Stat()
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

func TestAllocateTakesRealBlocks(t *testing.T) {
	f := newFile(t, 8<<20)
	require.Zero(t, blocks(t, f))
	require.NoError(t, Allocate(f, 0, 1<<20))
	require.GreaterOrEqual(t, blocks(t, f), int64(1<<20))
	require.NoError(t, Allocate(f, 1<<20, 7<<20))
	require.GreaterOrEqual(t, blocks(t, f), int64(8<<20))
}

func TestPopulateMakesPagesResident(t *testing.T) {
	m, f := newMapping(t, 1<<20)
	require.NoError(t, Allocate(f, 0, 1<<20))
	if err := unix.Madvise(m.data[:4096], unix.MADV_POPULATE_WRITE); errors.Is(err, unix.EINVAL) {
		t.Skip("this kernel has no MADV_POPULATE_WRITE")
	}
	if emulated(t) {
		t.Skip("this emulator says yes to madvise and does nothing")
	}
	require.NoError(t, m.Populate(0, 1<<20))
	before := minorFaults(t)
	for i := 0; i < 1<<20; i += os.Getpagesize() {
		m.Bytes()[i] = 1
	}
	require.Less(t, minorFaults(t)-before, int64(64), "256 stores must not fault each")
}

func minorFaults(t *testing.T) int64 {
	t.Helper()
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return int64(u.Minflt)
}

func TestEveryKindOfFullDiskIsNoSpace(t *testing.T) {
	for _, errno := range []error{unix.ENOSPC, unix.EDQUOT, unix.EFBIG} {
		err := NoSpace(&os.PathError{Op: "write", Path: "x", Err: errno})
		require.ErrorIs(t, err, ErrNoSpace)
		require.ErrorIs(t, err, errno)
		require.Equal(t, err, NoSpace(err), "marked once")
	}
}
