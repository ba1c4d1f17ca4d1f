package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/indexfile"
	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/internal/golden"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

const indexFiles = "store/index/*"

// putKeys puts n messages with the keys from, from+1 … and one that all have.
func putKeys(t testing.TB, s *DefaultMessageStore, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		putKeyed(t, s, keyed("t", strconv.Itoa(i), "u"+strconv.Itoa(i), "all"))
	}
}

// requireKeys wants the keys from … from+n-1 to be found, each once, and those
// around them not; and no entry in the index that no key has.
func requireKeys(t testing.TB, s *DefaultMessageStore, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		require.Equal(t, []string{strconv.Itoa(i)}, find(t, s, KeyQuery{Topic: "t", Key: "u" + strconv.Itoa(i)}))
	}
	require.Empty(t, find(t, s, KeyQuery{Topic: "t", Key: "u" + strconv.Itoa(from-1)}))
	require.Empty(t, find(t, s, KeyQuery{Topic: "t", Key: "u" + strconv.Itoa(from+n)}))
	require.Len(t, find(t, s, KeyQuery{Topic: "t", Key: "all"}), min(n, s.cfg.MaxQueryResults))
	entries := 0
	for _, x := range s.index.files.Files() {
		entries += int(x.Header.Count) - 1
	}
	if s.recovery.LogStart == 0 {
		require.Equal(t, 2*n, entries)
	}
}

func indexNames(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "index", "*"))
	require.NoError(t, err)
	slices.Sort(names)
	return names
}

// TestIndexFilesMayBeLost: any of them, in any way, after a clean stop and
// after a kill. What is missing is built again from the log, and what is not
// serves on.
func TestIndexFilesMayBeLost(t *testing.T) {
	const n = 100 // 7 files
	cfg := smallConfig(FlushAsync)
	clean := scratch(t)
	s := openStore(t, clean, cfg)
	putKeys(t, s, 0, n/2)
	closeStore(t, s)
	s = openStore(t, clean, cfg)
	old := copyTree(t, clean)
	putKeys(t, s, n/2, n-n/2)
	indexed(t, s)
	dispatched(t, s)
	killed := copyTree(t, clean)
	closeStore(t, s)

	files := len(indexNames(t, clean))
	require.Equal(t, 7, files)
	change := func(edit func(b []byte) []byte) func(path string) error {
		return func(path string) error {
			b, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, edit(b), 0o600))
		}
	}
	losses := map[string]func(path string) error{
		"deleted":        os.Remove,
		"empty":          change(func([]byte) []byte { return nil }),
		"half":           change(func(b []byte) []byte { return b[:len(b)/2] }),
		"longer":         change(func(b []byte) []byte { return append(b, 0) }),
		"zero":           change(func(b []byte) []byte { return make([]byte, len(b)) }),
		"garbage header": change(func(b []byte) []byte { copy(b, "\xff\xff\xff\xff\xff\xff\xff\xff"); return b }),
		"count too high": change(func(b []byte) []byte { b[36] = 0x7f; return b }),
		"an older one": func(path string) error {
			b, err := os.ReadFile(filepath.Join(old, "index", filepath.Base(path)))
			if err != nil {
				return os.Remove(path)
			}
			return os.WriteFile(path, b, 0o600)
		},
	}
	for stop, dir := range map[string]string{"clean": clean, "killed": killed} {
		for name, lose := range losses {
			for i := range files {
				t.Run(fmt.Sprint(stop, "/", name, " ", i), func(t *testing.T) {
					d := copyTree(t, dir)
					require.NoError(t, lose(indexNames(t, d)[i]))
					s := openStore(t, d, cfg)
					require.Equal(t, stop == "clean", s.Recovery().Clean)
					require.True(t, s.Recovery().FromPoint)
					requireKeys(t, s, 0, n)
					closeStore(t, s)
				})
			}
		}
		t.Run(stop+"/directory deleted", func(t *testing.T) {
			d := copyTree(t, dir)
			require.NoError(t, os.RemoveAll(filepath.Join(d, "index")))
			s := openStore(t, d, cfg)
			require.Zero(t, s.Recovery().IndexFrom)
			requireKeys(t, s, 0, n)
			closeStore(t, s)
		})
	}
}

