package segment

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteFileAtomic(t *testing.T) {
	for _, links := range []bool{true, false} {
		fsys := newFailFS()
		if !links {
			fsys.set(func(op, path string) error {
				if op == "link" {
					return errors.ErrUnsupported
				}
				return nil
			})
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "topics.json")
		for _, v := range []string{"one", "two", "three"} {
			require.NoError(t, WriteFileAtomic(fsys, path, []byte(v), 0o600, true))
		}
		requireFile(t, path, "three")
		requireFile(t, path+".bak", "two")
		require.NoError(t, WriteFileAtomic(fsys, path, []byte("four"), 0o600, false))
		requireFile(t, path, "four")
		requireFile(t, path+".bak", "two")
		require.NoError(t, WriteFileAtomic(fsys, path, nil, 0o600, false))
		requireFile(t, path, "")
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 2, "nothing temporary is left")
	}
}

func TestWriteFileAtomicOverwritesLeftovers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, WriteFileAtomic(OS, path, []byte("one"), 0o600, true))
	// A crash after the link became the backup, before the new version came: both names are one file.
	require.NoError(t, os.Link(path, path+".bak"))
	require.NoError(t, os.WriteFile(path+".tmp", []byte("half of something long"), 0o600))
	require.NoError(t, os.WriteFile(path+".bak.tmp", []byte("x"), 0o600))
	require.NoError(t, WriteFileAtomic(OS, path, []byte("two"), 0o600, true))
	requireFile(t, path, "two")
	requireFile(t, path+".bak", "one")
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 2)
}

func TestWriteFileAtomicFailsAtEachCall(t *testing.T) {
	for _, backup := range []bool{false, true} {
		for _, links := range []bool{true, false} {
			for n, failed := 1, true; failed; n++ {
				failed = failOnce(t, n, backup, links)
			}
		}
	}
}

// failOnce writes a second version with a failure at call n, and tells whether there was one.
func failOnce(t *testing.T, n int, backup, links bool) bool {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, WriteFileAtomic(OS, path, []byte("old"), 0o600, true))
	fsys := newFailFS()
	hit := false
	fsys.set(func(op, _ string) error {
		n--
		if n == 0 {
			hit = true
			return errInjected
		}
		if op == "link" && !links {
			return errors.ErrUnsupported
		}
		requireOneVersion(t, path)
		return nil
	})
	err := WriteFileAtomic(fsys, path, []byte("new"), 0o600, backup)
	calls := fsys.did()
	require.NoFileExists(t, path+".tmp", calls)
	require.NoFileExists(t, path+".bak.tmp", calls)
	got, readErr := os.ReadFile(path)
	require.NoError(t, readErr, "%v", calls)
	if err == nil {
		require.Equal(t, "new", string(got))
	} else {
		require.ErrorIs(t, err, errInjected)
		require.Contains(t, []string{"old", "new"}, string(got), calls)
	}
	require.NoError(t, WriteFileAtomic(OS, path, []byte("next"), 0o600, backup), "and it works again")
	requireFile(t, path, "next")
	return hit
}

// requireOneVersion checks that path or its backup is whole, as it must be at every instant.
func requireOneVersion(t *testing.T, path string) {
	t.Helper()
	for _, p := range []string{path, path + ".bak"} {
		if got, err := os.ReadFile(p); err == nil {
			require.Contains(t, []string{"old", "new"}, string(got), p)
			return
		}
	}
	t.Fatal("no version is left")
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	_, err := ReadFile(OS, path)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("hello"), 0o600))
	requireFile(t, path, "hello")
	fsys := newFailFS()
	for n := 1; n <= 3; n++ {
		fsys.failNth(n, false, errInjected)
		_, err = ReadFile(fsys, path)
		require.ErrorIs(t, err, errInjected)
	}
}

func requireFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := ReadFile(OS, path)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

func TestLockThroughTheSeam(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	h, err := OS.Create(path, 0o600)
	require.NoError(t, err)
	require.NoError(t, h.Lock())
	g, err := OS.Open(path)
	require.NoError(t, err)
	require.ErrorIs(t, g.Lock(), ErrLocked)
	require.NoError(t, g.Close())
	require.NoError(t, h.Close())
}
