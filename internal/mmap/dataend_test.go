package mmap

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDataEnd: what lies behind it reads as zeros, whether bytes came by a system
// call or through a mapping, into blocks that were allocated before or not, and
// whether they were synced.
func TestDataEnd(t *testing.T) {
	const size = 1 << 20
	page := int64(os.Getpagesize())
	for _, allocated := range []int64{0, 16 * page, size} {
		f := newFile(t, size)
		if allocated > 0 {
			require.NoError(t, Allocate(f, 0, allocated))
		}
		m, err := Map(f, size)
		require.NoError(t, err)
		for _, at := range []int64{0, 5*page + 7, 9 * page, size - 1} {
			m.Bytes()[at] = 1
			for range 2 {
				end, err := DataEnd(f, size)
				require.NoError(t, err)
				require.Greater(t, end, at)
				require.LessOrEqual(t, end, int64(size))
				if runtime.GOOS == "linux" && allocated == 0 {
					require.Less(t, end, at+64<<10+1, "most is a hole")
				}
				require.NoError(t, Datasync(f, m))
			}
		}
		require.NoError(t, m.Unmap())
	}
	end, err := DataEnd(newFile(t, size), size)
	require.NoError(t, err)
	if runtime.GOOS == "linux" {
		require.Zero(t, end)
	}
}

func TestFileID(t *testing.T) {
	dir := t.TempDir()
	id := func(name string) FileID {
		info, err := os.Lstat(filepath.Join(dir, name))
		require.NoError(t, err)
		return FileIDOf(info)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), nil, 0o600))
	require.False(t, id("a").Differs(id("a")))
	require.False(t, id("a").Differs(FileID{}), "unknown")
	require.False(t, FileID{}.Differs(id("a")))
	if runtime.GOOS != "windows" {
		require.True(t, id("a").Differs(id("b")))
	}
	a := id("a")
	require.NoError(t, os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "c")))
	require.False(t, a.Differs(id("c")))
}
