package mmap

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// evict takes the pages of the file out of memory, and skips the test where that can not be done.
func evict(t *testing.T, m *Mapping, f *os.File) {
	t.Helper()
	size := int64(len(m.data))
	require.NoError(t, Datasync(f, m))
	require.NoError(t, m.Drop(0, size))
	require.NoError(t, unix.Fadvise(int(f.Fd()), 0, size, unix.FADV_DONTNEED))
	if m.Resident(0, size) {
		t.Skip("this file system keeps its files in memory, or this emulator says so")
	}
}

func TestResidentTellsWhatIsInMemory(t *testing.T) {
	const size = 4 << 20
	m, f := newMapping(t, size)
	for off := int64(0); off < size; off += 1 << 20 {
		_, err := f.WriteAt(make([]byte, 1<<20), off)
		require.NoError(t, err)
	}
	require.True(t, m.Resident(0, size), "just written")
	evict(t, m, f)
	require.NoError(t, unix.Fadvise(int(f.Fd()), 0, size, unix.FADV_RANDOM)) // no reading ahead
	page := int64(os.Getpagesize())
	_, err := f.ReadAt(make([]byte, 1), 3*page)
	require.NoError(t, err)
	require.True(t, m.Resident(3*page, page))
	require.True(t, m.Resident(3*page+7, 1))
	require.False(t, m.Resident(3*page, page+1))
	require.False(t, m.Resident(3*page-1, 2))
	require.False(t, m.Resident(0, size))
	for range 10 { // the kernel may take a page back meanwhile
		_, err = f.ReadAt(make([]byte, size), 0)
		require.NoError(t, err)
		if m.Resident(0, size) {
			return
		}
	}
	t.Fatal("more pages than are looked at in one call: never resident")
}

func TestResidentOutsideIsFalse(t *testing.T) {
	m, _ := newMapping(t, 100_000)
	for _, r := range [][2]int64{{-1, 1}, {0, 100_001}, {100_000, 1}, {0, -1}, {1, 1<<63 - 1}} {
		require.False(t, m.Resident(r[0], r[1]), r)
	}
}
