package consumequeue

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
)

// TestFilesOfAnotherSize has queues A/0, T/0 and U/0 of three files each, and
// changes files of some.
func TestFilesOfAnotherSize(t *testing.T) {
	at := func(cfg Config, topic string, n int64) string {
		return filepath.Join(cfg.Dir, topic, "0", segment.FileName(n*200))
	}
	cut := func(t *testing.T, path string, size int64) { require.NoError(t, os.Truncate(path, size)) }
	for _, tc := range []struct {
		about string
		harm  func(t *testing.T, cfg Config)
		reset []string
	}{
		{"none", func(*testing.T, Config) {}, nil},
		{"first", func(t *testing.T, cfg Config) { cut(t, at(cfg, "T", 0), 100) }, []string{"T"}},
		{"first of the first", func(t *testing.T, cfg Config) { cut(t, at(cfg, "A", 0), 100) }, []string{"A"}},
		{"no whole units", func(t *testing.T, cfg Config) { cut(t, at(cfg, "A", 0), 190) }, []string{"A"}},
		{"middle", func(t *testing.T, cfg Config) { cut(t, at(cfg, "T", 1), 400) }, []string{"T"}},
		{"last", func(t *testing.T, cfg Config) { cut(t, at(cfg, "T", 2), 20) }, []string{"T"}},
		{"all of one", func(t *testing.T, cfg Config) {
			for n := range int64(3) {
				cut(t, at(cfg, "A", n), 20)
			}
		}, []string{"A"}},
		{"the only one of the first", func(t *testing.T, cfg Config) {
			require.NoError(t, os.Remove(at(cfg, "A", 1)))
			require.NoError(t, os.Remove(at(cfg, "A", 2)))
			cut(t, at(cfg, "A", 0), 20)
		}, []string{"A"}},
		{"one of each", func(t *testing.T, cfg Config) {
			cut(t, at(cfg, "A", 0), 20)
			cut(t, at(cfg, "T", 1), 20)
			cut(t, at(cfg, "U", 2), 20)
		}, []string{"A", "T", "U"}},
	} {
		for _, size := range []int64{200, 0} {
			t.Run(tc.about, func(t *testing.T) {
				cfg := config(t)
				table := open(t, cfg)
				for _, topic := range []string{"A", "T", "U"} {
					q, err := table.Make(topic, 0)
					require.NoError(t, err)
					put(t, q, 0, 25)
				}
				require.NoError(t, table.Close())
				tc.harm(t, cfg)
				before := content(t, cfg.Dir)
				cfg.FileSize = size
				table = open(t, cfg)
				require.EqualValues(t, 200, table.FileSize())
				require.Equal(t, before, content(t, cfg.Dir), "OpenTable changes nothing")
				var want []string
				for _, topic := range tc.reset {
					require.Nil(t, find(t, table, topic, 0))
					want = append(want, filepath.Join(cfg.Dir, topic, "0"))
				}
				dirs, err := table.ResetDamaged(0)
				require.NoError(t, err)
				require.ElementsMatch(t, want, dirs)
				for _, topic := range []string{"A", "T", "U"} {
					q, err := table.Make(topic, 0)
					require.NoError(t, err)
					put(t, q, 0, 25)
					require.Equal(t, wanted(0, 25), units(t, q, 0))
				}
			})
		}
	}
}

// TestNoFileHasTheConfiguredSize, so it is that which is wrong, however different
// the files are.
func TestNoFileHasTheConfiguredSize(t *testing.T) {
	cfg := config(t)
	write(t, cfg, 0, file(wanted(0, 10)...))
	write(t, cfg, 200, make([]byte, 100))
	before := content(t, cfg.Dir)
	cfg.FileSize = 400
	_, err := OpenTable(cfg)
	var size *segment.SizeError
	require.ErrorAs(t, err, &size)
	require.EqualValues(t, 200, size.Got)
	require.EqualValues(t, 400, size.Want)
	require.Equal(t, before, content(t, cfg.Dir))
}

// TestNumberingIsNotThrownAway: where the log has lost all messages of a queue, its
// files alone know what number comes next.
func TestNumberingIsNotThrownAway(t *testing.T) {
	cfg := config(t)
	write(t, cfg, 0, file(wanted(0, 10)...))
	write(t, cfg, 200, file(wanted(10, 13)...)[:100])
	before := content(t, cfg.Dir)
	last := wanted(12, 13)[0].LogOffset
	_, err := open(t, cfg).ResetDamaged(last + 1)
	require.ErrorIs(t, err, segment.ErrFileSize)
	require.ErrorContains(t, err, segment.FileName(200))
	require.Equal(t, before, content(t, cfg.Dir))
	dirs, err := open(t, cfg).ResetDamaged(last)
	require.NoError(t, err)
	require.Len(t, dirs, 1)
	require.Empty(t, content(t, cfg.Dir))
}
