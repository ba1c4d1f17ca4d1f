package mmap

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFilesystemOfATinyTmpfs(t *testing.T) {
	dir := tinyDisk(t, "1m")
	info, err := Filesystem(dir)
	require.NoError(t, err)
	require.Equal(t, FSInfo{Name: "tmpfs", Volatile: true}, info)
	total, free, err := Space(dir)
	require.NoError(t, err)
	require.Equal(t, int64(1<<20), total)
	require.InDelta(t, 1<<20, free, 64<<10)
}

func TestFilesystemHere(t *testing.T) {
	dir := t.TempDir()
	_, err := Filesystem(dir)
	require.NoError(t, err)
	switch runtime.GOOS {
	case "linux", "darwin", "windows":
		total, free, err := Space(dir)
		require.NoError(t, err)
		require.Positive(t, total)
		require.LessOrEqual(t, free, total)
		_, err = Filesystem(dir + "/absent")
		if runtime.GOOS != "windows" { // which asks for the volume only
			require.Error(t, err)
		}
	}
}