// TestIndexGoesOnWhereItWas: after a clean stop nothing is read again, also
// when the last messages have no keys.
func TestIndexGoesOnWhereItWas(t *testing.T) {
	dir, cfg := scratch(t), smallConfig(FlushSync)
	s := openStore(t, dir, cfg)
	for range 3 {
		putN(t, s, "u", int(s.MaxOffsetInQueue("u", 0)), 10)
		closeStore(t, s)
		before := contents(t, dir)
		s = openStore(t, dir, cfg)
		require.Equal(t, s.MaxOffset(), s.Recovery().IndexFrom)
		require.Empty(t, s.Recovery().IndexDropped)
		closeStore(t, s)
		requireSameFiles(t, before, contents(t, dir))
		s = openStore(t, dir, cfg)
		putKeys(t, s, int(s.MaxOffsetInQueue("t", 0)), 20)
	}
	requireKeys(t, s, 0, 60)
	closeStore(t, s)
}

// TestIndexGeometryIsRemembered: whatever else is configured later, even when
// the files are gone.
func TestIndexGeometryIsRemembered(t *testing.T) {
	dir := scratch(t)
	cfg := smallConfig(FlushSync)
	cfg.IndexSlots, cfg.IndexEntries = 5, 9
	s := openStore(t, dir, cfg)
	putKeys(t, s, 0, 20)
	closeStore(t, s)
	for _, lose := range []func(){
		func() {},
		func() { require.NoError(t, os.Remove(filepath.Join(dir, ownDir, pointFile))) },
		func() { require.NoError(t, os.RemoveAll(filepath.Join(dir, "index"))) },
	} {
		lose()
		cfg.IndexSlots, cfg.IndexEntries = 0, 0
		s = openStore(t, dir, cfg)
		requireKeys(t, s, 0, 20)
		require.EqualValues(t, 5, s.index.files.Slots())
		require.EqualValues(t, 9, s.index.files.Entries())
		closeStore(t, s)

		before := contents(t, dir)
		for field, c := range map[string]Config{"Slots": {IndexSlots: 6}, "Entries": {IndexSlots: 5, IndexEntries: 7}} {
			_, err := Open(t.Context(), dir, c)
			require.ErrorIs(t, err, message.ErrIllegal)
			require.ErrorContains(t, err, "Config.Index"+field)
			for _, value := range map[string][]string{"Slots": {"5", "6"}, "Entries": {"9", "7"}}[field] {
				require.ErrorContains(t, err, value)
			}
		}
		requireSameFiles(t, before, contents(t, dir))
	}
}

// TestIndexGeometryOfRocketMQ: it is seen in the files, and kept; where they do
// not show it, it has to be configured.
func TestIndexGeometryOfRocketMQ(t *testing.T) {
	c, err := golden.Load("index")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, c.Unpack(golden.StoreArchive, dir))
	before, err := golden.Files(dir)
	require.NoError(t, err)
	whole := copyTree(t, dir)

	_, err = Open(t.Context(), dir, Config{IndexEntries: 401})
	require.ErrorIs(t, err, message.ErrIllegal)
	require.ErrorContains(t, err, "400")
	require.ErrorContains(t, err, "401")
	s := openStore(t, dir, Config{})
	require.EqualValues(t, c.Config.MaxHashSlotNum, s.index.files.Slots())
	require.EqualValues(t, c.Config.MaxIndexNum, s.index.files.Entries())
	require.Equal(t, &indexGeometry{100, 400}, s.primary.Index)
	indexed(t, s)
	closeStore(t, s)
	after, err := golden.Files(dir)
	require.NoError(t, err)
	for name, b := range before {
		if filepath.Dir(name) == "index" {
			require.True(t, string(b) == string(after[name]), name)
		}
	}

	for i, name := range indexNames(t, whole) {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		if i == 0 {
			clear(b[40:440]) // its slots, by which it could be told
		}
		require.NoError(t, os.WriteFile(name, b, 0o600))
	}
	partly := copyTree(t, whole)
	s = openStore(t, partly, Config{})
	require.EqualValues(t, 100, s.index.files.Slots(), "the second file shows it")
	closeStore(t, s)
	for _, name := range indexNames(t, whole)[1:] {
		require.NoError(t, os.Remove(name))
	}
	files := contents(t, whole)
	_, err = Open(t.Context(), whole, Config{})
	require.ErrorIs(t, err, indexfile.ErrUnknownGeometry)
	made := contents(t, whole)
	delete(made, ownDir+"/")
	delete(made, ownDir+"/"+primaryFile)
	requireSameFiles(t, files, made)
	s = openStore(t, whole, Config{IndexSlots: 100, IndexEntries: 400})
	indexed(t, s)
	closeStore(t, s)
}

