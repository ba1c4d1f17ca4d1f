package indexfile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

func TestPutTakesUniqueKeyAndWords(t *testing.T) {
	w := newWorld(t, 100, 400)
	r := w.record("topic", "unique", " a  b ", 0)
	require.NoError(t, w.index.Put(r))
	for _, key := range []string{"unique", "a", "b"} {
		require.Equal(t, offsets(r.LogOffset()), w.query("topic", key), key)
	}
	for _, key := range []string{"", " ", "a ", " a  b ", "A"} {
		require.Empty(t, w.query("topic", key), key)
	}
	require.EqualValues(t, 4, w.index.Files()[0].Header.Count)
	require.Equal(t, w.end, w.index.NextLogOffset())
}

func TestPutByTransactionType(t *testing.T) {
	w := newWorld(t, 100, 400)
	for _, flag := range []message.SysFlag{message.TransactionNone, message.TransactionPrepared, message.TransactionCommit, message.TransactionRollback} {
		require.NoError(t, w.index.Put(w.record("topic", "", "k", flag)))
	}
	require.Equal(t, w.order[:3], w.query("topic", "k"))
	require.Equal(t, w.end, w.index.NextLogOffset())
}

// TestSlotCount wants used slots in the header, not entries.
func TestSlotCount(t *testing.T) {
	w := newWorld(t, 100, 400)
	first := w.put("TopicTest", "k1")
	w.clock += 5000
	w.put("TopicTest", "k1")
	w.clock += 5000
	last := w.put("TopicTest", "k2")
	require.Equal(t, Header{
		BeginTimestamp: startTime, EndTimestamp: startTime + 10000, BeginLogOffset: first, EndLogOffset: last, SlotCount: 2, Count: 4,
	}, w.index.Files()[0].Header)
}

func TestFirstRecordMakesFileEvenWithoutKeys(t *testing.T) {
	w := newWorld(t, 10, 10)
	w.put("topic", "")
	require.Equal(t, []string{"20220415052000123"}, names(t, w.cfg.Dir))
	require.Equal(t, make([]byte, FileSize(10, 10)), images(t, w.cfg.Dir)[0])
	require.Empty(t, w.query("topic", "k"))
	w.reopen()
	require.EqualValues(t, 1, w.index.Files()[0].Header.Count)
}

// TestFilesInOneMillisecond: names stay unique and ascend, also when the clock is
// set back.
func TestFilesInOneMillisecond(t *testing.T) {
	w := newWorld(t, 4, 2)
	var want []message.LogOffset
	for i := range 10 {
		if i == 5 {
			w.clock -= 3_600_000
		}
		want = append(want, w.put("topic", "k"))
	}
	require.Len(t, w.index.Files(), 10)
	w.reopen()
	require.True(t, slices.IsSortedFunc(w.index.Files(), func(a, b FileInfo) int { return int(a.Header.BeginLogOffset - b.Header.BeginLogOffset) }))
	require.Equal(t, want, w.query("topic", "k"))
}

func TestNameAfter(t *testing.T) {
	at := time.Date(2022, 4, 15, 5, 20, 0, 123_999_999, time.UTC)
	for last, want := range map[string]string{
		"":                  "20220415052000123",
		"20220415052000122": "20220415052000123",
		"20220415052000123": "20220415052000124",
		"20220415052000999": "20220415052001000",
		"20991231235959999": "20991231235960000",
		"3":                 "4",
		"9":                 "90",
		"-5":                "20220415052000123",
	} {
		got, err := nameAfter(last, at)
		require.NoError(t, err)
		require.Equal(t, want, got, last)
		require.Greater(t, got, last)
		require.True(t, isFileName(got))
	}
	_, err := nameAfter("9999999999999999999", at)
	require.Error(t, err)
	require.False(t, isFileName("2022.tmp"))
}

// TestFollowingFileBeginsAtItsFirstRecord: RocketMQ gives its first entry a time
// that is too late by the time between the files.
func TestFollowingFileBeginsAtItsFirstRecord(t *testing.T) {
	w := newWorld(t, 10, 3)
	w.put("topic", "a b")
	w.clock += 60_000
	off := w.put("topic", "c")
	require.Equal(t, offsets(off), w.within("topic", "c", w.clock, w.clock))
	raw, err := w.index.QueryRaw("topic", "c", 10, w.clock, w.clock)
	require.NoError(t, err)
	require.Equal(t, offsets(off), raw.LogOffsets)
}

