package store

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/indexfile"
	"github.com/pocketmq/pocketmq/message"
)

// TestHolesOfTheIndexAreFilled: where a RocketMQ broker has left out keys, and the
// whole log is read anyway, the index is built again; and only there.
func TestHolesOfTheIndexAreFilled(t *testing.T) {
	const n = 100
	whole := scratch(t)
	s := openStore(t, whole, smallConfig(FlushSync))
	putN(t, s, "keyless", 0, 3)
	rolledBack := keyed("t", "rolled back", "rolled", "back")
	rolledBack.SysFlag = rolledBack.SysFlag.WithTransaction(message.TransactionRollback)
	putKeyed(t, s, rolledBack)
	putKeys(t, s, 0, n)
	putN(t, s, "keyless", 3, 3)
	indexed(t, s)
	require.Greater(t, len(s.index.files.Files()), 3)
	closeStore(t, s)
	remove := func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }
	for name, c := range map[string]struct {
		harm    func(t *testing.T, dir string, files []string)
		dropped func(files []string) []string
	}{
		"nothing missing": {func(*testing.T, string, []string) {}, func([]string) []string { return nil }},
		"first":           {func(t *testing.T, _ string, files []string) { remove(t, files[0]) }, func(files []string) []string { return files[1:] }},
		"middle":          {func(t *testing.T, _ string, files []string) { remove(t, files[1]) }, func(files []string) []string { return slices.Delete(slices.Clone(files), 1, 2) }},
		"last":            {func(t *testing.T, _ string, files []string) { remove(t, files[len(files)-1]) }, func([]string) []string { return nil }},
		"all but the last": {func(t *testing.T, _ string, files []string) {
			for _, f := range files[:len(files)-1] {
				remove(t, f)
			}
		}, func(files []string) []string { return files[len(files)-1:] }},
		"all": {func(t *testing.T, dir string, _ []string) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "index")))
		}, func([]string) []string { return nil }},
		"middle, crash": {func(t *testing.T, dir string, files []string) {
			remove(t, files[1])
			require.NoError(t, os.WriteFile(filepath.Join(dir, abortFile), nil, 0o600))
		}, func(files []string) []string { return nil }}, // see below
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyTree(t, whole)
			require.NoError(t, os.RemoveAll(filepath.Join(dir, ownDir)))
			files := indexNames(t, dir)
			c.harm(t, dir, files)
			s := openStore(t, dir, smallConfig(FlushSync))
			if want := c.dropped(files); name != "middle, crash" {
				require.Equal(t, want, s.Recovery().IndexDropped)
			} else { // what the checkpoint does not cover goes first, as RocketMQ does it
				require.Contains(t, s.Recovery().IndexDropped, files[0])
			}
			requireKeys(t, s, 0, n)
			closeStore(t, s)
			s = openStore(t, dir, smallConfig(FlushSync))
			require.Empty(t, s.Recovery().IndexDropped)
			require.Equal(t, s.MaxOffset(), s.Recovery().IndexFrom)
			requireKeys(t, s, 0, n)
			closeStore(t, s)
		})
	}
}

// TestLostIndexFileIsNotVouchedFor: somebody removes one while the store is open.
func TestLostIndexFileIsNotVouchedFor(t *testing.T) {
	const n = 100
	for _, idle := range []bool{false, true} {
		for which := range 3 {
			dir := scratch(t)
			s := openStore(t, dir, smallConfig(FlushSync))
			putKeys(t, s, 0, n)
			indexed(t, s)
			if idle {
				closeStore(t, s)
				s = openStore(t, dir, smallConfig(FlushSync))
			}
			files := indexNames(t, dir)
			require.Greater(t, len(files), 3)
			lost := files[[]int{0, 1, len(files) - 1}[which]]
			require.NoError(t, os.Remove(lost))
			closeStore(t, s)

			var p recoveryPoint
			require.NoError(t, readOwn(smallConfig(FlushSync).withDefaults().fs, dir, pointFile, &p))
			require.Len(t, p.IndexFiles, slices.Index(files, lost))
			last := message.LogOffset(0)
			for _, f := range p.IndexFiles {
				last = f.End
			}
			require.Equal(t, last, p.Index)
			s = openStore(t, dir, smallConfig(FlushSync))
			require.True(t, s.Recovery().FromPoint)
			requireKeys(t, s, 0, n)
			closeStore(t, s)
		}
	}
}

// TestIndexIsDividedAnew when no file is left, and stays so.
func TestIndexIsDividedAnew(t *testing.T) {
	dir := scratch(t)
	s := openStore(t, dir, smallConfig(FlushSync))
	putKeys(t, s, 0, 50)
	closeStore(t, s)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "index")))
	for _, cfg := range []Config{{IndexSlots: 9, IndexEntries: 23}, {}} {
		s = openStore(t, dir, cfg)
		require.EqualValues(t, 9, s.index.files.Slots())
		require.EqualValues(t, 23, s.index.files.Entries())
		requireKeys(t, s, 0, 50)
		closeStore(t, s)
	}
	_, err := Open(t.Context(), dir, smallConfig(FlushSync))
	require.ErrorIs(t, err, message.ErrIllegal)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "index")))
	s = openStore(t, dir, Config{IndexEntries: 31}) // the other value is the one that is remembered
	require.EqualValues(t, 9, s.index.files.Slots())
	require.EqualValues(t, 31, s.index.files.Entries())
	requireKeys(t, s, 0, 50)
	closeStore(t, s)
}

// TestUnknownGeometryNamesTheWayOut: both ways that the error names work.
func TestUnknownGeometryNamesTheWayOut(t *testing.T) {
	whole := scratch(t)
	s := openStore(t, whole, smallConfig(FlushSync))
	putKeys(t, s, 0, 5)
	closeStore(t, s)
	require.NoError(t, os.RemoveAll(filepath.Join(whole, ownDir)))
	overwrite(t, indexNames(t, whole)[0], 40, make([]byte, 4*testIndexSlots))
	_, err := Open(t.Context(), whole, Config{})
	require.ErrorIs(t, err, indexfile.ErrUnknownGeometry)
	require.ErrorContains(t, err, "set Config.IndexSlots and Config.IndexEntries, or remove "+filepath.Join(whole, "index"))

	dir := copyTree(t, whole)
	s = openStore(t, dir, Config{IndexSlots: testIndexSlots, IndexEntries: testIndexEntries})
	require.EqualValues(t, testIndexSlots, s.index.files.Slots())
	closeStore(t, s)
	dir = copyTree(t, whole)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "index")))
	s = openStore(t, dir, Config{})
	requireKeys(t, s, 0, 5)
	closeStore(t, s)
}
