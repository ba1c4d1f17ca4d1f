package mmap

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVolume(t *testing.T) {
	dir := t.TempDir()
	v, err := OpenVolume(dir)
	if errors.Is(err, errors.ErrUnsupported) {
		require.Nil(t, v)
		t.Skip(err)
	}
	require.NoError(t, err)
	path := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.True(t, v.Holds(FileIDOf(info)))
	require.False(t, v.Holds(FileID{}))
	elsewhere, err := os.Lstat("/proc/self")
	require.NoError(t, err)
	require.False(t, v.Holds(FileIDOf(elsewhere)))
	require.NoError(t, v.Sync())
	require.NoError(t, v.Close())
	require.Error(t, v.Sync())
	_, err = OpenVolume(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
