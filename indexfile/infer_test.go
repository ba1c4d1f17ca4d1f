package indexfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/golden"
	"github.com/pocketmq/pocketmq/internal/segment"
)

// TestInfer: every geometry in every state of its file, from one entry to full.
func TestInfer(t *testing.T) {
	for _, g := range []struct{ slots, entries int32 }{
		{1, 2}, {1, 9}, {2, 5}, {3, 4}, {5, 5}, {7, 31}, {100, 400}, {101, 30}, {1 << 12, 1 << 14},
	} {
		t.Run(fmt.Sprint(g.slots, " ", g.entries), func(t *testing.T) {
			w := newWorld(t, g.slots, g.entries)
			requireGeometry(t, w.cfg.Dir, 0, 0) // no directory
			w.record("t", "", "", 0)
			w.feed()
			requireGeometry(t, w.cfg.Dir, 0, 0) // no entry
			known := 0
			n := min(2*g.entries, 100)
			for i := range n {
				w.put("t", fmt.Sprint("key", i))
				slots, entries, err := Infer(segment.OS, w.cfg.Dir)
				if err != nil {
					require.ErrorIs(t, err, ErrUnknownGeometry)
					require.Zero(t, slots)
					require.Zero(t, entries)
					continue
				}
				require.Equal(t, []int32{g.slots, g.entries}, []int32{slots, entries}, "%d keys", i+1)
				known++
			}
			require.GreaterOrEqual(t, known, int(n)*9/10)
		})
	}
}

func requireGeometry(t *testing.T, dir string, slots, entries int32) {
	t.Helper()
	s, e, err := Infer(nil, dir)
	require.NoError(t, err)
	require.Equal(t, []int32{slots, entries}, []int32{s, e})
}

// TestInferRocketMQ: the default geometry, in a sparse file of 420 MB of which
// few pages are there; without an entry it is known by the size.
func TestInferRocketMQ(t *testing.T) {
	w := newWorld(t, RocketMQSlots, RocketMQEntries)
	w.record("t", "", "", 0)
	w.feed()
	requireGeometry(t, w.cfg.Dir, RocketMQSlots, RocketMQEntries)
	for i := range 20 {
		w.put("t", fmt.Sprint("key", i))
		requireGeometry(t, w.cfg.Dir, RocketMQSlots, RocketMQEntries)
	}
}

func TestInferGolden(t *testing.T) {
	withEntries := func(c *golden.Case) bool {
		return c.Live != nil && len(c.Live.IndexFiles) > 0 && c.Live.IndexFiles[0].IndexCount > 1
	}
	eachGolden(t, 14, withEntries, func(t *testing.T, c *golden.Case, dir string) {
		requireGeometry(t, filepath.Join(dir, "index"), int32(c.Config.MaxHashSlotNum), int32(c.Config.MaxIndexNum))
	})
}

// twoWays is a file that can be divided in two ways: with 4 slots and 2
// entries' room, or with 9 and 1 less. Its one entry stands in both places.
func twoWays() []byte {
	const off = 77
	b := make([]byte, FileSize(4, 5))
	Header{BeginTimestamp: 1, EndTimestamp: 1, BeginLogOffset: off, EndLogOffset: off, SlotCount: 1, Count: 2}.put(b)
	binary.BigEndian.PutUint32(b[headerSize:], 1) // slot 0
	for _, slots := range []int32{4, 9} {
		entry{offset: off}.put(b[FileSize(slots, 1):])
	}
	return b
}

