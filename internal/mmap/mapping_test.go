package mmap

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStoresReachTheFile(t *testing.T) {
	m, f := newMapping(t, 100_000) // no multiple of a page
	require.Len(t, m.Bytes(), 100_000)
	copy(m.Bytes()[99_990:], "0123456789")
	require.NoError(t, Datasync(f, m))
	got := make([]byte, 10)
	_, err := f.ReadAt(got, 99_990)
	require.NoError(t, err)
	require.Equal(t, "0123456789", string(got))
}

func TestUnmapIsIdempotent(t *testing.T) {
	before := Live()
	f := newFile(t, 4096)
	m, err := Map(f, 4096)
	require.NoError(t, err)
	require.Equal(t, before+1, Live())
	require.NoError(t, m.Unmap())
	require.NoError(t, m.Unmap())
	require.Nil(t, m.Bytes())
	require.Equal(t, before, Live())
}

func TestReadOnlyMappingSeesTheFileAndRefusesStores(t *testing.T) {
	f := newFile(t, 8192)
	_, err := f.WriteAt([]byte("hello"), 5000)
	require.NoError(t, err)
	r, err := os.Open(f.Name())
	require.NoError(t, err)
	defer r.Close()
	m, err := MapReadOnly(r, 8192)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Unmap()) }()
	require.Equal(t, "hello", string(m.Bytes()[5000:5005]))
	require.NoError(t, m.Populate(0, 8192), "not possible, not an error")
	needFaults(t)
	err = guarded(m, func() { m.Bytes()[5000] = 'x' })
	require.ErrorIs(t, err, ErrFault)
}

func TestLengthIsChecked(t *testing.T) {
	f := newFile(t, 4096)
	for _, length := range []int64{0, -1} {
		_, err := Map(f, length)
		require.Error(t, err)
	}
	require.NoError(t, checkLength("x", 1<<40, 64))
	require.NoError(t, checkLength("x", MaxLength32, 32))
	err := checkLength("x", MaxLength32+1, 32)
	require.ErrorIs(t, err, ErrTooLarge)
	var large *TooLargeError
	require.ErrorAs(t, err, &large)
	require.Equal(t, int64(MaxLength32+1), large.Length)
}

func TestPopulateChecksItsRange(t *testing.T) {
	m, f := newMapping(t, 100_000)
	require.NoError(t, Allocate(f, 0, 100_000))
	for _, r := range [][2]int64{{0, 100_000}, {1, 1}, {99_999, 1}, {5000, 0}, {4096, 4096}} {
		require.NoError(t, m.Populate(r[0], r[1]), r)
	}
	for _, r := range [][2]int64{{-1, 1}, {0, 100_001}, {100_000, 1}, {0, -1}, {1, 1<<63 - 1}} {
		require.Error(t, m.Populate(r[0], r[1]), r)
	}
}

func TestSyncDir(t *testing.T) {
	require.NoError(t, SyncDir(t.TempDir()))
	if UnlinkMapped { // Windows has nothing to open there
		require.ErrorIs(t, SyncDir(t.TempDir()+"/absent"), os.ErrNotExist)
	}
}

func TestOpenFileRefusesALink(t *testing.T) {
	f := newFile(t, 1)
	link := f.Name() + ".link"
	if err := os.Symlink(f.Name(), link); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	_, err := OpenFile(link, os.O_RDWR, 0)
	require.Error(t, err)
	g, err := OpenFile(f.Name(), os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, g.Close())
}
