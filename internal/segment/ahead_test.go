package segment

import (
	"context"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

// A writer that follows the rules, storing through the mapping over several files, never meets an unprepared byte.
func TestAheadServesAWriter(t *testing.T) {
	for _, populate := range []bool{false, true} {
		s := openIn(t, t.TempDir(), Config{Step: 4096})
		a := s.StartAhead(0, AheadConfig{Window: 32 << 10, Populate: populate})
		pos := int64(0)
		for pos < 10*testSize {
			n := min(1000, testSize-pos%testSize) // a record stays in its file
			if a.Ready() < pos+n {
				require.NoError(t, a.Wait(t.Context(), pos+n))
			}
			require.GreaterOrEqual(t, a.Ready(), pos+n)
			require.NoError(t, store(s, pos, n))
			pos += n
			a.Advance(pos)
			if pos%9000 == 0 {
				a.Renew()
			}
		}
		require.NoError(t, a.Close())
		require.NoError(t, a.Close())
		require.LessOrEqual(t, s.Last().Base(), pos, "what was never reached is removed")
		require.Equal(t, int64(10), int64(len(s.Snapshot())))
		for _, f := range s.Snapshot() {
			require.True(t, f.Pin())
			require.Zero(t, f.Size()-int64(lastNonZero(f.Bytes())))
			f.Unpin()
		}
		require.NoError(t, s.Close())
	}
}

// store fills n bytes at pos the way the log does.
func store(s *Files, pos, n int64) (err error) {
	f := s.Acquire(pos)
	defer f.Unpin()
	defer f.Catch(debug.SetPanicOnFault(true), &err)
	if f.Base()+f.Allocated() < pos+n {
		return ErrBadOffset
	}
	b := f.Bytes()[pos-f.Base():][:n]
	for i := range b {
		b[i] = 1
	}
	return nil
}

func TestAheadCrossesIntoTheNextFile(t *testing.T) {
	s := openIn(t, t.TempDir(), Config{Step: 4096})
	fill(t, s, 1)
	a := s.StartAhead(testSize-100, AheadConfig{Window: 8 << 10})
	require.NoError(t, a.Wait(t.Context(), testSize+1))
	require.Equal(t, []int64{0, testSize}, bases(s))
	require.NoError(t, a.Close())
	require.Equal(t, []int64{0}, bases(s), "made ahead, never written")
	require.NoFileExists(t, s.Dir()+"/"+FileName(testSize))
}

func TestAheadKeepsWhatItDidNotMakeOrTheWriterReached(t *testing.T) {
	s := openIn(t, t.TempDir(), Config{})
	fill(t, s, 2)
	a := s.StartAhead(testSize, AheadConfig{})
	require.NoError(t, a.Wait(t.Context(), testSize+10))
	require.NoError(t, a.Close())
	require.Equal(t, []int64{0, testSize}, bases(s), "an empty file that was there before")

	a = s.StartAhead(2*testSize, AheadConfig{})
	require.NoError(t, a.Wait(t.Context(), 2*testSize+10))
	a.Advance(2*testSize + 10)
	require.NoError(t, a.Close())
	require.Equal(t, []int64{0, testSize, 2 * testSize}, bases(s))
}

func TestAheadStartsInAnEmptyList(t *testing.T) {
	s := openIn(t, t.TempDir(), Config{})
	a := s.StartAhead(3*testSize+5, AheadConfig{Window: 1})
	require.NoError(t, a.Wait(t.Context(), 3*testSize+6))
	require.Equal(t, []int64{3 * testSize}, bases(s))
	require.NoError(t, a.Close())
}

func TestAheadWaitEnds(t *testing.T) {
	fsys := newFailFS()
	s := openIn(t, t.TempDir(), Config{FS: fsys})
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fsys.set(func(op, path string) error {
		if op == "allocate" {
			once.Do(func() { close(entered) })
			<-leave
		}
		return nil
	})
	a := s.StartAhead(0, AheadConfig{})
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, a.Wait(ctx, 1), context.Canceled, "a stuck disk does not hold the caller")
	close(leave)
	require.NoError(t, a.Wait(t.Context(), 1))
	require.NoError(t, a.Wait(ctx, 1), "nothing to wait for")
	require.NoError(t, a.Close())
	require.ErrorIs(t, a.Wait(t.Context(), 1<<40), ErrClosed)
}

func TestAheadResumesWhenThereIsSpaceAgain(t *testing.T) {
	fsys := newFailFS()
	s := openIn(t, t.TempDir(), Config{FS: fsys, Step: pageSize()})
	a := s.StartAhead(0, AheadConfig{Window: 2 * pageSize()})
	require.NoError(t, a.Wait(t.Context(), 1))
	fsys.set(full)
	beyond := int64(testSize / 2)
	for range 3 {
		require.ErrorIs(t, a.Wait(t.Context(), beyond), ErrNoSpace)
	}
	require.NoError(t, a.Wait(t.Context(), 1), "the space that is there can be used")
	fsys.set(nil)
	require.NoError(t, a.Wait(t.Context(), beyond), "not sticky")
	require.NoError(t, a.Close())
}

