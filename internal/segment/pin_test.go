package segment

import (
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

// Readers pick random offsets while a writer makes files and removes old ones as fast as it can. A reader must see
// the pattern of the file it asked for and nothing else. The quarantine turns a use after unmap into a crash.
func TestReadersNeverSeeAnotherFile(t *testing.T) {
	release := mmap.Quarantine()
	defer func() { require.NoError(t, release()) }()
	s := openIn(t, t.TempDir(), Config{})
	fill(t, s, 4)
	var stop atomic.Bool
	var reads atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true) // also when the test has failed: nobody may meet a list that its end has closed
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				first, last := s.First(), s.Last()
				off := first.Base() + rand.Int64N(last.End()-first.Base())
				f := s.Acquire(off)
				if f == nil {
					continue // removed meanwhile
				}
				if got := readByte(t, f, off); off < last.Base() && got != pattern(f.Base()) {
					t.Errorf("offset %d holds %d, expected %d", off, got, pattern(f.Base()))
				}
				f.Unpin()
				reads.Add(1)
			}
		})
	}
	for range 200 {
		fill(t, s, 1)
		_, err := s.RemoveBefore(s.Last().Base() - 2*testSize)
		require.NoError(t, err)
	}
	stop.Store(true)
	wg.Wait()
	require.Positive(t, reads.Load())
}

func readByte(t *testing.T, f *File, off int64) (c byte) {
	var err error
	defer func() {
		if err != nil {
			t.Error(err)
		}
	}()
	defer f.Catch(debug.SetPanicOnFault(true), &err)
	return f.Bytes()[off-f.Base()]
}

func TestPinKeepsARemovedFile(t *testing.T) {
	s := openIn(t, t.TempDir(), Config{})
	fill(t, s, 3)
	live := mmap.Live()
	f := s.Acquire(0)
	require.True(t, f.Pin(), "a second pin")
	_, err := s.RemoveBefore(testSize)
	require.NoError(t, err)
	if mmap.UnlinkMapped {
		require.NoFileExists(t, f.Path())
	}
	require.False(t, f.Pin(), "no new pin after it left the list")
	require.Equal(t, pattern(0), f.Bytes()[testSize-1])
	f.Unpin()
	require.Equal(t, pattern(0), f.Bytes()[0])
	require.Equal(t, live, mmap.Live())
	f.Unpin()
	require.Equal(t, live-1, mmap.Live(), "unmapped with the last pin")
	require.NoFileExists(t, f.Path())
	require.False(t, f.Pin())
	require.Panics(t, func() { f.Bytes() })
	require.Panics(t, func() { f.Unpin() })
}

func TestUnpinWithoutPinPanics(t *testing.T) {
	s := openIn(t, t.TempDir(), Config{})
	fill(t, s, 1)
	f := s.First()
	require.Panics(t, func() { f.Bytes() })
	require.Panics(t, func() { f.Unpin() })
	f.state.Store(mapped) // the list of this test goes on
}

func TestReleaseHappensExactlyOnce(t *testing.T) {
	for range 40 {
		s := openIn(t, t.TempDir(), Config{FileSize: 4096})
		_, err := s.Create(0)
		require.NoError(t, err)
		f := s.First()
		live := mmap.Live()
		start := make(chan struct{})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				<-start
				for f.Pin() {
					f.Unpin()
				}
			})
		}
		wg.Go(func() { <-start; s.Close() })
		close(start)
		wg.Wait()
		require.Equal(t, live-1, mmap.Live())
	}
}

func TestFaultInASegmentIsAnError(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows refuses to shorten a mapped file")
	}
	if testing.Short() {
		t.Skip("the short run is for emulators, and they do not tell the address of a fault")
	}
	s := openIn(t, t.TempDir(), Config{})
	fill(t, s, 2)
	require.NoError(t, os.Truncate(s.First().Path(), 0))
	read := func(off int64) (c byte, err error) {
		f := s.Acquire(off)
		defer f.Unpin()
		defer f.Catch(debug.SetPanicOnFault(true), &err)
		return f.Bytes()[off-f.Base()], nil
	}
	_, err := read(5000)
	require.ErrorIs(t, err, ErrFault)
	var fault *mmap.FaultError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, s.First().Path(), fault.Path)
	c, err := read(testSize)
	require.NoError(t, err, "the other file still serves")
	require.Equal(t, pattern(testSize), c)

	f := s.Acquire(0)
	defer f.Unpin()
	require.PanicsWithValue(t, "mine", func() {
		var err error
		defer f.Catch(debug.SetPanicOnFault(true), &err)
		panic("mine")
	})
	_, _, err = s.CutAfter(100, false)
	require.Error(t, err, "a cut of a file that became shorter says so")
}

func TestAcquireAndGuardDoNotAllocate(t *testing.T) {
	s := openIn(t, t.TempDir(), Config{})
	fill(t, s, 3)
	var sink byte
	read := func() (err error) {
		f := s.Acquire(testSize + 5)
		defer f.Unpin()
		defer f.Catch(debug.SetPanicOnFault(true), &err)
		sink = f.Bytes()[5]
		return nil
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = read() }))
	require.Equal(t, pattern(testSize), sink)
}

func BenchmarkAcquireUnpin(b *testing.B) {
	s, err := Open(Config{Dir: b.TempDir(), FileSize: testSize})
	require.NoError(b, err)
	defer s.Close()
	for i := range int64(8) {
		_, err := s.Create(i * testSize)
		require.NoError(b, err)
	}
	for b.Loop() {
		s.Acquire(5*testSize + 1).Unpin()
	}
}
