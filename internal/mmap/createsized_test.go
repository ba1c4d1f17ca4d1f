package mmap

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCreateSized(t *testing.T) {
	for name, create := range map[string]func(string, os.FileMode, int64) (*os.File, error){
		"as well as the system can": CreateSized, "by its name": createNamed,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			f, err := create(path, 0o600, 12345)
			require.NoError(t, err)
			defer f.Close()
			_, err = f.WriteAt([]byte("end"), 12342)
			require.NoError(t, err)
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Len(t, b, 12345)
			require.Equal(t, "\x00end", string(b[12341:]))
			_, err = create(path, 0o600, 1)
			require.ErrorIs(t, err, os.ErrExist)
			_, err = create(filepath.Join(dir, "missing", "file"), 0o600, 1)
			require.ErrorIs(t, err, os.ErrNotExist)
			_, err = create(filepath.Join(dir, "too large"), 0o600, 1<<62)
			require.Error(t, err)
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, entries, 1, "what failed leaves no file")
		})
	}
}
