package segment

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

// cached opens a list under a limit and fills n files.
func cached(t *testing.T, limit, n int, cfg Config) *Files {
	t.Helper()
	if cfg.Cache == nil {
		cfg.Cache = NewCache(limit, 1<<40)
	}
	s := openIn(t, t.TempDir(), cfg)
	fill(t, s, n)
	return s
}

// sharing opens lists under one limit, and checks at the end of the test that no mapping is left.
func sharing(t *testing.T, lists, n int, cfg Config) []*Files {
	t.Helper()
	before := mmap.Live()
	files := make([]*Files, lists)
	for i := range files {
		var err error
		cfg.Dir, cfg.FileSize = filepath.Join(t.TempDir(), "seg"), testSize
		files[i], err = Open(cfg)
		require.NoError(t, err)
		fill(t, files[i], n)
	}
	t.Cleanup(func() {
		for _, s := range files {
			require.NoError(t, s.Close())
		}
		require.Equal(t, before, mmap.Live(), "mappings left")
		require.Zero(t, cfg.Cache.Len())
	})
	return files
}

// mappedBases returns where the files of s start that are mapped.
func mappedBases(s *Files) []int64 {
	var out []int64
	for _, f := range s.Snapshot() {
		if f.state.Load()&mapped != 0 {
			out = append(out, f.base/testSize)
		}
	}
	return out
}

// use pins the i-th file for a moment and looks at its bytes.
func use(t *testing.T, s *Files, i int64) {
	t.Helper()
	f := s.Acquire(i * testSize)
	require.Equal(t, pattern(f.Base()), readByte(t, f, f.Base()))
	f.Unpin()
}

func TestCacheKeepsItsLimit(t *testing.T) {
	live := mmap.Live()
	s := cached(t, 3, 8, Config{})
	require.LessOrEqual(t, mmap.Live()-live, int64(3), "also files that were just made")
	for range 3 {
		for i := range int64(8) {
			use(t, s, i)
			require.LessOrEqual(t, mmap.Live()-live, int64(3))
			require.Equal(t, int64(s.cache.Len()), mmap.Live()-live)
		}
	}
	require.NoError(t, s.Sync(0, 8*testSize))
	require.LessOrEqual(t, mmap.Live()-live, int64(3))
}

func TestCacheBoundsBytes(t *testing.T) {
	live := mmap.Live()
	s := cached(t, 0, 8, Config{Cache: NewCache(100, 4*testSize+1)})
	for i := range int64(8) {
		use(t, s, i)
		require.LessOrEqual(t, mmap.Live()-live, int64(4))
	}
}

func TestCacheKeepsWhatIsUsed(t *testing.T) {
	s := cached(t, 4, 12, Config{})
	require.NoError(t, s.Sync(0, 12*testSize))
	for i := range int64(12) {
		use(t, s, i)
		use(t, s, 0)
		require.Contains(t, mappedBases(s), int64(0), "used again before each other")
	}
}

func TestCacheNeverClosesWhatIsPinned(t *testing.T) {
	s := cached(t, 2, 6, Config{})
	var pins []*File
	for i := range int64(6) {
		pins = append(pins, s.Acquire(i*testSize))
	}
	require.Equal(t, 6, s.cache.Len(), "the limit gives way")
	for _, f := range pins {
		require.Equal(t, pattern(f.Base()), readByte(t, f, f.Base()))
		f.Unpin()
	}
	f := s.Acquire(0)
	defer f.Unpin()
	require.NoError(t, s.Close()) // whatever is left
	require.Equal(t, pattern(0), readByte(t, f, 0))
	require.Equal(t, 1, s.cache.Len())
}

// TestCacheSyncsBeforeItCloses what was written, prefers what was not, and the file
// answers for a sync that failed.
func TestCacheSyncsBeforeItCloses(t *testing.T) {
	fsys := newFailFS()
	s := cached(t, 3, 6, Config{FS: fsys})
	require.NoError(t, s.Sync(0, 6*testSize))
	for i := range int64(3) {
		use(t, s, i)
	}
	dirty := s.Acquire(testSize)
	dirty.Bytes()[7] = 42
	dirty.MarkDirty()
	dirty.Unpin()
	fsys.set(nil)
	use(t, s, 3)
	use(t, s, 4)
	require.NotContains(t, fsys.did(), "sync")
	require.Contains(t, mappedBases(s), int64(1), "another went")

	a, b := s.Acquire(3*testSize), s.Acquire(4*testSize)
	fsys.set(func(op, path string) error {
		if op == "sync" && path == dirty.Path() {
			return errInjected
		}
		return nil
	})
	use(t, s, 5)
	require.Contains(t, fsys.did(), "sync")
	require.NotContains(t, mappedBases(s), int64(1))
	a.Unpin()
	b.Unpin()
	fsys.set(nil)
	require.ErrorIs(t, s.Sync(testSize, testSize+1), errInjected, "final: its pages may count as written")
	require.ErrorIs(t, s.Sync(0, 6*testSize), errInjected)
	require.NoError(t, s.Sync(2*testSize, 3*testSize))
	use(t, s, 1)
}

