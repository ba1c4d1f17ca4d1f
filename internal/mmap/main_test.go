package mmap

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// childEnv tells a copy of the test binary what to do instead of the tests; see lock_test.go.
const childEnv = "POCKETMQ_MMAP_CHILD"

func TestMain(m *testing.M) {
	if action := os.Getenv(childEnv); action != "" {
		os.Exit(child(action, os.Getenv(childEnv+"_PATH")))
	}
	goleak.VerifyTestMain(m)
}

// newFile makes a file of size bytes in a directory of the test.
func newFile(t *testing.T, size int64) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "file"), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	require.NoError(t, f.Truncate(size))
	return f
}

// newMapping maps a new file of size bytes.
func newMapping(t *testing.T, size int64) (*Mapping, *os.File) {
	t.Helper()
	f := newFile(t, size)
	m, err := Map(f, size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Unmap()) })
	return m, f
}