// TestRocketMQWithoutKeys: its index file has the size of its geometry and
// nothing in it.
func TestRocketMQWithoutKeys(t *testing.T) {
	made := func(size int64) string {
		dir := scratch(t)
		s := openStore(t, dir, smallConfig(FlushSync))
		putN(t, s, "u", 0, 3)
		closeStore(t, s)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, ownDir)))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "index")))
		path := filepath.Join(mkdir(t, filepath.Join(dir, "index")), "20220101000000000")
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Truncate(path, size))
		return dir
	}
	s := openStore(t, made(indexfile.FileSize(100, 400)), smallConfig(FlushSync))
	require.Len(t, s.Recovery().IndexDropped, 1)
	require.EqualValues(t, testIndexSlots, s.index.files.Slots())
	putKeys(t, s, 0, 3)
	requireKeys(t, s, 0, 3)
	closeStore(t, s)

	s = openStore(t, made(indexfile.FileSize(indexfile.RocketMQSlots, indexfile.RocketMQEntries)), Config{})
	require.Empty(t, s.Recovery().IndexDropped)
	require.EqualValues(t, indexfile.RocketMQSlots, s.index.files.Slots())
	closeStore(t, s)
}

func TestNoIndex(t *testing.T) {
	dir := scratch(t)
	with, without := smallConfig(FlushSync), smallConfig(FlushSync)
	without.NoIndex = true
	at := 0
	for range 3 {
		s := openStore(t, dir, without)
		putKeys(t, s, at, 20)
		at += 20
		_, err := s.QueryMessage(t.Context(), KeyQuery{Topic: "t", Key: "u1"})
		require.ErrorIs(t, err, ErrNoIndex)
		require.NoError(t, s.WaitIndexed(t.Context(), 1<<40))
		require.Zero(t, s.Stats().IndexedEnd)
		before := indexNames(t, dir)
		closeStore(t, s)
		require.Equal(t, before, indexNames(t, dir))

		s = openStore(t, dir, with)
		requireKeys(t, s, 0, at)
		putKeys(t, s, at, 7)
		at += 7
		requireKeys(t, s, 0, at)
		closeStore(t, s)
	}
}

// TestNoIndexAfterACutLog: the index may be ahead of the recovery point, and
// the log damaged between. What the index had there is not taken for what is
// written there later, while it is left alone.
func TestNoIndexAfterACutLog(t *testing.T) {
	dir := scratch(t)
	with, without := smallConfig(FlushSync), smallConfig(FlushSync)
	without.NoIndex = true
	s := openStore(t, dir, with)
	putKeys(t, s, 0, 10)
	closeStore(t, s)
	var point, later recoveryPoint
	require.NoError(t, readOwn(segment.OS, dir, pointFile, &point))
	s = openStore(t, dir, with)
	putKeys(t, s, 10, 30)
	indexed(t, s)
	cut, err := offsetsOf(s, KeyQuery{Topic: "t", Key: "u20"})
	require.NoError(t, err)
	closeStore(t, s)
	require.NoError(t, readOwn(segment.OS, dir, pointFile, &later))
	point.Index, point.IndexFiles = later.Index, later.IndexFiles
	require.NoError(t, writeOwn(segment.OS, dir, pointFile, point, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, abortFile), nil, 0o600))
	log := filepath.Join(dir, "commitlog", segment.FileName(0))
	b, err := os.ReadFile(log)
	require.NoError(t, err)
	clear(b[cut[0]:])
	require.NoError(t, os.WriteFile(log, b, 0o600))

	s = openStore(t, dir, without)
	require.True(t, s.Recovery().FromPoint)
	require.Equal(t, cut[0], s.MaxOffset())
	for i := range 5 {
		putKeyed(t, s, keyed("t", strconv.Itoa(20+i), "u"+strconv.Itoa(20+i), "all"))
	}
	closeStore(t, s)
	s = openStore(t, dir, with)
	requireKeys(t, s, 0, 25)
	closeStore(t, s)
}