// TestSyncOfAClosedFileOpensItOnlyIfNeedBe: the Cache has synced it.
func TestSyncOfAClosedFileOpensItOnlyIfNeedBe(t *testing.T) {
	fsys := newFailFS()
	dir := t.TempDir()
	s := openIn(t, dir, Config{FS: fsys, Cache: NewCache(1, 1<<40)})
	fill(t, s, 2)
	fsys.set(nil)
	require.NoError(t, s.Sync(0, testSize))
	require.Empty(t, fsys.did())
	require.NoError(t, s.Close())

	s = openIn(t, dir, Config{FS: fsys, Cache: NewCache(1, 1<<40)})
	fsys.set(nil)
	require.NoError(t, s.Sync(0, testSize), "who wrote it before may have died before a sync")
	require.Contains(t, fsys.did(), "sync")
}

func TestFileThatCanNotBeOpened(t *testing.T) {
	fsys := newFailFS()
	s := cached(t, 1, 2, Config{FS: fsys})
	for _, op := range []string{"open", "size", "map"} {
		use(t, s, 1)
		live := mmap.Live()
		fsys.set(func(o, _ string) error {
			if o == op {
				return errInjected
			}
			return nil
		})
		f := s.Acquire(0)
		require.NotNil(t, f)
		require.ErrorIs(t, load(f), errInjected)
		_, err := f.ReadAt(make([]byte, 1), 0)
		require.ErrorIs(t, err, errInjected)
		_, err = f.WriteAt(make([]byte, 1), 0)
		require.ErrorIs(t, err, errInjected)
		_, err = f.DataEnd()
		require.ErrorIs(t, err, errInjected)
		for _, err := range []error{f.Sync(), f.Populate(0, 1), f.Drop(0, 1), f.CheckInPlace(), s.Sync(0, 1)} {
			require.ErrorIs(t, err, errInjected)
		}
		require.LessOrEqual(t, mmap.Live(), live)
		fsys.set(nil)
		require.True(t, f.Pin())
		require.ErrorIs(t, load(f), errInjected, "as long as it is pinned")
		f.Unpin()
		f.Unpin()
		use(t, s, 0)
	}
	fsys.set(func(op, _ string) error { return errInjected })
	use(t, s, 0)
	f := s.Acquire(testSize)
	require.NoError(t, s.Close())
	require.ErrorIs(t, load(f), errInjected)
	f.Unpin()
	require.Zero(t, s.cache.Len())
}

// load reads the first byte of f.
func load(f *File) (err error) {
	defer f.Catch(debug.SetPanicOnFault(true), &err)
	_ = f.Bytes()[0]
	return nil
}

// TestClosedFileThatChanged: when a file is opened again, it must be the one that
// was closed.
func TestClosedFileThatChanged(t *testing.T) {
	if !mmap.UnlinkMapped {
		t.Skip("nobody can tell here")
	}
	for name, change := range map[string]struct {
		do   func(path string) error
		want error
	}{
		"removed": {os.Remove, ErrMoved},
		"replaced": {func(path string) error {
			if err := os.Rename(path, path+".old"); err != nil { // kept, so that its inode is not used again
				return err
			}
			return os.WriteFile(path, make([]byte, testSize), 0o600)
		}, ErrMoved},
		"shorter": {func(path string) error { return os.Truncate(path, 5) }, ErrFileSize},
	} {
		t.Run(name, func(t *testing.T) {
			s := cached(t, 1, 3, Config{})
			path := s.First().Path()
			use(t, s, 2)
			require.NoError(t, change.do(path))
			f := s.Acquire(0)
			require.ErrorIs(t, load(f), change.want)
			require.ErrorContains(t, load(f), path)
			f.Unpin()
			require.ErrorIs(t, s.CheckInPlace(), change.want, "the first file is looked at")
		})
	}
}

func TestRemoveOfAFileThatIsNotMapped(t *testing.T) {
	fsys := newFailFS()
	s := cached(t, 1, 4, Config{FS: fsys})
	use(t, s, 3)
	fsys.set(nil)
	_, err := s.RemoveBefore(3 * testSize)
	require.NoError(t, err)
	require.Equal(t, []string{"remove", "remove", "remove", "syncdir"}, fsys.did())
	require.Equal(t, 1, s.cache.Len())
}

