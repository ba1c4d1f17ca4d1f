package store

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// ledgerDir is a directory for ledgers.
func ledgerDir(t testing.TB) string {
	t.Helper()
	dir := scratch(t)
	mkdir(t, filepath.Join(dir, ownDir))
	return dir
}

func entry(topic string, id int32, n message.QueueOffset) ledgerEntry {
	return ledgerEntry{topic, id, 0, n}
}

func TestLedgerBytes(t *testing.T) {
	b := ledgerEntry{"Té", 258, 3, 1 << 40}.append(nil)
	require.Equal(t, []byte{
		0, 3, 'T', 0xC3, 0xA9, 0, 0, 1, 2,
		0, 0, 0, 0, 0, 0, 0, 3,
		0, 0, 1, 0, 0, 0, 0, 0,
	}, b)
	require.EqualValues(t, len(b), ledgerEntry{topic: "Té"}.size())
}

// TestLedgerGrowsAndIsRewritten: what a mark covers can be read as it was, also
// when more was added, and the ledger before a rewrite stays whole.
func TestLedgerGrowsAndIsRewritten(t *testing.T) {
	dir := ledgerDir(t)
	check := func(l ledger, want ...ledgerEntry) {
		t.Helper()
		again, entries, err := readLedger(segment.OS, dir, l.mark())
		require.NoError(t, err)
		require.Equal(t, want, entries)
		require.Equal(t, l.mark(), again.mark())
	}
	var none ledger
	require.True(t, none.outgrown(0))
	first, err := none.rewrite(segment.OS, dir, []ledgerEntry{entry("a", 0, 1), entry("b", 7, 2)}, 0o600)
	require.NoError(t, err)
	check(first, entry("a", 0, 1), entry("b", 7, 2))
	require.False(t, first.outgrown(ledgerSlack))
	require.True(t, first.outgrown(ledgerSlack+first.size+1))

	second, err := first.add(segment.OS, dir, []ledgerEntry{entry("a", 0, 5), entry("c", 1, 1)}, entry("c", 1, 1).size())
	require.NoError(t, err)
	check(second, entry("a", 0, 1), entry("b", 7, 2), entry("a", 0, 5), entry("c", 1, 1))
	check(first, entry("a", 0, 1), entry("b", 7, 2))
	require.Equal(t, first.live+entry("c", 1, 1).size(), second.live)

	other, err := first.add(segment.OS, dir, []ledgerEntry{entry("a", 0, 6)}, 0) // the point of second was never written
	require.NoError(t, err)
	check(other, entry("a", 0, 1), entry("b", 7, 2), entry("a", 0, 6))
	_, _, err = readLedger(segment.OS, dir, second.mark())
	require.ErrorIs(t, err, errLedger)

	third, err := other.rewrite(segment.OS, dir, []ledgerEntry{entry("a", 0, 6), entry("b", 7, 2)}, 0o600)
	require.NoError(t, err)
	require.NotEqual(t, other.file, third.file)
	check(third, entry("a", 0, 6), entry("b", 7, 2))
	check(other, entry("a", 0, 1), entry("b", 7, 2), entry("a", 0, 6))
	same, err := third.add(segment.OS, dir, nil, 0)
	require.NoError(t, err)
	require.Equal(t, third, same)
}

func TestDamagedLedger(t *testing.T) {
	dir := ledgerDir(t)
	var l ledger
	l, err := l.rewrite(segment.OS, dir, []ledgerEntry{entry("a", 0, 1), entry("b", 7, 2)}, 0o600)
	require.NoError(t, err)
	path := filepath.Join(dir, ownDir, l.file)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for name, m := range map[string]ledgerMark{
		"none":     {},
		"a path":   {"../commitlog/x", l.size, l.sum.Sum64()},
		"too long": {l.file, l.size + 1, l.sum.Sum64()},
		"negative": {l.file, -1, l.sum.Sum64()},
		"shorter":  {l.file, l.size - 1, l.sum.Sum64()},
		"sum":      {l.file, l.size, 1},
	} {
		_, _, err := readLedger(segment.OS, dir, m)
		require.ErrorIs(t, err, errLedger, name)
	}
	for i := range whole {
		b := append([]byte(nil), whole...)
		b[i] ^= 1
		require.NoError(t, os.WriteFile(path, b, 0o600))
		_, _, err := readLedger(segment.OS, dir, l.mark())
		require.ErrorIs(t, err, errLedger, fmt.Sprint(i))
	}
	require.NoError(t, os.Remove(path))
	_, _, err = readLedger(segment.OS, dir, l.mark())
	require.ErrorIs(t, err, os.ErrNotExist)
}

// FuzzReadLedger: whatever a ledger holds, if its checksum is right.
func FuzzReadLedger(f *testing.F) {
	f.Add(entry("topic", 3, 9).append(nil))
	f.Add([]byte{0xFF})
	f.Add([]byte{0xFF, 0xFF, 'x'})
	dir := ledgerDir(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		l := ledger{file: ledgerFiles[1], size: int64(len(b))}
		l.sum.Reset()
		_, _ = l.sum.Write(b)
		require.NoError(t, os.WriteFile(filepath.Join(dir, ownDir, l.file), b, 0o600))
		_, entries, err := readLedger(segment.OS, dir, l.mark())
		if err == nil {
			require.Equal(t, string(b), string(encodeEntries(entries)))
		}
	})
}