// TestFullDiskWhileIndexing: queues go on, and the index catches up when there
// is space, in this life or the next.
func TestFullDiskWhileIndexing(t *testing.T) {
	for _, mode := range bothModes {
		for _, op := range []crashfs.Op{crashfs.OpCreate, crashfs.OpAllocate} {
			t.Run(fmt.Sprint(mode, " ", op), func(t *testing.T) {
				fs, dir := newCrashFS(t)
				cfg := withFS(smallConfig(mode), fs)
				s := openStore(t, dir, cfg)
				putKeys(t, s, 0, 10)
				indexed(t, s)
				full := fs.FailFrom(op, indexFiles, 1, segment.ErrNoSpace)
				putKeys(t, s, 10, 30)
				dispatched(t, s)
				require.EqualValues(t, 40, s.MaxOffsetInQueue("t", 0))
				err := s.WaitIndexed(t.Context(), s.MaxOffset())
				require.ErrorIs(t, err, message.ErrDiskFull)
				require.Positive(t, s.Stats().IndexFailures)
				require.Positive(t, s.Stats().IndexLag)
				r, err := s.QueryMessage(t.Context(), KeyQuery{Topic: "t", Key: "u3"})
				require.NoError(t, err)
				require.Len(t, r.Messages, 1)
				r.Release()
				closeStore(t, s)

				s = openStore(t, dir, cfg)
				require.True(t, s.Recovery().Clean)
				require.Less(t, s.Recovery().IndexFrom, s.MaxOffset())
				putKeys(t, s, 40, 1)
				full.Stop()
				require.Eventually(t, func() bool { return s.Stats().IndexLag == 0 }, time.Minute, time.Millisecond)
				requireKeys(t, s, 0, 41)
				closeStore(t, s)
			})
		}
	}
}

// TestPutsWaitForTheIndex that lags too far, until their context ends.
func TestPutsWaitForTheIndex(t *testing.T) {
	fs, dir := newCrashFS(t)
	cfg := withFS(smallConfig(FlushAsync), fs)
	cfg.MaxDispatchLag = 1000
	s := openStore(t, dir, cfg)
	full := fs.FailFrom(crashfs.OpCreate, indexFiles, 1, segment.ErrNoSpace)
	at := 0
	for tries := 0; s.Stats().LagWaits == 0; tries++ { // a put may be late for another reason, too
		require.Less(t, tries, 100)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := s.PutMessage(ctx, keyed("t", strconv.Itoa(at), "u"+strconv.Itoa(at), "all"))
		cancel()
		if err == nil {
			at++
			continue
		}
		require.True(t, errors.Is(err, context.DeadlineExceeded) || errors.Is(err, message.ErrDiskFull), "%v", err)
	}
	full.Stop()
	indexed(t, s)
	putKeys(t, s, at, 5)
	requireKeys(t, s, 0, at+5)
	closeStore(t, s)
}