func TestAheadHoldsItsFiles(t *testing.T) {
	c := NewCache(1, 1<<40)
	lists := sharing(t, 2, 0, Config{Cache: c})
	s, other := lists[0], lists[1]
	fill(t, other, 3)
	a := s.StartAhead(0, AheadConfig{Window: testSize + 4096})
	require.NoError(t, a.Wait(t.Context(), testSize+1))
	for i := range int64(3) {
		use(t, other, i)
		require.Equal(t, []int64{0, 1}, mappedBases(s), "the writer never waits for one to be opened")
	}
	a.Advance(testSize + 10)
	require.NoError(t, a.Wait(t.Context(), 2*testSize+1))
	for i := range int64(3) {
		use(t, other, i)
	}
	require.Equal(t, []int64{1, 2}, mappedBases(s))
	require.NoError(t, a.Close())
	require.Equal(t, []int64{0, testSize}, bases(s))
}

func TestFirstStepAndDoubling(t *testing.T) {
	page := pageSize()
	s := openIn(t, t.TempDir(), Config{FileSize: 40 * page, FirstStep: 1, Step: 8 * page})
	f, err := s.Create(0)
	require.NoError(t, err)
	require.True(t, f.Pin())
	defer f.Unpin()
	require.Equal(t, page, f.Allocated())
	for _, want := range []int64{2, 4, 8, 16, 24, 32, 40} {
		require.NoError(t, f.Prepare(f.Allocated()+1))
		require.Equal(t, want*page, f.Allocated())
	}
}

// TestReadersWhileFilesAreClosed: several lists share a small cache; readers meet
// the bytes of the file that they asked for, writers lose nothing, while files are
// opened, closed, synced, made and removed. The quarantine turns a use after unmap
// into a crash.
func TestReadersWhileFilesAreClosed(t *testing.T) {
	release := mmap.Quarantine()
	defer func() { require.NoError(t, release()) }()
	const limit, lists, workers = 4, 3, 6
	fsys := newFailFS()
	live := mmap.Live()
	c := NewCache(limit, 1<<40)
	files := sharing(t, lists, 4, Config{FS: fsys, Cache: c})
	var written [lists]atomic.Int64 // to the last byte of a file of each list, by one writer
	var stop atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true) // also when the test has failed: nobody may meet lists that its end has closed
	var reads, most atomic.Int64
	for range workers {
		wg.Go(func() {
			for !stop.Load() {
				s := files[rand.IntN(lists)]
				first, last := s.First(), s.Last()
				off := first.Base() + rand.Int64N(last.Base()-first.Base())
				f := s.Acquire(off)
				if f == nil {
					continue // removed meanwhile
				}
				if got := readByte(t, f, off); got != pattern(f.Base()) && off%testSize != testSize-1 {
					t.Errorf("offset %d holds %d, expected %d", off, got, pattern(f.Base()))
				}
				f.Unpin()
				most.Store(max(most.Load(), mmap.Live()-live))
				reads.Add(1)
			}
		})
	}
	wg.Go(func() {
		for !stop.Load() {
			for _, s := range files {
				if err := s.Sync(0, 1<<40); err != nil {
					t.Error(err)
				}
				if err := s.CheckInPlace(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for i := range 150 {
		s := files[i%lists]
		fill(t, s, 1)
		_, err := s.RemoveBefore(s.Last().Base() - 4*testSize)
		require.NoError(t, err)
		f := s.Last()
		require.True(t, f.Pin())
		f.Bytes()[testSize-1] = byte(i)
		f.MarkDirty()
		f.Unpin()
		written[i%lists].Store(int64(i))
		use(t, s, s.First().Base()/testSize)
	}
	stop.Store(true)
	wg.Wait()
	require.Positive(t, reads.Load())
	require.LessOrEqual(t, most.Load(), int64(limit+workers+4), "each worker may have one more")
	for i, s := range files {
		f := s.Last()
		require.True(t, f.Pin())
		require.Equal(t, byte(written[i].Load()), f.Bytes()[testSize-1])
		f.Unpin()
	}
}

// TestPinWhileRetired: pins, closings and the end of the list at once; each file is
// unmapped once.
func TestPinWhileRetired(t *testing.T) {
	for range 40 {
		live := mmap.Live()
		c := NewCache(1, 1<<40)
		s := openIn(t, t.TempDir(), Config{FileSize: 4096, Cache: c})
		for i := range int64(3) {
			_, err := s.Create(i * 4096)
			require.NoError(t, err)
		}
		start := make(chan struct{})
		var wg sync.WaitGroup
		for w := range int64(4) {
			wg.Go(func() {
				<-start
				for {
					f := s.Acquire((w % 3) * 4096)
					if f == nil {
						return
					}
					f.Unpin()
				}
			})
		}
		wg.Go(func() { <-start; _ = s.Close() })
		close(start)
		wg.Wait()
		require.Equal(t, live, mmap.Live())
		require.Zero(t, c.Len())
		require.FileExists(t, filepath.Join(s.Dir(), FileName(0)))
	}
}
