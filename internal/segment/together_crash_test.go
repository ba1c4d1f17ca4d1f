package segment_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/internal/segment"
)

const modelSize = 8 << 10

// modelList is a list, what was written to it, and how much of that a sync has vouched for.
type modelList struct {
	files            *segment.Files
	written, vouched []byte
}

// TestWhatWasVouchedForSurvives: many lists under a small Cache, random writes and syncs, alone and together; whatever
// a loss of power leaves at any moment has what was vouched for.
func TestWhatWasVouchedForSurvives(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { runModel(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func runModel(t *testing.T, r *rand.Rand) {
	fsys, err := crashfs.New(t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, fsys.Close()) }()
	v, err := fsys.OpenVolume(fsys.Root())
	require.NoError(t, err)
	c := segment.NewCache(1+r.IntN(4), 1<<40)
	c.SyncOn(v)
	lists := make([]*modelList, 8)
	for i := range lists {
		dir := filepath.Join(fsys.Root(), strconv.Itoa(i))
		require.NoError(t, fsys.Mkdir(dir, 0o700))
		files, err := segment.Open(segment.Config{FS: fsys, Dir: dir, FileSize: modelSize, Cache: c, Derived: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, files.Close()) }()
		lists[i] = &modelList{files: files, written: make([]byte, modelSize), vouched: make([]byte, modelSize)}
	}
	require.NoError(t, fsys.SyncDir(fsys.Root()))
	for range 150 {
		l := lists[r.IntN(len(lists))]
		switch r.IntN(10) {
		case 0:
			require.NoError(t, l.files.Sync(0, modelSize))
			copy(l.vouched, l.written)
		case 1:
			for _, l := range lists {
				require.True(t, l.files.Leave(0, modelSize))
			}
			require.NoError(t, c.SyncTogether())
			for _, l := range lists {
				copy(l.vouched, l.written)
			}
		case 2:
			checkImage(t, fsys, lists, r.Uint64N(4))
		default:
			l.write(t, r)
		}
	}
	checkImage(t, fsys, lists, crashfs.Oldest)
}

// write writes some bytes, through the mapping or not.
func (l *modelList) write(t *testing.T, r *rand.Rand) {
	t.Helper()
	if l.files.Last() == nil {
		_, err := l.files.Create(0)
		require.NoError(t, err)
	}
	off := r.Int64N(modelSize - 16)
	b := bytes.Repeat([]byte{byte(1 + r.IntN(255))}, 1+r.IntN(16))
	copy(l.written[off:], b)
	if r.IntN(2) == 0 {
		require.NoError(t, l.files.WriteAt(b, off))
		return
	}
	f := l.files.Acquire(off)
	require.NotNil(t, f)
	defer f.Unpin()
	copy(f.Bytes()[off:], b)
	f.MarkDirty()
}

// checkImage wants every byte to be the one that was vouched for, unless another one was written over it since.
func checkImage(t *testing.T, fsys *crashfs.FS, lists []*modelList, seed uint64) {
	t.Helper()
	s, err := fsys.Snapshot()
	require.NoError(t, err)
	dir := t.TempDir()
	_, err = s.Image(seed, dir)
	require.NoError(t, err)
	for i, l := range lists {
		b, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(i), segment.FileName(0)))
		if bytes.Equal(l.vouched, make([]byte, modelSize)) {
			continue
		}
		require.NoError(t, err)
		require.Len(t, b, modelSize)
		for at := range b {
			if l.vouched[at] == l.written[at] && b[at] != l.vouched[at] {
				t.Fatalf("list %d has %d at %d, expected %d", i, b[at], at, l.vouched[at])
			}
		}
	}
}