// TestIndexSyncFails: that costs the next Open some work, and nobody anything
// else; not even when the power fails then.
func TestIndexSyncFails(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			fs, dir := newCrashFS(t)
			cfg := withFS(smallConfig(mode), fs)
			s := openStore(t, dir, cfg)
			putKeys(t, s, 0, 12)
			closeStore(t, s)
			s = openStore(t, dir, cfg)
			putKeys(t, s, 12, 20)
			indexed(t, s)
			failed := fs.FailFrom(crashfs.OpSync, indexFiles, 1, errInjected)
			require.NoError(t, s.Close())
			require.Positive(t, failed.Fired())
			failed.Stop()
			shot, err := fs.Snapshot()
			require.NoError(t, err)
			check := func(dir string, cfg Config) {
				s := openStore(t, dir, cfg)
				require.True(t, s.Recovery().Clean)
				require.True(t, s.Recovery().FromPoint)
				require.Less(t, s.Recovery().IndexFrom, s.MaxOffset())
				requireKeys(t, s, 0, 32)
				closeStore(t, s)
			}
			for seed := range uint64(20) {
				image := scratch(t)
				_, err := shot.Image(seed, image)
				require.NoError(t, err)
				check(filepath.Join(image, "store"), smallConfig(mode))
			}
			check(dir, cfg)
		})
	}
}

// TestCloseFarBehind: Close does not wait for an index that is being built; the
// next Open goes on.
func TestCloseFarBehind(t *testing.T) {
	fs, dir := newCrashFS(t)
	cfg := withFS(smallConfig(FlushAsync), fs)
	without := cfg
	without.NoIndex = true
	s := openStore(t, dir, without)
	putKeys(t, s, 0, 100)
	closeStore(t, s)
	cfg.MaxDispatchLag = 1000
	full := fs.FailFrom(crashfs.OpCreate, indexFiles, 3, segment.ErrNoSpace)
	s = openStore(t, dir, cfg)
	putKeys(t, s, 100, 1) // which does not wait, either
	require.Error(t, s.WaitIndexed(t.Context(), s.MaxOffset()))
	lag := s.Stats().IndexLag
	require.Greater(t, lag, cfg.MaxDispatchLag)
	closeStore(t, s)
	full.Stop()
	s = openStore(t, dir, cfg)
	require.True(t, s.Recovery().Clean)
	require.Positive(t, s.Recovery().IndexFrom, "not from the start")
	require.Less(t, s.Recovery().IndexFrom, s.MaxOffset())
	requireKeys(t, s, 0, 101)
	closeStore(t, s)
}

// TestLogStartBehindTheIndex: files of the log are gone, some before they were
// indexed.
func TestLogStartBehindTheIndex(t *testing.T) {
	for _, noIndex := range []bool{false, true} {
		dir := scratch(t)
		cfg := smallConfig(FlushSync)
		cfg.NoIndex = noIndex
		s := openStore(t, dir, cfg)
		for i := range 40 {
			m := keyed("t", strconv.Itoa(i), "u"+strconv.Itoa(i), "all")
			m.Properties += message.Properties("\x02p\x01" + strings.Repeat("v", 1500))
			putKeyed(t, s, m)
		}
		closeStore(t, s)
		require.NoError(t, os.Remove(filepath.Join(dir, "commitlog", segment.FileName(0))))
		require.NoError(t, os.Remove(filepath.Join(dir, "commitlog", segment.FileName(testSegment))))
		cfg.NoIndex = false
		for range 2 {
			s = openStore(t, dir, cfg)
			require.EqualValues(t, 2*testSegment, s.Recovery().LogStart)
			require.GreaterOrEqual(t, s.Recovery().IndexFrom, s.Recovery().LogStart)
			first := int(s.MinOffsetInQueue("t", 0))
			require.Positive(t, first)
			requireKeys(t, s, first, 40-first)
			closeStore(t, s)
		}
	}
}

