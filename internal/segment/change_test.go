package segment

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

func TestCreateOrderOfSteps(t *testing.T) {
	fsys := newFailFS()
	s := openIn(t, t.TempDir(), Config{FS: fsys, Step: 4096})
	fsys.set(nil)
	f, err := s.Create(0)
	require.NoError(t, err)
	require.Equal(t, []string{"mkdirall", "syncdir", "create", "allocate", "sync", "syncdir", "map"}, fsys.did(),
		"a file is used only when it and its entry are durable")
	require.Equal(t, pageSize(), min(f.Allocated(), pageSize()))
	fsys.set(nil)
	_, err = s.Create(testSize)
	require.NoError(t, err)
	require.Equal(t, []string{"create", "allocate", "sync", "syncdir", "map"}, fsys.did())
	require.Equal(t, []int64{0, testSize}, bases(s))
}

func TestCreateRefusesWrongBases(t *testing.T) {
	s := openIn(t, t.TempDir(), Config{})
	for _, base := range []int64{1, -testSize, testSize - 1} {
		_, err := s.Create(base)
		require.ErrorIs(t, err, ErrGap, base)
	}
	_, err := s.Create(5 * testSize)
	require.NoError(t, err)
	for _, base := range []int64{0, 4 * testSize, 5 * testSize, 7 * testSize} {
		_, err := s.Create(base)
		require.ErrorIs(t, err, ErrGap, base)
	}
	require.Equal(t, []int64{5 * testSize}, bases(s))
}

func TestCreateFailsAtEachCall(t *testing.T) {
	for _, sticky := range []bool{false, true} {
		fsys := newFailFS()
		dir := t.TempDir()
		s := openIn(t, dir, Config{FS: fsys})
		fill(t, s, 1)
		before, live := listing(t, dir), mmap.Live()
		for n := 1; ; n++ {
			fsys.failNth(n, sticky, errInjected)
			_, err := s.Create(testSize)
			calls := fsys.did()
			fsys.set(nil)
			if err == nil {
				require.Greater(t, n, 5)
				break
			}
			require.ErrorIs(t, err, errInjected)
			require.Equal(t, []int64{0}, bases(s))
			require.Equal(t, live, mmap.Live())
			if calls[len(calls)-1] == "remove" && sticky {
				require.NoError(t, os.Remove(filepath.Join(s.Dir(), FileName(testSize)))) // even removing it was refused
			}
			require.Equal(t, before, listing(t, dir), "call %d", n)
		}
		require.Equal(t, []int64{0, testSize}, bases(s))
		require.NoError(t, s.Close())
	}
}

func TestCreateLeavesAForeignFileAlone(t *testing.T) {
	s := openIn(t, t.TempDir(), Config{})
	fill(t, s, 1)
	path := filepath.Join(s.Dir(), FileName(testSize))
	require.NoError(t, os.WriteFile(path, []byte("somebody's"), 0o600))
	_, err := s.Create(testSize)
	require.ErrorIs(t, err, os.ErrExist)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "somebody's", string(got))
}

func TestCutAfter(t *testing.T) {
	for _, tc := range []struct {
		about     string
		off       int64
		keepEmpty bool
		bases     []int64
		zeroed    int64
		removed   []int64
	}{
		{"nothing behind", 3 * testSize, false, []int64{0, testSize, 2 * testSize}, 0, nil},
		{"far behind", 99 * testSize, false, []int64{0, testSize, 2 * testSize}, 0, nil},
		{"in the last", 3*testSize - 1, false, []int64{0, testSize, 2 * testSize}, 1, nil},
		{"in the middle", testSize + 5000, false, []int64{0, testSize}, testSize - 5000, []int64{2, 1}[:1]},
		{"at a border", testSize, false, []int64{0}, 0, []int64{2, 1}},
		{"at a border, kept", testSize, true, []int64{0, testSize}, testSize, []int64{2}},
		{"all", 0, false, []int64{}, 0, []int64{2, 1, 0}},
		{"all but the file", 0, true, []int64{0}, testSize, []int64{2, 1}},
	} {
		t.Run(tc.about, func(t *testing.T) {
			s := openIn(t, t.TempDir(), Config{})
			fill(t, s, 3)
			zeroed, removed, err := s.CutAfter(tc.off, tc.keepEmpty)
			require.NoError(t, err)
			require.Equal(t, tc.zeroed, zeroed)
			require.Equal(t, tc.bases, bases(s))
			var want []string
			for _, i := range tc.removed {
				want = append(want, filepath.Join(s.Dir(), FileName(i*testSize)))
			}
			require.Equal(t, want, removed, "newest first")
			for _, path := range removed {
				require.NoFileExists(t, path)
			}
			for _, f := range s.Snapshot() {
				require.True(t, f.Pin())
				for i, c := range f.Bytes() {
					if f.Base()+int64(i) < tc.off {
						require.Equal(t, pattern(f.Base()), c)
					} else {
						require.Zero(t, c)
					}
				}
				f.Unpin()
			}
		})
	}
}

func TestCutAfterWritesOnlyWhereSomethingIs(t *testing.T) {
	fsys := newFailFS()
	s := openIn(t, t.TempDir(), Config{FS: fsys, Step: 4096})
	f, err := s.Create(0)
	require.NoError(t, err)
	require.True(t, f.Pin())
	defer f.Unpin()
	require.NoError(t, f.Prepare(20_000))
	f.Bytes()[100], f.Bytes()[9000] = 1, 1
	fsys.set(nil)
	zeroed, _, err := s.CutAfter(101, false)
	require.NoError(t, err)
	require.Equal(t, int64(9000-101+1), zeroed)
	require.Equal(t, []string{"readat", "writeat", "sync"}, fsys.did(), "one page written")
	require.Equal(t, byte(1), f.Bytes()[100])
	fsys.set(nil)
	zeroed, _, err = s.CutAfter(101, false)
	require.NoError(t, err)
	require.Zero(t, zeroed)
	require.Equal(t, []string{"readat", "sync"}, fsys.did(), "the zeros of an earlier cut may not be durable")
}

