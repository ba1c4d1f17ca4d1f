//go:build unix

package store

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestModesOfFilesAndDirectories: only the owner has access, whatever the store
// makes; other modes can be asked for.
func TestModesOfFilesAndDirectories(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	for _, c := range []struct{ file, dir fs.FileMode }{{0, 0}, {0o640, 0o750}} {
		dir := filepath.Join(scratch(t), "new", "store")
		cfg := smallConfig(FlushSync)
		cfg.FileMode, cfg.DirMode = c.file, c.dir
		s := openStore(t, dir, cfg)
		for i := range 10 {
			put(t, s, "t", int32(i%2), string(make([]byte, 4000)))
		}
		require.NoError(t, s.WriteConfig("topics.json", []byte("{}")))
		require.NoError(t, s.WriteConfig("topics.json", []byte("{ }")))
		closeStore(t, s)
		if c.file == 0 {
			c.file, c.dir = 0o600, 0o700
		}
		n := 0
		require.NoError(t, filepath.WalkDir(filepath.Dir(dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if d.IsDir() {
				require.Equal(t, c.dir, info.Mode().Perm(), path)
			} else {
				require.Equal(t, c.file, info.Mode().Perm(), path)
			}
			n++
			return err
		}))
		require.Greater(t, n, 15)
	}
}