func TestRecordOverSeveralFiles(t *testing.T) {
	w := newWorld(t, 7, 4)
	r := w.record("topic", "u", "a b c d e f g a", 0)
	require.NoError(t, w.index.Put(r))
	require.Len(t, w.index.Files(), 3)
	for range 2 {
		for _, key := range []string{"u", "a", "b", "c", "d", "e", "f", "g"} {
			require.Equal(t, offsets(r.LogOffset()), w.query("topic", key))
		}
		before := images(t, w.cfg.Dir)
		require.NoError(t, w.index.Put(r)) // again, now and after a restart
		require.Equal(t, before, images(t, w.cfg.Dir))
		w.reopen()
	}
}

// TestAgainCompletesRecord cuts the last record's entries off one by one, as a
// kill does, and puts it again.
func TestAgainCompletesRecord(t *testing.T) {
	build := func(entries int32) *world {
		w := newWorld(t, 7, entries)
		w.put("topic", "x y")
		require.NoError(t, w.index.Put(w.record("topic", "u", "a b a c", 0)))
		return w
	}
	for _, entries := range []int32{2, 3, 4, 100} {
		whole := build(entries)
		want := images(t, whole.cfg.Dir)
		for fails := 1; fails <= 5; fails++ {
			w := newWorld(t, 7, entries)
			w.put("topic", "x y")
			r := w.record("topic", "u", "a b a c", 0)
			ks, n := keysOf(r.Marks), 0
			for key := ks.next(); key != nil && n < fails; key = ks.next() {
				f, err := w.index.writable()
				require.NoError(t, err)
				require.NoError(t, f.insert(KeyHash("topic", string(key)), r.LogOffset(), r.StoreTimestamp()))
				n++
			}
			if fails%2 == 0 {
				w.reopen()
			}
			require.NoError(t, w.index.Put(r))
			require.Equal(t, want, images(t, w.cfg.Dir), "%d entries, %d keys", entries, fails)
		}
	}
}

// TestAgainAfterOtherHistory: what lay at that offset was another record.
func TestAgainAfterOtherHistory(t *testing.T) {
	w := newWorld(t, 100, 100)
	w.put("topic", "a")
	w.end, w.order = 0, nil
	off := w.put("topic", "b c")
	require.Equal(t, offsets(off), w.query("topic", "b"))
	require.Equal(t, offsets(off), w.query("topic", "c"))
	require.Empty(t, w.query("topic", "a")) // the record there has another key
}

func TestEarlierRecordsArePassedOver(t *testing.T) {
	w := newWorld(t, 100, 100)
	for range 5 {
		w.put("topic", "k")
	}
	before := images(t, w.cfg.Dir)
	for _, off := range w.order {
		r := w.log[off]
		require.NoError(t, w.index.Put(&r))
	}
	require.Equal(t, before, images(t, w.cfg.Dir))
}

// TestFullDisk fails each kind of operation and tries again when it works.
func TestFullDisk(t *testing.T) {
	full := fmt.Errorf("%w: %w", segment.ErrNoSpace, syscall.ENOSPC)
	for _, op := range []string{"mkdirall", "create", "truncate", "allocate", "sync", "syncdir", "map"} {
		t.Run(op, func(t *testing.T) {
			w := newWorld(t, 10, 4)
			w.fs.failOps(full, op)
			r := w.record("topic", "u", "a b c d", 0)
			for range 100 {
				require.ErrorIs(t, w.index.Put(r), segment.ErrNoSpace)
				require.Empty(t, w.query("topic", "a"))
			}
			if op != "mkdirall" {
				require.Empty(t, names(t, w.cfg.Dir))
			}
			w.fs.set(nil)
			require.NoError(t, w.index.Put(r))

			more := w.record("topic", "", "e f g h", 0) // needs a file at its second key
			w.fs.failOps(full, op)
			if op == "mkdirall" { // only the first file needs it
				w.fs.failOps(full, "create")
			}
			for range 3 {
				require.ErrorIs(t, w.index.Put(more), segment.ErrNoSpace)
			}
			require.Equal(t, offsets(more.LogOffset()), w.query("topic", "e"))
			require.Empty(t, w.query("topic", "g"))
			w.fs.set(nil)
			require.NoError(t, w.index.Put(more))
			require.Equal(t, offsets(more.LogOffset()), w.query("topic", "h"))
			require.Equal(t, 9, entriesOf(w.index))
		})
	}
}