func TestCutAfterFailsAtEachCallAndGoesOn(t *testing.T) {
	for n := 1; ; n++ {
		fsys := newFailFS()
		s := openIn(t, t.TempDir(), Config{FS: fsys})
		fill(t, s, 4)
		fsys.failNth(n, false, errInjected)
		_, removed, err := s.CutAfter(testSize+100, false)
		fsys.set(nil)
		if err == nil {
			require.Greater(t, n, 5)
			break
		}
		require.ErrorIs(t, err, errInjected)
		onDisk, readErr := os.ReadDir(s.Dir())
		require.NoError(t, readErr)
		require.Len(t, onDisk, len(s.Snapshot()), "list and disk agree")
		require.Len(t, removed, 4-len(onDisk))

		_, _, err = s.CutAfter(testSize+100, false)
		require.NoError(t, err)
		require.Equal(t, []int64{0, testSize}, bases(s))
		f := s.Acquire(testSize)
		require.Zero(t, lastNonZero(f.Bytes()[100:]))
		require.Equal(t, pattern(testSize), f.Bytes()[99])
		f.Unpin()
		require.NoError(t, s.Close())
	}
}

func TestRemoveBefore(t *testing.T) {
	s := openIn(t, t.TempDir(), Config{})
	removed, err := s.RemoveBefore(testSize)
	require.NoError(t, err)
	require.Empty(t, removed)
	fill(t, s, 4)
	removed, err = s.RemoveBefore(testSize - 1)
	require.NoError(t, err)
	require.Empty(t, removed)
	removed, err = s.RemoveBefore(2*testSize + 1)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(s.Dir(), FileName(0)), filepath.Join(s.Dir(), FileName(testSize))}, removed)
	_, err = s.RemoveBefore(100 * testSize)
	require.NoError(t, err)
	require.Equal(t, []int64{3 * testSize}, bases(s), "never the last")
	require.Nil(t, s.Acquire(0))
	require.Nil(t, s.Acquire(4*testSize))
	require.Nil(t, s.Acquire(-1))
	f := s.Acquire(4*testSize - 1)
	require.Equal(t, int64(3*testSize), f.Base())
	f.Unpin()
}

func TestRemoveBeforeFailure(t *testing.T) {
	fsys := newFailFS()
	s := openIn(t, t.TempDir(), Config{FS: fsys})
	fill(t, s, 4)
	fsys.set(func(op, path string) error {
		if op == "remove" && filepath.Base(path) == FileName(testSize) {
			return errInjected
		}
		return nil
	})
	removed, err := s.RemoveBefore(3 * testSize)
	require.ErrorIs(t, err, errInjected)
	require.Len(t, removed, 1)
	require.Equal(t, []int64{testSize, 2 * testSize, 3 * testSize}, bases(s))
	f := s.Acquire(testSize)
	require.NotNil(t, f, "what could not be removed still serves")
	f.Unpin()
	fsys.set(nil)
	removed, err = s.RemoveBefore(3 * testSize)
	require.NoError(t, err)
	require.Len(t, removed, 2)
}

func TestCheckInPlace(t *testing.T) {
	s := openIn(t, t.TempDir(), Config{})
	fill(t, s, 2)
	require.NoError(t, s.CheckInPlace())
	if !mmap.UnlinkMapped {
		t.Skip("nobody can remove a mapped file here")
	}
	path := s.Last().Path()
	require.NoError(t, os.Rename(path, path+".away"))
	require.ErrorIs(t, s.CheckInPlace(), ErrMoved, "gone")
	makeEntry(t, path, testSize)
	err := s.CheckInPlace()
	var moved *MovedError
	require.ErrorAs(t, err, &moved, "another file in its place")
	require.Equal(t, path, moved.Path)
	require.NoError(t, os.Rename(path+".away", path))
	require.NoError(t, s.CheckInPlace())
}

func TestSyncTouchesOnlyFilesOfTheRange(t *testing.T) {
	fsys := newFailFS()
	s := openIn(t, t.TempDir(), Config{FS: fsys})
	fill(t, s, 3)
	for _, tc := range []struct {
		from, to int64
		files    int
	}{{0, 0, 0}, {0, 1, 1}, {testSize, 2 * testSize, 1}, {testSize - 1, testSize + 1, 2}, {0, 99 * testSize, 3}} {
		fsys.set(nil)
		require.NoError(t, s.Sync(tc.from, tc.to))
		require.Len(t, fsys.did(), tc.files, tc)
	}
	fsys.failNth(1, false, errInjected)
	require.ErrorIs(t, s.Sync(0, 1), errInjected)
}

func TestClose(t *testing.T) {
	s := openIn(t, t.TempDir(), Config{})
	fill(t, s, 2)
	f := s.Acquire(0)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.Equal(t, pattern(0), f.Bytes()[0], "a pin outlives Close")
	require.False(t, f.Pin())
	f.Unpin()
	require.Nil(t, s.Acquire(0))
	_, err := s.Create(2 * testSize)
	require.ErrorIs(t, err, ErrClosed)
	_, _, err = s.CutAfter(0, false)
	require.ErrorIs(t, err, ErrClosed)
}
