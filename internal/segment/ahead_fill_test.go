package segment

import (
	"os"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// gatedFS stops each write until the test lets it go on.
type gatedFS struct {
	FS
	writes chan int64 // where the write under way begins
	result chan error // what becomes of it
	opened chan struct{}
	open   func() // lets all writes pass
}

func newGatedFS() *gatedFS {
	opened := make(chan struct{})
	return &gatedFS{FS: OS, writes: make(chan int64), result: make(chan error), opened: opened, open: sync.OnceFunc(func() { close(opened) })}
}

func (g *gatedFS) Create(path string, perm os.FileMode) (Handle, error) {
	h, err := g.FS.Create(path, perm)
	return &gatedHandle{h, g}, err
}

func (g *gatedFS) CreateSized(path string, perm os.FileMode, size int64) (Handle, error) {
	h, err := g.FS.CreateSized(path, perm, size)
	return &gatedHandle{h, g}, err
}

type gatedHandle struct {
	Handle
	fs *gatedFS
}

func (h *gatedHandle) WriteAt(b []byte, off int64) (int, error) {
	select {
	case h.fs.writes <- off:
		select {
		case err := <-h.fs.result:
			if err != nil {
				n, _ := h.Handle.WriteAt(b[:len(b)/2], off)
				return n, err
			}
		case <-h.fs.opened:
		}
	case <-h.fs.opened:
	}
	return h.Handle.WriteAt(b, off)
}

// await calls Wait, and returns when it waits.
func await(t *testing.T, a *Ahead, upTo int64) (answer chan error) {
	t.Helper()
	answer = make(chan error, 1)
	go func() { answer <- a.Wait(t.Context(), upTo) }()
	synctest.Wait()
	return answer
}

// TestAheadAnswersEachPiece: who waits is told as soon as there is enough for it,
// though others wait for more, and came first. What is ready was filled.
func TestAheadAnswersEachPiece(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newGatedFS()
		s := openIn(t, t.TempDir(), Config{FS: fsys, FileSize: 8 << 20, Step: 1 << 20})
		a := s.StartAhead(0, AheadConfig{Window: 1 << 20, Populate: true})
		defer func() { require.NoError(t, a.Close()) }()
		defer fsys.open()
		wanted := []int64{5 << 20, 3 << 19, 100, 200 << 10, 3<<20 + 1}
		var answers []chan error
		require.Zero(t, <-fsys.writes)
		for _, upTo := range wanted {
			answers = append(answers, await(t, a, upTo))
		}
		fsys.result <- nil
		late := false
		for {
			var filled int64
			select {
			case filled = <-fsys.writes:
			case err := <-answers[0]: // the last of all
				require.NoError(t, err)
				require.GreaterOrEqual(t, a.Ready(), wanted[0])
				require.True(t, late)
				return
			}
			synctest.Wait()
			require.Equal(t, filled, a.Ready(), "all before is ready, and no more")
			for i, upTo := range wanted {
				if i > 0 {
					require.Len(t, answers[i], map[bool]int{true: 1}[upTo <= filled], "%d bytes, with %d filled", upTo, filled)
				}
			}
			if filled >= 2<<20 && !late { // for what is ready, and what comes next
				late = true
				require.NoError(t, <-await(t, a, 2<<20))
				wanted, answers = append(wanted, filled+5), append(answers, await(t, a, filled+5))
			}
			fsys.result <- nil
		}
	})
}

// TestAheadIsNotReadyWhereAWriteFailed: those who need it get the error, the others
// have what was filled before. The next attempt goes on there.
func TestAheadIsNotReadyWhereAWriteFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newGatedFS()
		s := openIn(t, t.TempDir(), Config{FS: fsys, FileSize: 8 << 20, Step: 1 << 20})
		a := s.StartAhead(0, AheadConfig{Window: 64 << 10, Populate: true})
		defer func() { require.NoError(t, a.Close()) }()
		defer fsys.open()
		require.Zero(t, <-fsys.writes)
		most, little := await(t, a, 4<<20), await(t, a, 1<<20)
		fsys.result <- nil
		filled := <-fsys.writes
		for ; filled < 2<<20; filled = <-fsys.writes {
			fsys.result <- nil
		}
		require.NoError(t, <-little)
		require.Equal(t, filled, a.Ready())
		fsys.result <- errInjected
		require.ErrorIs(t, <-most, errInjected)
		require.Equal(t, filled, a.Ready(), "half of it was filled")
		again := await(t, a, filled+1)
		require.Equal(t, filled, <-fsys.writes)
		fsys.result <- nil
		require.NoError(t, <-again)
		require.Greater(t, a.Ready(), filled)
	})
}