func TestAheadKeepsFarFailuresToItself(t *testing.T) {
	fsys := newFailFS()
	s := openIn(t, t.TempDir(), Config{FS: fsys, Step: pageSize()})
	fsys.set(func(op, path string) error {
		if op == "create" && path != s.Dir()+"/"+FileName(0) {
			return mmap.ErrNoSpace
		}
		return nil
	})
	a := s.StartAhead(0, AheadConfig{Window: 2 * testSize})
	for pos := int64(0); pos < testSize; pos += 512 {
		require.NoError(t, a.Wait(t.Context(), pos+512))
		a.Advance(pos + 512)
	}
	require.ErrorIs(t, a.Wait(t.Context(), testSize+1), ErrNoSpace, "now it is needed")
	fsys.set(nil)
	require.NoError(t, a.Wait(t.Context(), testSize+1))
	require.NoError(t, a.Close())
}

func TestAheadOnAFullDiskForReal(t *testing.T) {
	s := openIn(t, tinyDisk(t, "1m"), Config{FileSize: 256 << 10, Step: 64 << 10})
	a := s.StartAhead(0, AheadConfig{Window: 128 << 10})
	pos, err := int64(0), error(nil)
	for err == nil {
		if err = a.Wait(t.Context(), pos+4096); err == nil {
			require.NoError(t, store(s, pos, 4096))
			pos += 4096
			a.Advance(pos)
		}
	}
	require.ErrorIs(t, err, ErrNoSpace)
	require.Greater(t, pos, int64(512<<10))
	_, err = s.RemoveBefore(256 << 10)
	require.NoError(t, err)
	require.NoError(t, a.Wait(t.Context(), pos+4096), "retention made room")
	require.NoError(t, store(s, pos, 4096))
	require.NoError(t, a.Close())
}

func TestFilesCloseEndsTheAhead(t *testing.T) {
	s := openIn(t, t.TempDir(), Config{})
	a := s.StartAhead(0, AheadConfig{Window: 3 * testSize})
	require.NoError(t, a.Wait(t.Context(), 1))
	require.NoError(t, s.Close())
	require.ErrorIs(t, a.Wait(t.Context(), 1<<40), ErrClosed)
	require.NoError(t, a.Close())
}

func TestAdvanceDoesNotAllocate(t *testing.T) {
	s := openIn(t, t.TempDir(), Config{FileSize: 1 << 20})
	a := s.StartAhead(0, AheadConfig{Window: 1 << 20})
	defer a.Close()
	require.NoError(t, a.Wait(t.Context(), 1<<20))
	pos := int64(0)
	require.Zero(t, testing.AllocsPerRun(100, func() { pos += 16; a.Advance(pos) }))
}

func BenchmarkAdvance(b *testing.B) {
	s, err := Open(Config{Dir: b.TempDir(), FileSize: 1 << 20})
	require.NoError(b, err)
	defer s.Close()
	a := s.StartAhead(0, AheadConfig{Window: 1 << 20})
	defer a.Close()
	require.NoError(b, a.Wait(b.Context(), 1<<20))
	for b.Loop() {
		a.Advance(100)
	}
}

// TestAheadPreparesAsMuchAsTheWriterNeeds: what is prepared is dirty and will be written by the next sync, so a writer of
// a few bytes between two syncs must not pay for the window of a fast one.
func TestAheadPreparesAsMuchAsTheWriterNeeds(t *testing.T) {
	const window = 4 << 20
	s := openIn(t, t.TempDir(), Config{FileSize: 32 << 20, Step: 1 << 20})
	a := s.StartAhead(0, AheadConfig{Window: window, Populate: true})
	pos := int64(0)
	write := func(n int64) {
		pos += n
		require.NoError(t, a.Wait(t.Context(), pos))
		a.Advance(pos)
	}
	for range 5 {
		write(100)
		a.Renew()
	}
	require.LessOrEqual(t, a.Ready(), int64(4*minSpan), "for a slow writer")
	for a.Ready() < pos+window/2 { // for a writer that is always faster
		write(64 << 10)
		require.NoError(t, a.Wait(t.Context(), a.Ready()+1))
		require.Less(t, pos, int64(24<<20))
	}
	require.NoError(t, a.Close())
}

// TestAheadAsksBeforeEachFile: a refusal is the error of who waits for that file, and of nobody else.
func TestAheadAsksBeforeEachFile(t *testing.T) {
	s := openIn(t, t.TempDir(), Config{})
	var mu sync.Mutex
	allowed := 1
	a := s.StartAhead(0, AheadConfig{Window: 8 << 10, Permit: func() error {
		mu.Lock()
		defer mu.Unlock()
		if allowed == 0 {
			return ErrNoSpace
		}
		allowed--
		return nil
	}})
	require.NoError(t, a.Wait(t.Context(), testSize))
	a.Advance(testSize - 10)
	require.ErrorIs(t, a.Wait(t.Context(), testSize+10), ErrNoSpace)
	require.Len(t, s.Snapshot(), 1)
	mu.Lock()
	allowed = 1
	mu.Unlock()
	require.NoError(t, a.Wait(t.Context(), testSize+10))
	require.NoError(t, a.Close())
}
