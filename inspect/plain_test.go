package inspect_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/indexfile"
	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// TestVerifyIsFastAndPlain damages stores at random, in up to three places, and wants
// the same findings in the same order from what is fast as from what looks at one
// thing at a time.
func TestVerifyIsFastAndPlain(t *testing.T) {
	const rounds = 150
	ofRocketMQ, _ := indexStore(t)
	kinds := map[inspect.FindingKind]bool{}
	for name, sound := range map[string]string{"of RocketMQ": ofRocketMQ, "own": keyedStore(t)} {
		require.Empty(t, sameFindings(t, sound), name)
		for seed := range uint64(rounds) {
			dir := filepath.Join(t.TempDir(), "store")
			require.NoError(t, os.CopyFS(dir, os.DirFS(sound)))
			random := rand.New(rand.NewPCG(seed, 1))
			var done []string
			for range 1 + random.IntN(3) {
				done = append(done, damageOne(t, random, dir))
			}
			for _, f := range sameFindings(t, dir) {
				kinds[f.Kind] = true
			}
			require.False(t, t.Failed(), "%s, seed %d: %v", name, seed, done)
		}
	}
	for _, k := range []inspect.FindingKind{
		inspect.LogDamage, inspect.LogTail, inspect.RecordBody, inspect.RecordTime, inspect.Numbering, inspect.UnitMissing, inspect.UnitWrong,
		inspect.UnitZero, inspect.UnitLost, inspect.IndexEntry, inspect.IndexMissing, inspect.IndexSlot, inspect.IndexFile, inspect.IndexUnused,
	} {
		require.True(t, kinds[k], "no damage led to %s", k)
	}
}

// sameFindings verifies the store both ways.
func sameFindings(t *testing.T, dir string) (fast []inspect.Finding) {
	t.Helper()
	var plain []inspect.Finding
	fastSum, err := inspect.Verify(t.Context(), dir, func(f inspect.Finding) { fast = append(fast, f) })
	require.NoError(t, err)
	plainSum, err := inspect.VerifyPlain(t.Context(), dir, func(f inspect.Finding) { plain = append(plain, f) })
	require.NoError(t, err)
	require.Equal(t, plain, fast)
	require.Equal(t, plainSum, fastSum)
	return fast
}

// keyedStore makes a store of 300 messages in four queues of two topics, which have
// none, one or several keys, also the same key twice; some are in transactions.
func keyedStore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s, err := store.Open(t.Context(), dir, store.Config{
		Flush: store.FlushAsync, SegmentSize: segmentSize, ConsumeQueueFileSize: queueUnits * 20,
		IndexSlots: 50, IndexEntries: 170,
	})
	require.NoError(t, err)
	defer s.Close()
	for i := range 300 {
		m := &message.MessageExtBrokerInner{}
		m.Topic, m.QueueID = []string{"a", "topic"}[i/3%2], int32(i/20%2)
		m.Body = fmt.Appendf(nil, "the body of message %03d", i)
		unique := fmt.Sprintf("UNIQ_KEY\x01%032d", i)
		m.Properties = message.Properties([]string{
			unique, unique + "\x02TAGS\x01red\x02", "KEYS\x01x y\x02" + unique, "TAGS\x01blue", "KEYS\x01twice twice", "",
		}[i%6])
		if i%50 == 49 {
			m.SysFlag = m.SysFlag.WithTransaction(message.TransactionRollback)
		}
		_, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	return dir
}

// damageOne damages one file of the log, of a queue or of the index, and says how.
func damageOne(t *testing.T, random *rand.Rand, dir string) string {
	t.Helper()
	pattern := []string{"commitlog/*", "consumequeue/*/*/*", "index/*"}[random.IntN(3)]
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	path := files[random.IntN(len(files))]
	what := ""
	change(t, path, func(b []byte) {
		// Entries and units take 20 bytes, and in a file of the index end with the file.
		const width = 20
		first := len(b) % width
		one, other := first+random.IntN(len(b)/width)*width, first+random.IntN(len(b)/width)*width
		switch random.IntN(6) {
		case 0, 1:
			at := one + random.IntN(width)
			b[at] ^= 1 << random.IntN(8)
			what = fmt.Sprintf("bit at %d", at)
		case 2:
			end := min(len(b), one+1+random.IntN(100))
			clear(b[one:end])
			what = fmt.Sprintf("zeros in [%d, %d)", one, end)
		case 3:
			copy(b[one:one+width], b[other:])
			what = fmt.Sprintf("%d is that of %d", one, other)
		case 4:
			next := min(one+width, len(b)-width)
			for i := range width {
				b[one+i], b[next+i] = b[next+i], b[one+i]
			}
			what = fmt.Sprintf("%d and %d exchanged", one, next)
		case 5:
			copy(b[one+width:], b[one:])
			what = fmt.Sprintf("%d twice", one)
		}
	})
	if random.IntN(10) == 0 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "abort"), nil, 0o600))
		what += ", not closed"
	}
	rel, err := filepath.Rel(dir, path)
	require.NoError(t, err)
	return rel + ": " + what
}

// TestVerifyHearsOfEntriesInOrder exchanges two entries, of which one has a wrong hash,
// behind that of a record with a wrong number: the finding of the entry comes first.
func TestVerifyHearsOfEntriesInOrder(t *testing.T) {
	dir, files := indexStore(t)
	var offsets []int64 // of the records of three entries in a row
	change(t, files[0], func(b []byte) {
		e := func(i int) []byte { return b[entryAt(100+i):entryAt(101+i)] }
		for i := range 20 {
			offsets = []int64{offsetOf(e(i)), offsetOf(e(i + 1)), offsetOf(e(i + 2))}
			if offsets[0] < offsets[1] && offsets[1] < offsets[2] {
				first := slices.Clone(e(i + 1))
				copy(e(i+1), e(i+2))
				copy(e(i+2), first)
				e(i + 1)[0] ^= 1 // its hash
				return
			}
		}
		t.Fatal("no three records with one key each")
	})
	logs, err := filepath.Glob(filepath.Join(dir, "commitlog", "*"))
	require.NoError(t, err)
	change(t, logs[0], func(b []byte) { b[offsets[0]+20] = 1 }) // its queue offset
	found := sameFindings(t, dir)
	require.GreaterOrEqual(t, len(found), 2)
	require.Equal(t, inspect.IndexEntry, found[0].Kind)
	require.Equal(t, inspect.Numbering, found[1].Kind)
}

func offsetOf(entry []byte) int64 { return int64(indexfile.ParseEntry(entry).LogOffset) }