func entriesOf(x *Index) (n int) {
	for _, f := range x.Files() {
		n += int(f.Header.Count) - 1
	}
	return n
}

// TestFullDiskAmongEntries: blocks for the next step are not to be had, then only
// those of a page, then none.
func TestFullDiskAmongEntries(t *testing.T) {
	w := newWorld(t, 100, 40_000) // three steps
	w.put("topic", "first")
	asked := 0
	w.fs.set(func(op, _ string) error {
		if op == "allocate" {
			if asked++; asked%2 == 1 || asked > 10 {
				return segment.ErrNoSpace
			}
		}
		return nil
	})
	var err error
	n := 0
	for ; err == nil; n++ {
		err = w.index.Put(w.record("topic", "", fmt.Sprint("k", n), 0))
	}
	require.ErrorIs(t, err, segment.ErrNoSpace)
	require.Greater(t, n, 13_000)
	require.Less(t, n, 15_000)
	w.fs.set(nil)
	last := w.log[w.order[len(w.order)-1]]
	require.NoError(t, w.index.Put(&last))
	require.Equal(t, w.order[len(w.order)-1:], w.query("topic", fmt.Sprint("k", n-1)))
	require.Equal(t, n+1, entriesOf(w.index))
}

// TestRealFullDisk fills a small file system.
func TestRealFullDisk(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("mounts a small tmpfs")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "none", dir).CombinedOutput(); err != nil {
		t.Skipf("not allowed to mount a small tmpfs: %v: %s", err, out)
	}
	defer func() { require.NoError(t, exec.Command("umount", dir).Run()) }()
	w := newWorld(t, 1000, 20_000) // two and a half files fit
	w.cfg.Dir, w.cfg.FS = filepath.Join(dir, "index"), segment.OS
	w.reopen()
	ballast := filepath.Join(dir, "ballast")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 300<<10), 0o600))
	n := 0
	put := func() error {
		err := w.index.Put(w.record("topic", "", fmt.Sprint("k", n), 0))
		n++
		return err
	}
	var err error
	for err == nil && n < 100_000 {
		err = put()
	}
	require.ErrorIs(t, err, segment.ErrNoSpace)
	require.Greater(t, n, 20_000)
	for i, off := range w.order[:n-1] {
		if i%97 == 0 || i == n-2 {
			require.Equal(t, offsets(off), w.query("topic", fmt.Sprint("k", i)))
		}
	}
	require.NoError(t, os.Remove(ballast))
	w.feed()
	require.NoError(t, put())
	for i := n - 2; i < n; i++ {
		require.Equal(t, w.order[i:i+1], w.query("topic", fmt.Sprint("k", i)))
	}
	w.noneTwice()
	require.NoError(t, w.index.Close())
}

// TestOneLeftoverAtMost: the file can neither be completed nor removed.
func TestOneLeftoverAtMost(t *testing.T) {
	w := newWorld(t, 10, 10)
	w.fs.failOps(syscall.ENOMEM, "map", "remove")
	r := w.record("topic", "", "k", 0)
	for range 100 {
		require.ErrorIs(t, w.index.Put(r), syscall.ENOMEM)
		w.clock++
	}
	require.Len(t, names(t, w.cfg.Dir), 1)
	w.fs.set(nil)
	require.NoError(t, w.index.Put(r))
	require.Len(t, names(t, w.cfg.Dir), 1)
	require.Equal(t, offsets(r.LogOffset()), w.query("topic", "k"))
}

func TestPutAllocatesNothing(t *testing.T) {
	w := newWorld(t, 1000, 100_000)
	records := make([]*message.DispatchRequest, 202)
	for i := range records {
		records[i] = w.record("topic", fmt.Sprintf("7F00000100001%05d", i), strings.Repeat("订单 key ", 3), 0)
	}
	require.NoError(t, w.index.Put(records[0]))
	i := 0
	require.Zero(t, testing.AllocsPerRun(200, func() {
		i++
		if err := w.index.Put(records[i]); err != nil {
			panic(err)
		}
	}))
}

