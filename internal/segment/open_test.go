package segment

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

func TestLayoutRules(t *testing.T) {
	name := func(i int64) string { return FileName(i * testSize) }
	for _, tc := range []struct {
		about  string
		files  map[string]int64 // name → length; -1 is a directory, -2 a symbolic link
		infer  bool             // open with FileSize 0
		err    error
		at     string // the path the error names
		bases  []int64
		remain int // entries left in the directory
	}{
		{about: "empty", bases: []int64{}},
		{about: "one", files: map[string]int64{name(0): testSize}, bases: []int64{0}, remain: 1},
		{about: "not from zero", files: map[string]int64{name(7): testSize, name(8): testSize}, bases: []int64{7 * testSize, 8 * testSize}, remain: 2},
		{about: "inferred", files: map[string]int64{name(0): testSize, name(1): testSize}, infer: true, bases: []int64{0, testSize}, remain: 2},
		{about: "inferred, unfinished last", files: map[string]int64{name(0): testSize, name(1): 0}, infer: true, bases: []int64{0}, remain: 1},
		{about: "nothing to infer from", infer: true, err: ErrUnknownSize},
		{about: "nothing but an unfinished file to infer from", files: map[string]int64{name(0): 0}, infer: true, err: ErrUnknownSize},
		{about: "unfinished last", files: map[string]int64{name(0): testSize, name(1): 0}, bases: []int64{0}, remain: 1},
		{about: "unfinished only", files: map[string]int64{name(0): 0}, bases: []int64{}},
		{about: "unfinished in the middle", files: map[string]int64{name(0): testSize, name(1): 0, name(2): testSize}, err: ErrFileSize, at: name(1)},
		{about: "unfinished first", files: map[string]int64{name(0): 0, name(1): testSize}, err: ErrFileSize, at: name(0)},
		{about: "unfinished last, not the next", files: map[string]int64{name(0): testSize, name(2): 0}, err: ErrGap, at: name(2)},
		{about: "short", files: map[string]int64{name(0): testSize - 1}, err: ErrFileSize, at: name(0)},
		{about: "short last", files: map[string]int64{name(0): testSize, name(1): 1}, err: ErrFileSize, at: name(1)},
		{about: "long", files: map[string]int64{name(0): testSize + 1}, err: ErrFileSize, at: name(0)},
		{about: "different sizes, inferred", files: map[string]int64{name(0): testSize, name(1): testSize / 2}, infer: true, err: ErrFileSize, at: name(1)},
		{about: "gap", files: map[string]int64{name(0): testSize, name(2): testSize}, err: ErrGap, at: name(2)},
		{about: "overlap", files: map[string]int64{name(0): testSize, FileName(testSize / 2): testSize}, err: ErrGap, at: FileName(testSize / 2)},
		{about: "no multiple", files: map[string]int64{FileName(10): testSize}, err: ErrGap, at: FileName(10)},
		{about: "foreign name", files: map[string]int64{name(0): testSize, "notes.txt": 3}, err: ErrForeignFile, at: "notes.txt"},
		{about: "19 digits", files: map[string]int64{name(0)[1:]: testSize}, err: ErrForeignFile, at: name(0)[1:]},
		{about: "sign", files: map[string]int64{"+0000000000000000000": testSize}, err: ErrForeignFile, at: "+0000000000000000000"},
		{about: "above int64", files: map[string]int64{"99999999999999999999": testSize}, err: ErrForeignFile, at: "99999999999999999999"},
		{about: "directory", files: map[string]int64{name(0): -1}, err: ErrForeignFile, at: name(0)},
		{about: "symbolic link", files: map[string]int64{name(0): testSize, name(1): -2}, err: ErrForeignFile, at: name(1)},
		{about: "foreign beside unfinished", files: map[string]int64{name(0): testSize, name(1): 0, "x": 0}, err: ErrForeignFile, at: "x"},
	} {
		t.Run(tc.about, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "seg")
			if tc.files != nil {
				require.NoError(t, os.Mkdir(dir, 0o700))
			}
			for name, size := range tc.files {
				makeEntry(t, filepath.Join(dir, name), size)
			}
			before, live := listing(t, root), mmap.Live()
			cfg := Config{Dir: dir, FileSize: testSize}
			if tc.infer {
				cfg.FileSize = 0
			}
			s, err := Open(cfg)
			if tc.err != nil {
				require.ErrorIs(t, err, tc.err)
				require.ErrorContains(t, err, tc.at)
				require.Equal(t, before, listing(t, root), "something changed")
				require.Equal(t, live, mmap.Live())
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.bases, bases(s))
			require.Equal(t, int64(testSize), s.FileSize())
			entries, _ := os.ReadDir(dir)
			require.Len(t, entries, tc.remain)
			require.NoError(t, s.Close())
			require.Equal(t, live, mmap.Live())
		})
	}
}

func makeEntry(t *testing.T, path string, size int64) {
	t.Helper()
	switch size {
	case -1:
		require.NoError(t, os.Mkdir(path, 0o700))
	case -2:
		target := filepath.Join(t.TempDir(), "target")
		makeEntry(t, target, testSize)
		if err := os.Symlink(target, path); err != nil {
			t.Skip("no symbolic links here:", err)
		}
	default:
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Truncate(path, size))
	}
}

