package segment

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

func TestPrepareInSteps(t *testing.T) {
	page := pageSize()
	s := openIn(t, t.TempDir(), Config{FileSize: 10*page + 20, Step: 4*page - 1}) // no whole number of steps
	f, err := s.Create(0)
	require.NoError(t, err)
	require.True(t, f.Pin())
	defer f.Unpin()
	for _, tc := range []struct{ upTo, want int64 }{
		{0, 4 * page}, {4 * page, 4 * page}, {4*page + 1, 8 * page}, {5, 8 * page}, {8*page + 1, 10*page + 20}, {10*page + 20, 10*page + 20},
	} {
		require.NoError(t, f.Prepare(tc.upTo))
		require.Equal(t, tc.want, f.Allocated(), tc)
	}
	require.ErrorIs(t, f.Prepare(10*page+21), ErrBadOffset)
}

func TestPrepareOfAFoundFileKeepsItsBytes(t *testing.T) {
	dir := t.TempDir()
	s := openIn(t, dir, Config{})
	fill(t, s, 1)
	require.NoError(t, s.Close())
	s = openIn(t, dir, Config{Step: 4096})
	f := s.Acquire(0)
	defer f.Unpin()
	require.Zero(t, f.Allocated(), "nobody knows its holes")
	require.NoError(t, f.Prepare(testSize))
	require.Equal(t, int64(testSize), f.Allocated())
	require.Equal(t, pattern(0), f.Bytes()[0])
	require.Equal(t, pattern(0), f.Bytes()[testSize-1])
}

func TestPrepareOnAFullDisk(t *testing.T) {
	fsys := newFailFS()
	s := openIn(t, t.TempDir(), Config{FS: fsys, Step: 4 * pageSize(), FileSize: 64 * pageSize()})
	f, err := s.Create(0)
	require.NoError(t, err)
	require.True(t, f.Pin())
	defer f.Unpin()
	have := f.Allocated()

	fsys.set(full)
	require.ErrorIs(t, f.Prepare(have+1), ErrNoSpace)
	require.Equal(t, have, f.Allocated())
	require.Equal(t, []string{"allocate", "allocate"}, fsys.did(), "a step, then the least")

	fsys.failNth(1, false, mmap.ErrNoSpace)
	require.NoError(t, f.Prepare(have+1), "a step does not fit, a page does")
	require.Equal(t, have+pageSize(), f.Allocated())

	fsys.set(nil)
	require.NoError(t, f.Prepare(have+pageSize()+1))
	require.Equal(t, have+4*pageSize(), f.Allocated(), "back to whole steps")
}

// full answers as a full disk does.
func full(op, path string) error {
	if op == "allocate" {
		return mmap.ErrNoSpace
	}
	return nil
}

func TestFullDiskForReal(t *testing.T) {
	dir := tinyDisk(t, "1m")
	s := openIn(t, dir, Config{FileSize: 8 << 20, Step: 64 << 10})
	f, err := s.Create(0)
	require.NoError(t, err)
	require.True(t, f.Pin())
	defer f.Unpin()
	for err == nil {
		err = f.Prepare(f.Allocated() + 1)
	}
	require.ErrorIs(t, err, ErrNoSpace)
	have := f.Allocated()
	require.Greater(t, have, int64(512<<10))
	for i := range f.Bytes()[:have] {
		f.Bytes()[i] = 7 // no fault: it was all allocated
	}
	before := listing(t, dir)
	_, err = s.Create(8 << 20)
	require.ErrorIs(t, err, ErrNoSpace)
	require.Equal(t, before, listing(t, dir))
	require.Equal(t, []int64{0}, bases(s))
	require.NoError(t, f.Sync())
}

func TestReadAtWriteAtStayInside(t *testing.T) {
	s := openIn(t, t.TempDir(), Config{})
	f, err := s.Create(0)
	require.NoError(t, err)
	require.True(t, f.Pin())
	defer f.Unpin()
	_, err = f.WriteAt([]byte("abc"), testSize-3)
	require.NoError(t, err)
	require.Equal(t, "abc", string(f.Bytes()[testSize-3:]))
	got := make([]byte, 3)
	_, err = f.ReadAt(got, testSize-3)
	require.NoError(t, err)
	require.Equal(t, "abc", string(got))
	for _, off := range []int64{-1, testSize - 2, testSize, 1 << 62} {
		_, err = f.WriteAt([]byte("abc"), off)
		require.ErrorIs(t, err, ErrBadOffset)
		_, err = f.ReadAt(got, off)
		require.ErrorIs(t, err, ErrBadOffset)
	}
	info, err := OS.Lstat(filepath.Join(s.Dir(), FileName(0)))
	require.NoError(t, err)
	require.Equal(t, int64(testSize), info.Size())
}