func TestInferWhatCanNotBeTold(t *testing.T) {
	w := newWorld(t, 7, 31)
	for i := range 20 {
		w.put("t", fmt.Sprint("key", i))
	}
	good := images(t, w.cfg.Dir)[0]
	edit := func(change func(b []byte)) []byte {
		b := append([]byte(nil), good...)
		change(b)
		return b
	}
	put := binary.BigEndian.PutUint32
	for name, b := range map[string][]byte{
		"two ways":                 twoWays(),
		"no slot":                  edit(func(b []byte) { clear(b[headerSize:][:7*slotSize]) }),
		"another first offset":     edit(func(b []byte) { b[headerBeginOffset+7]++ }),
		"another last offset":      edit(func(b []byte) { b[headerEndOffset+7]++ }),
		"count of more than fit":   edit(func(b []byte) { put(b[headerCount:], 32) }),
		"count of far more":        edit(func(b []byte) { put(b[headerCount:], 0x7fffffff) }),
		"first entry with another": edit(func(b []byte) { put(b[FileSize(7, 1)+entryPrev:], 1) }),
		"hash below zero":          edit(func(b []byte) { put(b[FileSize(7, 1)+entryHash:], 0x80000000) }),
		"another size":             append(append([]byte(nil), good...), 0, 0),
		"garbage":                  edit(func(b []byte) { copy(b, "some text that is no header of an index file at all") }),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name string, b []byte) { require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o600)) }
			write("20220101000000000", b)
			slots, entries, err := Infer(nil, dir)
			require.ErrorIs(t, err, ErrUnknownGeometry)
			require.ErrorContains(t, err, "20220101000000000")
			require.Zero(t, slots+entries)
			write("20220101000000001", good)
			write("notes", []byte("no index file"))
			requireGeometry(t, dir, 7, 31) // the other one shows it
		})
	}
}

func TestInferSmallFiles(t *testing.T) {
	dir := t.TempDir()
	for size := range FileSize(1, 2) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "1"), make([]byte, size), 0o600))
		requireGeometry(t, dir, 0, 0)
	}
}

var errInjected = errors.New("injected failure")

func TestInferErrors(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "1"), 0o700))
	_, _, err := Infer(nil, dir)
	require.ErrorIs(t, err, segment.ErrForeignFile)

	w := newWorld(t, 3, 4)
	w.put("t", "key")
	for _, op := range []string{"openread", "map"} {
		w.fs.failOps(errInjected, op)
		_, _, err = Infer(w.fs, w.cfg.Dir)
		require.ErrorIs(t, err, errInjected, op)
		w.fs.failOps(nil)
	}
	requireGeometry(t, w.cfg.Dir, 3, 4)

	huge := filepath.Join(t.TempDir(), "1") // larger than any index file, and mostly a hole
	require.NoError(t, os.WriteFile(huge, twoWays(), 0o600))
	require.NoError(t, os.Truncate(huge, 1<<32))
	_, _, err = Infer(nil, filepath.Dir(huge))
	require.ErrorIs(t, err, ErrUnknownGeometry)
}

// TestInferRocketMQSizeWithGarbage: the size alone makes no default geometry.
func TestInferRocketMQSizeWithGarbage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1")
	b := make([]byte, headerSize)
	Header{BeginLogOffset: 1, EndLogOffset: 2, Count: 0x7fffffff}.put(b)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	require.NoError(t, os.Truncate(path, FileSize(RocketMQSlots, RocketMQEntries)))
	_, _, err := Infer(nil, filepath.Dir(path))
	require.ErrorIs(t, err, ErrUnknownGeometry)
}

// FuzzInfer: it never panics, and what it says fits the file.
func FuzzInfer(f *testing.F) {
	f.Add(twoWays())
	f.Add(make([]byte, 84))
	w := newWorld(f, 7, 31)
	for i := range 20 {
		w.put("t", fmt.Sprint("key", i))
	}
	f.Add(images(f, w.cfg.Dir)[0])
	f.Fuzz(func(t *testing.T, b []byte) {
		if int64(len(b)) < FileSize(1, 2) {
			return
		}
		slots, entries, err := infer(b)
		if err != nil {
			require.ErrorIs(t, err, ErrUnknownGeometry)
			return
		}
		if h := headerAt(b); h.Count <= 1 {
			require.Zero(t, slots+entries)
			return
		}
		require.NoError(t, checkGeometry(slots, entries))
		require.EqualValues(t, len(b), FileSize(slots, entries))
		require.LessOrEqual(t, headerAt(b).Count, entries)
	})
}
