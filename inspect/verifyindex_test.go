package inspect_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/golden"
)

// indexStore unpacks a store of RocketMQ with three index files of 100 slots and
// 400 places for entries, and returns their paths.
func indexStore(t *testing.T) (dir string, files []string) {
	t.Helper()
	c, err := golden.Load("index")
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, c.Unpack(golden.StoreArchive, dir))
	files, err = filepath.Glob(filepath.Join(dir, "index", "*"))
	require.NoError(t, err)
	slices.Sort(files)
	require.Len(t, files, 3)
	return dir, files
}

// entryAt is where entry e of such a file lies.
func entryAt(e int) int { return 40 + 4*100 + 20*e }

// TestVerifyFindsIndexDamage damages one place of an index, and wants to hear of
// that and of what it implies.
func TestVerifyFindsIndexDamage(t *testing.T) {
	const first, newest = "index/20261129172531817", "index/20261129172538082"
	put := func(at int, v uint32) func(b []byte) {
		return func(b []byte) { binary.BigEndian.PutUint32(b[at:], v) }
	}
	tests := []struct {
		name   string
		file   int
		damage func(b []byte)
		want   []string
	}{
		{"nothing", 0, func([]byte) {}, nil},
		{"key hash", 0, put(entryAt(7), 12345), []string{
			"error index-entry: " + first + "+580: entry 7: the record at log offset 0 has no key with hash 12345",
			"error index-missing: index+0: keys of 1 messages are not there: those at log offsets [0, 216)",
			"error index-slot: " + first + "+600: the entry has other fields than its chain: hash, time or entry before it; 2 such places in the file",
		}},
		{"log offset", 0, put(entryAt(7)+8, 433), []string{
			"error index-missing: index+0: keys of 1 messages are not there: those at log offsets [0, 216)",
			"error index-entry: " + first + "+580: entries [7, 8) lead to no record: corrupt data: nothing instead of a record at log offset 433",
		}},
		{"time", 0, put(entryAt(300)+12, 77), []string{
			"error index-entry: " + first + "+6440: entry 300: 77 seconds behind the first, the record at log offset 25439 is 1",
		}},
		{"chain", 0, put(entryAt(300)+16, 299), []string{
			"error index-slot: " + first + "+6440: the entry has other fields than its chain: hash, time or entry before it; 1 such places in the file",
		}},
		{"chain in a circle", 0, put(entryAt(300)+16, 300), []string{
			"error index-slot: " + first + "+6440: the entry has other fields than its chain: hash, time or entry before it; 1 such places in the file",
		}},
		{"slot", 0, put(40+4*50, 1), []string{
			"error index-slot: " + first + "+240: the slot does not lead to the newest entry of its chain; 1 such places in the file",
		}},
		{"slots in use", 0, put(32, 99), []string{
			"error index-file: " + first + "+32: the header says that 99 slots are in use, it is 100",
		}},
		{"count too high for the file", 0, put(36, 401), []string{
			"error index-file: " + first + "+36: entry 401 is next, of 400",
			"error index-missing: index+0: keys of 200 messages are not there: those at log offsets [0, 33958)",
		}},
		{"begin", 0, put(20, 5), []string{
			"error index-file: " + first + "+16: the header begins with log offset 5, the first entry has 0",
		}},
		{"end", 0, put(28, 5), []string{
			"error index-file: " + first + "+24: the header ends with log offset 5, the last entry has 33810",
		}},
		{"count too low", 2, put(36, 315), []string{
			"error index-slot: " + newest + "+56: the slot does not lead to the newest entry of its chain; 1 such places in the file",
			"error index-file: " + newest + "+24: the header ends with log offset 95172, the last entry has 94983",
			"error index-unused: " + newest + "+6740: 314 entries are in use, and this place behind them is not zero",
			"error index-missing: index+0: keys of 1 messages are not there: those at log offsets [95172, 95320)",
		}},
		{"unused entries", 2, put(entryAt(350), 1), []string{
			"error index-unused: " + newest + "+7443: 315 entries are in use, and this place behind them is not zero",
		}},
		{"entry 0", 2, put(entryAt(0), 1), []string{
			"error index-unused: " + newest + "+443: 315 entries are in use, and this place behind them is not zero",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir, files := indexStore(t)
			change(t, files[test.file], test.damage)
			_, found := verify(t, dir)
			require.Equal(t, test.want, found)
		})
	}
}

// TestVerifyIndexFiles has files that are not there, short, or not of an index.
func TestVerifyIndexFiles(t *testing.T) {
	t.Run("oldest missing", func(t *testing.T) {
		dir, files := indexStore(t)
		require.NoError(t, os.Remove(files[0]))
		_, found := verify(t, dir)
		require.Equal(t, []string{"error index-missing: index+0: keys of 200 messages are not there: those at log offsets [0, 33958)"}, found)
	})
	t.Run("all missing", func(t *testing.T) {
		dir, files := indexStore(t)
		for _, f := range files {
			require.NoError(t, os.Remove(f))
		}
		sum, found := verify(t, dir)
		require.Empty(t, found, "there is no index")
		require.Zero(t, sum.IndexFiles)
	})
	t.Run("newest cut", func(t *testing.T) {
		dir, files := indexStore(t)
		require.NoError(t, os.Truncate(files[2], 4000))
		_, found := verify(t, dir)
		require.Equal(t, []string{
			"error index-file: index/20261129172538082+0: has 4000 bytes, with 100 slots and 400 entries it would be 8440",
			"error index-missing: index+0: keys of 160 messages are not there: those at log offsets [68080, 95320)",
		}, found)
	})
	t.Run("behind the index while in use", func(t *testing.T) {
		dir, files := indexStore(t)
		require.NoError(t, os.Remove(files[2]))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "abort"), nil, 0o600))
		_, found := verify(t, dir)
		require.Empty(t, found)
	})
	t.Run("foreign", func(t *testing.T) {
		dir, _ := indexStore(t)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "index", "notes"), nil, 0o600))
		sum, found := verify(t, dir)
		require.Equal(t, []string{"note file-foreign: index/notes+0: does not belong here: not a file named by an integer"}, found)
		require.EqualValues(t, 1113, sum.IndexEntries)
	})
	t.Run("no geometry", func(t *testing.T) {
		dir, files := indexStore(t)
		for _, f := range files {
			change(t, f, func(b []byte) { clear(b[16:440]); b[39] = 9 })
		}
		_, found := verify(t, dir)
		require.Len(t, found, 3)
		require.Equal(t, "error index-file: index/20261129172531817+0: corrupt data: its numbers of slots and entries can not be told", found[0])
	})
}