// TestGenerationGrowsWhenOthersWrote: derived files of before are then ignored,
// should they come back.
func TestGenerationGrowsWhenOthersWrote(t *testing.T) {
	dir, cfg := scratch(t), smallConfig(FlushSync)
	generation := func() uint64 {
		var p primary
		require.NoError(t, readOwn(segment.OS, dir, primaryFile, &p))
		return p.Generation
	}
	s := openStore(t, dir, cfg)
	putKeys(t, s, 0, 5)
	closeStore(t, s)
	s = openStore(t, dir, cfg)
	require.Zero(t, generation())
	putKeys(t, s, 5, 5)
	closeStore(t, s)
	require.Zero(t, generation(), "it was only us")
	point := filepath.Join(dir, ownDir, pointFile)
	old, err := os.ReadFile(point)
	require.NoError(t, err)

	require.NoError(t, os.Remove(point))
	s = openStore(t, dir, cfg)
	require.False(t, s.Recovery().FromPoint)
	requireKeys(t, s, 0, 10)
	closeStore(t, s)
	require.EqualValues(t, 1, generation())
	s = openStore(t, dir, cfg)
	require.True(t, s.Recovery().FromPoint)
	closeStore(t, s)

	require.NoError(t, os.WriteFile(point, old, 0o600))
	s = openStore(t, dir, cfg)
	require.False(t, s.Recovery().FromPoint, "the point of another generation")
	requireKeys(t, s, 0, 10)
	closeStore(t, s)
	require.EqualValues(t, 2, generation())
}

// TestGenerationGrowsWhenRecordsWereAppended after our clean stop.
func TestGenerationGrowsWhenRecordsWereAppended(t *testing.T) {
	dir, cfg := scratch(t), smallConfig(FlushSync)
	s := openStore(t, dir, cfg)
	putKeys(t, s, 0, 5)
	closeStore(t, s)
	ours := copyTree(t, filepath.Join(dir, ownDir))
	s = openStore(t, dir, cfg)
	putKeys(t, s, 5, 5)
	closeStore(t, s)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, ownDir)))
	require.NoError(t, os.CopyFS(filepath.Join(dir, ownDir), os.DirFS(ours)))
	s = openStore(t, dir, cfg)
	require.True(t, s.Recovery().FromPoint)
	require.EqualValues(t, 5, s.Recovery().Records)
	require.EqualValues(t, 1, s.primary.Generation)
	requireKeys(t, s, 0, 10)
	closeStore(t, s)
	s = openStore(t, dir, cfg)
	require.EqualValues(t, 1, s.primary.Generation)
	requireKeys(t, s, 0, 10)
	closeStore(t, s)
}

// TestPrimaryFileIsNeverGuessed: damaged or from a later version, nothing is
// changed.
func TestPrimaryFileIsNeverGuessed(t *testing.T) {
	dir, cfg := scratch(t), smallConfig(FlushSync)
	s := openStore(t, dir, cfg)
	putKeys(t, s, 0, 5)
	closeStore(t, s)
	path := filepath.Join(dir, ownDir, primaryFile)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	refused := func(want error) error {
		before := contents(t, dir)
		_, err := Open(t.Context(), dir, cfg)
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, path)
		requireSameFiles(t, before, contents(t, dir))
		return err
	}
	for at := range whole {
		flipBit(t, path, int64(at), 1<<(at%8))
		_ = refused(message.ErrCorrupt)
		require.NoError(t, os.WriteFile(path, whole, 0o600))
	}
	for _, b := range [][]byte{nil, whole[:len(whole)/2], whole[:16], []byte("{}")} {
		require.NoError(t, os.WriteFile(path, b, 0o600))
		_ = refused(message.ErrCorrupt)
	}
	for _, later := range []any{
		map[string]any{"format": 2},
		map[string]any{"format": 7, "generation": "a text", "storeHost": []int{1}, "index": 3},
	} {
		require.NoError(t, writeOwn(segment.OS, dir, primaryFile, later, 0o600))
		err := refused(ErrFormat)
		var f *FormatError
		require.ErrorAs(t, err, &f)
		require.Equal(t, formatVersion, f.Most)
		require.EqualValues(t, later.(map[string]any)["format"], f.Got)
	}
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	s = openStore(t, dir, cfg)
	requireKeys(t, s, 0, 5)
	closeStore(t, s)
}

