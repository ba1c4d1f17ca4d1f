package crashfs

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pocketmq/pocketmq/internal/segment"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errInjected = errors.New("injected")

func newFS(t *testing.T) *FS {
	t.Helper()
	f, err := New(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// image writes one and returns its files by path.
func image(t *testing.T, s *Snapshot, seed uint64) map[string]string {
	t.Helper()
	dir := t.TempDir()
	_, err := s.Image(seed, dir)
	require.NoError(t, err)
	return tree(t, dir)
}

func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(rel)] = string(b)
		return err
	}))
	return files
}

func snapshot(t *testing.T, f *FS) *Snapshot {
	t.Helper()
	s, err := f.Snapshot()
	require.NoError(t, err)
	return s
}

// create makes a file with content, and syncs what it is told to.
func create(t *testing.T, f *FS, name, content string, sync, syncDir bool) segment.Handle {
	t.Helper()
	path := filepath.Join(f.Root(), name)
	h, err := f.Create(path, 0o600)
	require.NoError(t, err)
	_, err = h.WriteAt([]byte(content), 0)
	require.NoError(t, err)
	if sync {
		require.NoError(t, h.Sync())
	}
	if syncDir {
		require.NoError(t, f.SyncDir(filepath.Dir(path)))
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func TestNameAndBytesAreKeptByTwoSyncs(t *testing.T) {
	f := newFS(t)
	create(t, f, "both", "abc", true, false)
	create(t, f, "name", "abc", false, true)
	create(t, f, "bytes", "abc", true, false)
	s := snapshot(t, f)
	require.Equal(t, map[string]string{"both": "abc", "name": ""}, image(t, s, Oldest))
	require.Equal(t, map[string]string{"both": "abc", "name": "abc", "bytes": "abc"}, image(t, s, Newest))
	require.Equal(t, tree(t, f.Root()), image(t, s, Newest))
}

func TestEachPageIsOldNewOrTorn(t *testing.T) {
	f := newFS(t)
	const pages = 64
	h := create(t, f, "file", string(bytes.Repeat([]byte{'o'}, pages*pageSize)), true, true)
	m, err := h.Map(pages * pageSize)
	require.NoError(t, err)
	for i := range m.Bytes() {
		m.Bytes()[i] = 'n'
	}
	defer func() { require.NoError(t, m.Unmap()) }()
	s := snapshot(t, f)

	kinds := make(map[string]int)
	for seed := uint64(2); seed < 30; seed++ {
		b := image(t, s, seed)["file"]
		require.Len(t, b, pages*pageSize)
		for p := 0; p < len(b); p += pageSize {
			kinds[kindOf(t, b[p:p+pageSize])]++
		}
		require.Equal(t, b, image(t, s, seed)["file"], "the same seed gives the same image")
	}
	for _, k := range []string{"old", "new", "on", "no"} {
		require.Greater(t, kinds[k], 50, "%s: %v", k, kinds)
	}
}

// kindOf says of which parts a page is made.
func kindOf(t *testing.T, p string) string {
	t.Helper()
	kind := ""
	for s := 0; s < len(p); s += sectorSize {
		sector := p[s : s+sectorSize]
		require.Equal(t, sectorSize, bytes.Count([]byte(sector), []byte{sector[0]}), "a sector is whole")
		if kind == "" || kind[len(kind)-1] != sector[0] {
			kind += sector[:1]
		}
	}
	switch kind {
	case "o":
		return "old"
	case "n":
		return "new"
	}
	return kind
}

func TestSyncKeepsWhatWasThere(t *testing.T) {
	f := newFS(t)
	h := create(t, f, "file", "first", true, true)
	_, err := h.WriteAt([]byte("later, and longer"), 0)
	require.NoError(t, err)
	s := snapshot(t, f)
	require.Equal(t, "first", image(t, s, Oldest)["file"])
	require.Equal(t, "later, and longer", image(t, s, Newest)["file"])
	require.NoError(t, h.Sync())
	require.Equal(t, "later, and longer", image(t, snapshot(t, f), Oldest)["file"])
	require.Equal(t, "first", image(t, s, Oldest)["file"], "a snapshot does not change")
}

func TestDirectoryOperationsAreLostFromTheEnd(t *testing.T) {
	f := newFS(t)
	create(t, f, "old", "1", true, true)
	create(t, f, "tmp", "2", true, true)
	at := func(name string) string { return filepath.Join(f.Root(), name) }
	require.NoError(t, f.Link(at("old"), at("bak")))
	require.NoError(t, f.Rename(at("tmp"), at("old")))
	require.NoError(t, f.Remove(at("bak")))
	s := snapshot(t, f)
	states := []map[string]string{
		{"old": "1", "tmp": "2"},
		{"old": "1", "bak": "1", "tmp": "2"},
		{"old": "2", "bak": "1"},
		{"old": "2"},
	}
	met := make(map[int]bool)
	for seed := range uint64(60) {
		got := image(t, s, seed)
		i := slices.IndexFunc(states, func(want map[string]string) bool { return maps.Equal(got, want) })
		require.GreaterOrEqual(t, i, 0, "%v", got)
		met[i] = true
	}
	require.Len(t, met, len(states))
	require.NoError(t, f.SyncDir(f.Root()))
	require.Equal(t, states[3], image(t, snapshot(t, f), Oldest))
}

func TestEveryNewDirectoryIsAMoment(t *testing.T) {
	f := newFS(t)
	var moments []*Snapshot
	f.Hook(func(Call) error {
		s, err := f.Snapshot()
		moments = append(moments, s)
		return err
	})
	require.NoError(t, f.MkdirAll(filepath.Join(f.Root(), "a", "b"), 0o700))
	f.Hook(nil)
	require.Len(t, moments, 3) // the call itself, and two syncs
	dir := t.TempDir()
	_, err := moments[2].Image(Oldest, dir)
	require.NoError(t, err)
	require.DirExists(t, filepath.Join(dir, "a"))
	require.NoDirExists(t, filepath.Join(dir, "a", "b"))
}

func TestFailedSyncLosesItsPages(t *testing.T) {
	f := newFS(t)
	h := create(t, f, "file", string(make([]byte, 2*pageSize)), true, true)
	_, err := h.WriteAt([]byte("one"), 0)
	require.NoError(t, err)
	f.FailOn(OpSync, "file", 1, errInjected)
	require.ErrorIs(t, h.Sync(), errInjected)
	_, err = h.WriteAt([]byte("two"), pageSize)
	require.NoError(t, err)
	require.NoError(t, h.Sync(), "the next one claims success")
	b := image(t, snapshot(t, f), Oldest)["file"]
	require.Equal(t, "\x00\x00\x00", b[:3])
	require.Equal(t, "two", b[pageSize:pageSize+3])
	_, err = h.WriteAt([]byte("one"), 0) // the same bytes again
	require.NoError(t, err)
	require.NoError(t, h.Sync())
	require.Equal(t, "one", image(t, snapshot(t, f), Oldest)["file"][:3])
}

func TestFailures(t *testing.T) {
	f := newFS(t)
	h := create(t, f, "a-file", "", false, false)
	once := f.FailOn(OpSync, "a-*", 2, errInjected)
	sticky := f.FailFrom(OpLstat, "", 2, errInjected)
	require.NoError(t, h.Sync())
	require.ErrorIs(t, h.Sync(), errInjected)
	require.NoError(t, h.Sync())
	require.Equal(t, 1, once.Fired())
	for i := range 3 {
		_, err := f.Lstat(f.Root())
		require.Equal(t, i > 0, errors.Is(err, errInjected))
	}
	sticky.Stop()
	_, err := f.Lstat(f.Root())
	require.NoError(t, err)

	f.FailOn(OpWriteAt, "", 1, errInjected)
	n, err := h.WriteAt([]byte("abcd"), 0)
	require.ErrorIs(t, err, errInjected)
	require.Equal(t, 2, n)
	require.Equal(t, "ab", image(t, snapshot(t, f), Newest)["a-file"])

	stop := f.Record()
	f.FailOn(AnyOp, "", 1, errInjected)
	require.ErrorIs(t, f.Remove(filepath.Join(f.Root(), "a-file")), errInjected)
	require.NoError(t, f.Remove(filepath.Join(f.Root(), "a-file")))
	require.Equal(t, []Call{{OpRemove, "a-file"}, {OpRemove, "a-file"}}, stop())
	require.Error(t, f.Remove(filepath.Join(f.Root(), "..", "outside")))
}

func TestNewTakesWhatIsThereAsKept(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "d"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "d", "f"), []byte("x"), 0o600))
	f, err := New(root)
	require.NoError(t, err)
	h, err := f.Open(filepath.Join(root, "d", "f"))
	require.NoError(t, err)
	_, err = h.WriteAt([]byte("y"), 0)
	require.NoError(t, err)
	s := snapshot(t, f)
	require.Equal(t, map[string]string{"d/f": "x"}, image(t, s, Oldest))
	require.Equal(t, map[string]string{"d/f": "y"}, image(t, s, Newest))
	require.NoError(t, h.Close())
	require.NoError(t, f.Close())
	require.Equal(t, map[string]string{"d/f": "y"}, tree(t, root))
}
