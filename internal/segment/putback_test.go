package segment

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

func TestPutBack(t *testing.T) {
	if !mmap.UnlinkMapped {
		t.Skip("nobody can remove a mapped file here")
	}
	s := openIn(t, t.TempDir(), Config{})
	fill(t, s, 4)
	files := s.Snapshot()
	want := make([][]byte, len(files))
	for i, f := range files {
		var err error
		want[i], err = os.ReadFile(f.Path())
		require.NoError(t, err)
		require.NoError(t, os.Remove(f.Path()))
	}
	require.NoError(t, os.WriteFile(files[1].Path(), []byte("somebody's"), 0o600))
	want[1] = []byte("somebody's")

	back, err := s.PutBack(3 * testSize)
	require.NoError(t, err)
	require.Equal(t, []string{files[0].Path(), files[2].Path()}, back)
	for i, f := range files[:3] {
		got, err := os.ReadFile(f.Path())
		require.NoError(t, err)
		require.Equal(t, want[i], got, "file %d", i)
	}
	require.NoFileExists(t, files[3].Path(), "nothing was in it")

	back, err = s.PutBack(3 * testSize)
	require.NoError(t, err)
	require.Empty(t, back)
}

func TestPutBackFailsAtEachCall(t *testing.T) {
	if !mmap.UnlinkMapped {
		t.Skip("nobody can remove a mapped file here")
	}
	fsys := newFailFS()
	s := openIn(t, t.TempDir(), Config{FS: fsys})
	fill(t, s, 1)
	path := s.Last().Path()
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	for n := 1; ; n++ {
		_ = os.Remove(path) // after a failed attempt it may be there
		fsys.failNth(n, false, errInjected)
		_, err := s.PutBack(testSize)
		calls := fsys.did()
		fsys.set(nil)
		if err == nil {
			require.Greater(t, n, 3)
			break
		}
		require.ErrorIs(t, err, errInjected)
		if last := calls[len(calls)-1]; last == "remove" || last == "create" {
			require.NoFileExists(t, path, "call %d", n)
		}
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, got)
}