// TestAgainstMap puts random records, reopens, cuts and expires at random, and
// compares all answers with a plain map.
func TestAgainstMap(t *testing.T) {
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t, 1+rnd.Int32N(20), 2+rnd.Int32N(40))
		kept := message.LogOffset(0)
		for range 300 {
			w.clock += rnd.Int64N(3000)
			switch rnd.IntN(30) {
			case 0:
				w.reopen()
				w.feed()
			case 1:
				require.NoError(t, w.index.Flush())
			case 2:
				w.cutAt(w.order[rnd.IntN(len(w.order)+1):])
			case 3:
				if len(w.order) > 0 {
					kept = max(kept, w.order[len(w.order)/2])
					_, err := w.index.RemoveBefore(kept)
					require.NoError(t, err)
				}
			case 4:
				require.NoError(t, w.index.Repair(w.end))
				w.feed()
			default:
				var ks []string
				for range rnd.IntN(4) {
					ks = append(ks, randomKey(rnd))
				}
				w.put([]string{"Aa", "BB"}[rnd.IntN(2)], strings.Join(ks, " "))
			}
		}
		for _, topic := range []string{"Aa", "BB"} {
			for _, key := range []string{"Aa", "BB", "k0", "k1", "k2", "k3", "none"} {
				begin := startTime + rnd.Int64N(w.clock-startTime)
				end := begin + rnd.Int64N(w.clock-begin+1)
				require.Equal(t, w.expect(topic, key, begin, end, kept), since(w.within(topic, key, begin, end), kept), "seed %d %s#%s", seed, topic, key)
				require.Equal(t, w.expect(topic, key, 0, forever, kept), since(w.query(topic, key), kept), "seed %d %s#%s", seed, topic, key)
			}
		}
	}
}

func randomKey(rnd *rand.Rand) string {
	return []string{"Aa", "BB", "k0", "k1", "k2", "k3"}[rnd.IntN(6)]
}

// cutAt takes the records away from the log and the index.
func (w *world) cutAt(records []message.LogOffset) {
	w.t.Helper()
	if len(records) == 0 {
		return
	}
	w.end = records[0]
	w.order = w.order[:len(w.order)-len(records)]
	for _, off := range records {
		delete(w.log, off)
	}
	require.NoError(w.t, w.index.Truncate(w.end))
	require.LessOrEqual(w.t, w.index.NextLogOffset(), w.end)
	w.feed()
}

// expect looks for the answer in the log.
func (w *world) expect(topic, key string, begin, end int64, from message.LogOffset) []message.LogOffset {
	var want []message.LogOffset
	for _, off := range w.order {
		at, ok := w.match(topic, key)(off)
		if ok && begin <= at && at <= end {
			want = append(want, off)
		}
	}
	return since(want[max(0, len(want)-DefaultMaxResults):], from)
}

func since(offs []message.LogOffset, from message.LogOffset) []message.LogOffset {
	i, _ := slices.BinarySearch(offs, from)
	return append([]message.LogOffset(nil), offs[i:]...)
}

func TestClosed(t *testing.T) {
	w := newWorld(t, 10, 10)
	w.put("topic", "k")
	require.NoError(t, w.index.Close())
	require.NoError(t, w.index.Close())
	require.ErrorIs(t, w.index.Put(w.record("topic", "", "k", 0)), message.ErrClosed)
	require.ErrorIs(t, w.index.Flush(), message.ErrClosed)
	require.ErrorIs(t, w.index.Truncate(0), message.ErrClosed)
	require.ErrorIs(t, w.index.Repair(0), message.ErrClosed)
	require.ErrorIs(t, w.index.RemoveNewer(0), message.ErrClosed)
	_, err := w.index.RemoveBefore(0)
	require.ErrorIs(t, err, message.ErrClosed)
	_, err = query(w.index, "topic", "k", 1, 0, forever, w.match("topic", "k"))
	require.ErrorIs(t, err, message.ErrClosed)
}

func TestGeometry(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "index")
	for _, g := range [][2]int32{{0, 10}, {-1, 10}, {10, 1}, {10, 0}} {
		_, err := Open(Config{Dir: dir, Slots: g[0], Entries: g[1]})
		require.ErrorIs(t, err, message.ErrIllegal)
	}
	_, err := Open(Config{Dir: dir, Slots: 1 << 30, Entries: 2})
	var limit *message.LimitError
	require.True(t, errors.As(err, &limit))
	x, err := Open(Config{Dir: dir, Slots: 1, Entries: 2})
	require.NoError(t, err)
	require.Empty(t, x.Files())
	require.NoError(t, x.Close())
	require.NoDirExists(t, dir)
}
