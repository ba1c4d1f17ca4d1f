package repair_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/repair"
	"github.com/pocketmq/pocketmq/store"
)

// TestRepairRandomDamage damages any files in any places. Whatever that does, the
// outcome is a sound store in which every message is one of the old ones, at its
// old place and number.
func TestRepairRandomDamage(t *testing.T) {
	seeds := []uint64{559, 724} // the start of the log is lost up to the end of a file
	for seed := range uint64(30) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 0))
			d := newStore(t)
			var files []string
			require.NoError(t, filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
				if err == nil && e.Type().IsRegular() {
					files = append(files, path)
				}
				return err
			}))
			for range 1 + rng.IntN(6) {
				hurt(t, rng, files[rng.IntN(len(files))])
			}
			out := filepath.Join(t.TempDir(), "out")
			r, err := repair.Run(t.Context(), d.dir, out, repair.Config{})
			require.NoError(t, err)
			require.True(t, r.Output.Clean())
			d.requireOld(t, out)
		})
	}
}

// hurt damages a file.
func hurt(t *testing.T, rng *rand.Rand, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if len(b) == 0 || err != nil {
		return // nothing is left of it
	}
	at := rng.IntN(len(b))
	n := min(1+rng.IntN(2000), len(b)-at)
	switch rng.IntN(6) {
	case 0:
		b[at] ^= 1 << rng.IntN(8)
	case 1:
		clear(b[at : at+n])
	case 2:
		for i := range n {
			b[at+i] = byte(rng.Uint32())
		}
	case 3:
		b = b[:at]
	case 4: // old bytes in another place
		copy(b[at:], b[rng.IntN(len(b)):])
	default:
		require.NoError(t, os.Remove(path))
		return
	}
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

// requireOld wants every message of a store to be one that was put.
func (d damaged) requireOld(t *testing.T, dir string) {
	t.Helper()
	s, err := store.Open(t.Context(), dir, store.Config{NoIndex: true})
	require.NoError(t, err)
	defer s.Close()
	put := map[string]int{}
	for i, body := range d.bodies {
		put[body] = i
	}
	records, read := 0, 0
	for v, err := range inspect.Log(dir) {
		require.NoError(t, err)
		if inspect.IsFiller(v) {
			continue
		}
		records++
		i, known := put[string(v.Body())]
		require.True(t, known)
		require.Equal(t, d.puts[i].LogOffset, v.LogOffset())
		r, err := s.GetMessage(t.Context(), store.GetQuery{Topic: string(v.Topic()), QueueID: v.QueueID(), Offset: v.QueueOffset(), MaxCount: 1})
		require.NoError(t, err)
		require.Len(t, r.Messages, 1)
		if r.Messages[0].QueueOffset() == d.puts[i].QueueOffset {
			read++
		}
		r.Release()
	}
	require.Equal(t, records, read)
}
