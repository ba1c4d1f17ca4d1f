package segment

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// threadUse is what this thread has had: faults that waited for a disk, and blocks read.
func threadUse(t *testing.T) (majorFaults, blocksRead int64) {
	t.Helper()
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &u))
	return int64(u.Majflt), int64(u.Inblock) //nolint:unconvert // shorter on some processors
}

// coldFile returns a file of which no page is in memory, and for which the system does not read ahead.
func coldFile(t *testing.T, size int64) *File {
	t.Helper()
	s, err := Open(Config{Dir: t.TempDir(), FileSize: size})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	f, err := s.Create(0)
	require.NoError(t, err)
	require.True(t, f.Pin())
	t.Cleanup(f.Unpin)
	for off := int64(0); off < size; off += int64(len(zeroChunk)) {
		_, err := f.WriteAt(zeroChunk[:min(int64(len(zeroChunk)), size-off)], off)
		require.NoError(t, err)
	}
	require.NoError(t, f.Sync())
	require.NoError(t, f.Drop(0, size))
	h := f.handle.(*osHandle).f
	require.NoError(t, unix.Fadvise(int(h.Fd()), 0, size, unix.FADV_DONTNEED))
	require.NoError(t, unix.Fadvise(int(h.Fd()), 0, size, unix.FADV_RANDOM))
	require.NoError(t, unix.Madvise(f.Bytes(), unix.MADV_RANDOM))
	if f.view.Resident(0, size) {
		t.Skip("this file system keeps its files in memory, or this emulator says so")
	}
	return f
}

var sum byte

func touch(f *File, from, to int64) {
	for off := from; off < to; off += 4096 {
		sum += f.Bytes()[off]
	}
}

// TestMakeResidentReadsWithoutAFault: the disk is read by a system call, and the loads meet no fault that waits for it.
func TestMakeResidentReadsWithoutAFault(t *testing.T) {
	const size = 8 << 20
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	f := coldFile(t, size)
	faults, _ := threadUse(t)
	touch(f, 0, size)
	after, _ := threadUse(t)
	require.Greater(t, after, faults, "without it there are such faults, or this test shows nothing")

	for attempt := 1; ; attempt++ { // the kernel takes pages back as it likes, those of this program too
		f = coldFile(t, size)
		faults, blocks := threadUse(t)
		require.Equal(t, int64(size), f.MakeResident(0, size, size, new(Clock)))
		resident := f.view.Resident(0, size)
		touch(f, 0, size)
		after, read := threadUse(t)
		require.Greater(t, read, blocks)
		if resident && after == faults {
			return
		}
		require.Less(t, attempt, 5, "resident: %t, %d major faults", resident, after-faults)
	}
}

// TestMakeResidentKeepsToItsLimit, and says how far it went.
func TestMakeResidentKeepsToItsLimit(t *testing.T) {
	const size = 8<<20 + 5000
	f := coldFile(t, size)
	for _, c := range []struct{ off, n, limit, upTo int64 }{
		{10, 20, size, residentChunk},
		{residentChunk - 1, 2, size, 2 * residentChunk},
		{10 * residentChunk, 1, 10*residentChunk + 100, 10*residentChunk + 100},
		{size - 1, 1, size, size},
		{size - 1, 1, 2 * size, size},
		{0, 10, 5, 10},      // what is behind the limit is not looked at
		{100, 10, 100, 110}, // nothing before the limit
		{-5, 10, size, 5},
		{size, 10, size, size + 10},
		{20 * residentChunk, 0, size, 20 * residentChunk},
	} {
		require.Equal(t, c.upTo, f.MakeResident(c.off, c.n, c.limit, new(Clock)), c)
	}
	for chunk, want := range map[int64]bool{0: true, 1: true, 2: false, 20: false} {
		require.Equal(t, want, f.view.Resident(chunk*residentChunk, residentChunk), chunk)
	}
}