func TestTypedErrorsCarryFacts(t *testing.T) {
	dir := t.TempDir()
	makeEntry(t, filepath.Join(dir, FileName(0)), 123)
	_, err := Open(Config{Dir: dir, FileSize: testSize})
	var size *SizeError
	require.ErrorAs(t, err, &size)
	require.Equal(t, SizeError{Path: filepath.Join(dir, FileName(0)), Got: 123, Want: testSize}, *size)

	dir = t.TempDir()
	makeEntry(t, filepath.Join(dir, FileName(0)), testSize)
	makeEntry(t, filepath.Join(dir, FileName(3*testSize)), testSize)
	_, err = Open(Config{Dir: dir, FileSize: testSize})
	var gap *GapError
	require.ErrorAs(t, err, &gap)
	require.Equal(t, int64(3*testSize), gap.Got)
	require.Equal(t, int64(testSize), gap.Want)
}

func TestOpenFailsAtEachCall(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "seg")
	require.NoError(t, os.Mkdir(dir, 0o700))
	for i := range int64(3) {
		makeEntry(t, filepath.Join(dir, FileName(i*testSize)), testSize)
	}
	makeEntry(t, filepath.Join(dir, FileName(3*testSize)), 0)
	before, live := listing(t, root), mmap.Live()
	fsys := newFailFS()
	for n := 1; ; n++ {
		fsys.failNth(n, false, errInjected)
		s, err := Open(Config{FS: fsys, Dir: dir, FileSize: testSize})
		if err == nil {
			require.Greater(t, n, 6)
			fsys.set(nil)
			require.NoError(t, s.Close())
			break
		}
		require.ErrorIs(t, err, errInjected, fsys.did())
		require.Equal(t, before, listing(t, root))
		require.Equal(t, live, mmap.Live(), "call %d: a mapping is left", n)
	}
}

func TestFirstSyncMakesFoundEntriesDurable(t *testing.T) {
	dir := t.TempDir()
	makeEntry(t, filepath.Join(dir, FileName(0)), testSize)
	fsys := newFailFS()
	s, err := Open(Config{FS: fsys, Dir: dir, FileSize: testSize})
	require.NoError(t, err)
	defer s.Close()
	fsys.set(nil)
	require.NoError(t, s.Sync(0, 1))
	require.NoError(t, s.Sync(0, 1))
	require.Equal(t, []string{"open", "size", "map", "sync", "syncdir", "sync"}, fsys.did())
}

func TestRootedRefusesLinksInsideOnly(t *testing.T) {
	top := t.TempDir()
	disk := filepath.Join(top, "disk")
	require.NoError(t, os.Mkdir(disk, 0o700))
	root := filepath.Join(top, "store")
	if err := os.Symlink(disk, root); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	fsys := Rooted(OS, root)
	require.NoError(t, fsys.MkdirAll(filepath.Join(root, "a", "b"), 0o700), "the root may be a link")

	elsewhere := t.TempDir()
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(root, "commitlog")))
	inside := filepath.Join(root, "commitlog", "x")
	h, err := OS.Create(filepath.Join(elsewhere, "x"), 0o600)
	require.NoError(t, err)
	require.NoError(t, h.Close())
	for name, call := range map[string]func() error{
		"mkdir":  func() error { return fsys.MkdirAll(filepath.Join(root, "commitlog", "q"), 0o700) },
		"create": func() error { _, err := fsys.Create(filepath.Join(root, "commitlog", "y"), 0o600); return err },
		"create sized": func() error {
			_, err := fsys.CreateSized(filepath.Join(root, "commitlog", "y"), 0o600, testSize)
			return err
		},
		"open":     func() error { _, err := fsys.Open(inside); return err },
		"openread": func() error { _, err := fsys.OpenRead(inside); return err },
		"remove":   func() error { return fsys.Remove(inside) },
		"rename":   func() error { return fsys.Rename(inside, filepath.Join(root, "z")) },
		"link":     func() error { return fsys.Link(inside, filepath.Join(root, "z")) },
		"readdir":  func() error { _, err := fsys.ReadDir(filepath.Join(root, "commitlog")); return err },
		"lstat":    func() error { _, err := fsys.Lstat(inside); return err },
		"syncdir":  func() error { return fsys.SyncDir(filepath.Join(root, "commitlog")) },
	} {
		require.ErrorIs(t, call(), ErrForeignFile, name)
	}
	_, err = Open(Config{FS: fsys, Dir: filepath.Join(root, "commitlog"), FileSize: testSize})
	require.ErrorIs(t, err, ErrForeignFile)
	left, err := os.ReadDir(elsewhere)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestRootedLetsTheRestThrough(t *testing.T) {
	root := t.TempDir()
	fsys := Rooted(OS, root)
	s := openIn(t, root, Config{FS: fsys})
	fill(t, s, 3)
	_, err := s.RemoveBefore(testSize)
	require.NoError(t, err)
	_, _, err = s.CutAfter(testSize+7, false)
	require.NoError(t, err)
	require.NoError(t, s.CheckInPlace())
	require.NoError(t, s.Close())
	s = openIn(t, root, Config{FS: fsys})
	require.Equal(t, []int64{testSize}, bases(s))
	path := filepath.Join(root, "config.json")
	require.NoError(t, WriteFileAtomic(fsys, path, []byte("one"), 0o600, true))
	require.NoError(t, WriteFileAtomic(fsys, path, []byte("two"), 0o600, true))
	got, err := ReadFile(fsys, path+".bak")
	require.NoError(t, err)
	require.Equal(t, "one", string(got))
}

func TestMkdirAllThroughAFileFails(t *testing.T) {
	dir := t.TempDir()
	makeEntry(t, filepath.Join(dir, "f"), 1)
	require.Error(t, OS.MkdirAll(filepath.Join(dir, "f"), 0o700))
	require.Error(t, OS.MkdirAll(filepath.Join(dir, "f", "g"), 0o700))
}

func TestOpenRefusesWhatIsNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	_, err := OS.Open(dir)
	require.Error(t, err)
	_, err = OS.Open(filepath.Join(dir, "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
