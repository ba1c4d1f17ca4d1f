package repair_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/internal/golden"
	"github.com/pocketmq/pocketmq/repair"
)

func TestMain(m *testing.M) {
	if err := os.Setenv("TMPDIR", crashfs.Dir()); err != nil { // where files cost least
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// TestRepairRocketMQ repairs the recorded stores of RocketMQ 4.9.3, the sound
// and the damaged ones. Nothing that can be read is lost, and what comes out is
// sound.
func TestRepairRocketMQ(t *testing.T) {
	lost := map[string]int64{ // ranges
		"topic_utf8_overlong/store.tar.gz": 1, // a record that RocketMQ should have refused
	}
	names, err := golden.Cases()
	require.NoError(t, err)
	for _, name := range names {
		c, err := golden.Load(name)
		require.NoError(t, err)
		for _, archive := range []string{golden.StoreArchive, golden.AfterArchive} {
			if !c.Has(archive) {
				continue
			}
			t.Run(name+"/"+archive, func(t *testing.T) {
				t.Parallel()
				dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
				require.NoError(t, c.Unpack(archive, dir))
				before, err := golden.Files(dir)
				require.NoError(t, err)
				r, err := repair.Run(t.Context(), dir, out, repair.Config{})
				require.NoError(t, err)
				after, err := golden.Files(dir)
				require.NoError(t, err)
				require.Equal(t, before, after, "the source is not changed")
				require.True(t, r.Output.Clean())
				require.Equal(t, lost[name+"/"+archive], r.Salvaged.Lost)
				require.Equal(t, readable(t, dir), readable(t, out))
			})
		}
	}
}

// readable counts the records of a log that can be read, fillers left out.
func readable(t *testing.T, dir string) (n int) {
	t.Helper()
	for v, err := range inspect.Log(dir) {
		if err == nil && !inspect.IsFiller(v) {
			n++
		}
	}
	return n
}
