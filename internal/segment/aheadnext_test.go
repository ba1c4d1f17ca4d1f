package segment

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// heldFS makes who creates the file at path wait until gate is closed. Then the first attempt fails if fail is set.
type heldFS struct {
	FS
	path string
	gate chan struct{}
	fail atomic.Bool
}

func (f *heldFS) CreateSized(path string, perm os.FileMode, size int64) (Handle, error) {
	if path == f.path {
		<-f.gate
		if f.fail.Swap(false) {
			return nil, errInjected
		}
	}
	return f.FS.CreateSized(path, perm, size)
}

// TestAheadFillsWhileTheNextFileIsMade: the writer gets the rest of its file meanwhile, and what lies behind that when
// the file is there. An attempt that failed is nobody's, and who needs the file makes another one.
func TestAheadFillsWhileTheNextFileIsMade(t *testing.T) {
	for name, failed := range map[string]error{"made": nil, "failed": errInjected} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				fsys := &heldFS{FS: OS, path: filepath.Join(dir, "seg", FileName(testSize)), gate: make(chan struct{})}
				fsys.fail.Store(failed != nil)
				s := openIn(t, dir, Config{FS: fsys, Step: 4096})
				a := s.StartAhead(0, AheadConfig{Window: 4 << 10})
				require.NoError(t, a.Wait(t.Context(), testSize/2))
				a.Advance(testSize / 2) // here the next one is due
				synctest.Wait()
				require.NoError(t, a.Wait(t.Context(), testSize))
				a.Advance(testSize)
				behind := await(t, a, testSize+1)
				require.Empty(t, behind)
				require.Equal(t, []int64{0}, bases(s))
				close(fsys.gate)
				if err := <-behind; err != nil { // if that attempt was for it, and not far ahead of need
					require.ErrorIs(t, err, failed)
				}
				require.NoError(t, a.Wait(t.Context(), testSize+1))
				require.NoError(t, a.Close())
				require.Equal(t, []int64{0, testSize}[:len(bases(s))], bases(s))
			})
		})
	}
}

// TestAheadClosesWhileTheNextFileIsMade: what comes of it is removed.
func TestAheadClosesWhileTheNextFileIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		fsys := &heldFS{FS: OS, path: filepath.Join(dir, "seg", FileName(testSize)), gate: make(chan struct{})}
		s := openIn(t, dir, Config{FS: fsys, Step: 4096})
		a := s.StartAhead(0, AheadConfig{Window: 4 << 10})
		require.NoError(t, a.Wait(t.Context(), testSize/2))
		a.Advance(testSize / 2)
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- a.Close() }()
		synctest.Wait()
		require.Empty(t, closed)
		close(fsys.gate)
		require.NoError(t, <-closed)
		require.Equal(t, []int64{0}, bases(s))
		require.NoFileExists(t, fsys.path)
	})
}
