package mmap

import (
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// guarded runs fn under the guard of m.
func guarded(m *Mapping, fn func()) (err error) {
	defer m.Catch(debug.SetPanicOnFault(true), &err)
	fn()
	return nil
}

// cut shortens the file under its mapping, as somebody else could.
func cut(t *testing.T, f *os.File, size int64) {
	t.Helper()
	needFaults(t)
	require.NoError(t, os.Truncate(f.Name(), size))
}

// needFaults skips a test where no fault can be provoked or attributed.
func needFaults(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("Windows refuses to shorten a mapped file")
	}
	if emulated(t) {
		t.Skip("this emulator does not tell the address of a fault")
	}
}

// emulated tells whether the address of a fault is lost, as it is in user-mode emulation of ARM by qemu.
func emulated(t *testing.T) (lost bool) {
	t.Helper()
	m, f := newMapping(t, 1<<20)
	require.NoError(t, f.Truncate(0))
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		_, ok := recover().(interface{ Addr() uintptr })
		lost = !ok
	}()
	m.Bytes()[0] = 1
	return false
}

func TestFaultBecomesAnError(t *testing.T) {
	m, f := newMapping(t, 1<<20)
	page := os.Getpagesize()
	cut(t, f, int64(page))
	var sink byte
	dst := make([]byte, 8192)
	for name, access := range map[string]func(){
		"load":  func() { sink = m.Bytes()[5*page+1] },
		"store": func() { m.Bytes()[5*page+1] = 1 },
		"copy":  func() { copy(dst, m.Bytes()[5*page+1:]) },
	} {
		err := guarded(m, access)
		require.ErrorIs(t, err, ErrFault, name)
		var fault *FaultError
		require.ErrorAs(t, err, &fault, name)
		require.Contains(t, []int64{5, 6, 7}, fault.Offset/int64(page), "%s: a page of the access", name)
		require.Equal(t, f.Name(), fault.Path)
	}
	require.NoError(t, guarded(m, func() { sink = m.Bytes()[page-1] }), "what is left of the file")
	_ = sink
}

func TestOtherPanicsPassUnchanged(t *testing.T) {
	m, _ := newMapping(t, 4096)
	own := errors.New("own")
	require.PanicsWithValue(t, own, func() { _ = guarded(m, func() { panic(own) }) })
	require.PanicsWithValue(t, "text", func() { _ = guarded(m, func() { panic("text") }) })
	require.Panics(t, func() {
		var p *FaultError
		_ = guarded(m, func() { p.Offset = 1 })
	}, "a nil pointer of the code under the guard")
	require.Panics(t, func() { _ = guarded(m, func() { _ = m.Bytes()[len(m.Bytes())] }) }, "an index out of range")
}

func TestNestedGuardsClaimTheirOwnFaults(t *testing.T) {
	outer, f := newMapping(t, 1<<20)
	inner, _ := newMapping(t, 1<<20)
	cut(t, f, 0)
	innerReturned := false
	err := guarded(outer, func() {
		_ = guarded(inner, func() { inner.Bytes()[0] = outer.Bytes()[0] })
		innerReturned = true
	})
	require.ErrorIs(t, err, ErrFault)
	require.False(t, innerReturned, "the inner guard swallowed a fault of the outer mapping")
}

func TestGuardRestoresTheSetting(t *testing.T) {
	m, f := newMapping(t, 1<<20)
	cut(t, f, 0)
	require.NoError(t, guarded(m, func() {}))
	require.False(t, debug.SetPanicOnFault(false), "after no fault")
	require.Error(t, guarded(m, func() { m.Bytes()[0] = 1 }))
	require.False(t, debug.SetPanicOnFault(false), "after a fault")
	debug.SetPanicOnFault(true)
	require.NoError(t, guarded(m, func() {}))
	require.True(t, debug.SetPanicOnFault(false), "of a caller who had set it")
}

func TestLocksAreFreeAfterAFault(t *testing.T) {
	m, f := newMapping(t, 1<<20)
	cut(t, f, 0)
	var mu sync.Mutex
	store := func() (err error) {
		mu.Lock()
		defer mu.Unlock()
		defer m.Catch(debug.SetPanicOnFault(true), &err)
		copy(m.Bytes(), "record")
		return nil
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if err := store(); !errors.Is(err, ErrFault) {
					t.Errorf("store: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func TestGuardDoesNotAllocate(t *testing.T) {
	m, _ := newMapping(t, 4096)
	var err error
	access := func() (err error) {
		defer m.Catch(debug.SetPanicOnFault(true), &err)
		m.Bytes()[7]++
		return nil
	}
	require.Zero(t, testing.AllocsPerRun(1000, func() { err = access() }))
	require.NoError(t, err)
}

func TestQuarantineMakesUseAfterUnmapVisible(t *testing.T) {
	release := Quarantine()
	defer func() { require.NoError(t, release()) }()
	f := newFile(t, 1<<20)
	old, err := Map(f, 1<<20)
	require.NoError(t, err)
	stale := old.Bytes()
	require.NoError(t, old.Unmap())
	next, err := Map(f, 1<<20)
	require.NoError(t, err)
	defer func() { require.NoError(t, next.Unmap()) }()
	require.NotSame(t, &stale[0], &next.Bytes()[0], "the address was handed out again")
	var sink byte
	require.Panics(t, func() { _ = guarded(next, func() { sink = stale[0] }) }, "and no guard hides it")
	require.Panics(t, func() { _ = guarded(old, func() { sink = stale[0] }) })
	_ = sink
}

// TestQuarantineLeavesMappings: a process may have 65,530 mappings by default on Linux, and a test may end more.
func TestQuarantineLeavesMappings(t *testing.T) {
	release := Quarantine()
	defer func() { require.NoError(t, release()) }()
	page := os.Getpagesize()
	f := newFile(t, int64(page))
	for range 70_000 {
		m, err := Map(f, int64(page))
		require.NoError(t, err)
		require.NoError(t, m.Unmap())
	}
}

func BenchmarkGuardedCopy(b *testing.B) {
	f, err := os.CreateTemp(b.TempDir(), "")
	require.NoError(b, err)
	defer f.Close()
	require.NoError(b, f.Truncate(1<<20))
	m, err := Map(f, 1<<20)
	require.NoError(b, err)
	defer func() { require.NoError(b, m.Unmap()) }()
	src := make([]byte, 1024)
	access := func() (err error) {
		defer m.Catch(debug.SetPanicOnFault(true), &err)
		copy(m.Bytes(), src)
		return nil
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := access(); err != nil {
			b.Fatal(err)
		}
	}
}