// TestCheckpointOfTheIndex: it is the end of the last file that is full and on
// disk, as a RocketMQ broker wants it after a crash.
func TestCheckpointOfTheIndex(t *testing.T) {
	var now clock
	now.ms.Store(1_700_000_000_000)
	fs, dir := newCrashFS(t)
	cfg := withFS(smallConfig(FlushSync), fs)
	cfg.Now = now.now
	s := openStore(t, dir, cfg)
	read := func() int64 {
		cp, err := loadCheckpoint(segment.OS, dir)
		require.NoError(t, err)
		return cp.index
	}
	perFile := (testIndexEntries - 1) / 2 // messages with two keys
	want := int64(0)
	for i := range 4*perFile + 3 {
		r := putKeyed(t, s, keyed("t", strconv.Itoa(i), "u"+strconv.Itoa(i), "all"))
		indexed(t, s)
		now.advance(time.Second)
		if (i+1)%perFile == 0 {
			want = r.StoreTimestamp
		}
		if i%5 == 0 {
			closeStore(t, s)
			require.Equal(t, want, read(), "after %d messages", i+1)
			s = openStore(t, dir, cfg)
			require.Equal(t, want, s.checkpoint.index)
		}
	}
	files := s.index.files.Files()
	require.Len(t, files, 5)
	require.Equal(t, want, files[3].Header.EndTimestamp)

	// Without our point the full files are kept by it, as RocketMQ does.
	closeStore(t, s)
	require.NoError(t, os.Remove(filepath.Join(dir, ownDir, pointFile)))
	require.NoError(t, os.WriteFile(filepath.Join(dir, abortFile), nil, 0o600))
	s = openStore(t, dir, cfg)
	require.Equal(t, files[3].Header.EndLogOffset, s.Recovery().IndexFrom)
	requireKeys(t, s, 0, 4*perFile+3)
	require.Len(t, indexNames(t, dir), 5)
	closeStore(t, s)
}

// TestCheckpointIsNotAheadOfTheIndex: at no moment at which power fails it
// names a file whose entries are not on disk.
func TestCheckpointIsNotAheadOfTheIndex(t *testing.T) {
	fs, dir := newCrashFS(t)
	cfg := withFS(smallConfig(FlushAsync), fs)
	var mu sync.Mutex
	var shots []*crashfs.Snapshot
	r := rand.New(rand.NewPCG(4, 4))
	fs.Hook(func(c crashfs.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if !changes[c.Op] || r.IntN(4) > 0 {
			return nil
		}
		shot, err := fs.Snapshot()
		shots = append(shots, shot)
		return err
	})
	at := 0
	for range 4 {
		s := openStore(t, dir, cfg)
		putKeys(t, s, at, 20)
		at += 20
		indexed(t, s)
		closeStore(t, s)
	}
	fs.Hook(nil)
	full := 0
	for i, shot := range shots {
		image := filepath.Join(scratch(t), "image")
		_, err := shot.Image(uint64(i), image)
		require.NoError(t, err)
		full += requireFullFiles(t, filepath.Join(image, "store"))
	}
	require.Positive(t, full)
}

// requireFullFiles looks at what a RocketMQ broker would keep of the index, and
// returns how many files that are.
func requireFullFiles(t *testing.T, dir string) int {
	t.Helper()
	cp, err := loadCheckpoint(segment.OS, dir)
	require.NoError(t, err)
	x, err := indexfile.Open(indexfile.Config{Dir: filepath.Join(dir, "index"), Slots: testIndexSlots, Entries: testIndexEntries, Rebuild: true})
	require.NoError(t, err)
	defer x.Close()
	require.NoError(t, x.RemoveNewer(cp.index))
	n := 0
	for _, f := range slices.Backward(x.Files()) {
		if f.Header.Count < testIndexEntries {
			require.LessOrEqual(t, f.Header.EndTimestamp, cp.index)
			continue
		}
		n++
		before, err := os.ReadFile(f.Path)
		require.NoError(t, err)
		require.NoError(t, x.Repair(f.Header.EndLogOffset+1)) // which looks at the newest, and removes what comes behind
		after, err := os.ReadFile(f.Path)
		require.NoError(t, err)
		require.True(t, string(before) == string(after), "%s is not whole, and the checkpoint says so", f.Path)
	}
	return n
}
