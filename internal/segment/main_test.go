package segment

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testSize = 64 << 10 // bytes of a file in most tests

// openIn opens dir/seg and checks at the end of the test that no mapping is left.
func openIn(t *testing.T, dir string, cfg Config) *Files {
	t.Helper()
	before := mmap.Live()
	cfg.Dir = filepath.Join(dir, "seg")
	if cfg.FileSize == 0 {
		cfg.FileSize = testSize
	}
	s, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.Equal(t, before, mmap.Live(), "mappings left")
	})
	return s
}

// fill makes n files after the last and writes the pattern of each.
func fill(t *testing.T, s *Files, n int) {
	t.Helper()
	for range n {
		base := int64(0)
		if last := s.Last(); last != nil {
			base = last.End()
		}
		f, err := s.Create(base)
		require.NoError(t, err)
		require.True(t, f.Pin())
		require.NoError(t, f.Prepare(f.Size()))
		b := f.Bytes()
		for i := range b {
			b[i] = pattern(f.Base())
		}
		f.Unpin()
	}
}

// pattern is the byte that fills the file at base: never 0, and not that of the files near it.
func pattern(base int64) byte { return byte(base/testSize%251) + 1 }

// listing returns name and length of each entry below dir, to see that nothing changed.
func listing(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		size := info.Size()
		if info.IsDir() {
			size = 0
		}
		out = append(out, fmt.Sprint(rel, " ", info.Mode().Type(), " ", size))
		return nil
	}))
	return out
}

// bases returns where the files of s start.
func bases(s *Files) []int64 {
	out := []int64{}
	for _, f := range s.Snapshot() {
		out = append(out, f.Base())
	}
	return out
}

// tinyDisk mounts a tmpfs of size, as mount(8) writes it, where the test may do that.
func tinyDisk(t *testing.T, size string) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("mounting a small tmpfs needs Linux")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "none", dir).CombinedOutput(); err != nil {
		t.Skipf("not allowed to mount a small tmpfs: %v: %s", err, out)
	}
	t.Cleanup(func() {
		out, err := exec.Command("umount", dir).CombinedOutput()
		require.NoError(t, err, string(out))
	})
	return dir
}
