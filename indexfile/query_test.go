package indexfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// TestCollisionIsNoHit: both texts have the same hash code.
func TestCollisionIsNoHit(t *testing.T) {
	w := newWorld(t, 100, 400)
	require.EqualValues(t, 62955593, KeyHash("Aa", "k1"))
	require.EqualValues(t, 62955593, KeyHash("BB", "k1"))
	a, b := w.put("Aa", "k1"), w.put("BB", "k1")
	require.Equal(t, offsets(a), w.query("Aa", "k1"))
	require.Equal(t, offsets(b), w.query("BB", "k1"))
	require.Equal(t, offsets(a, b), w.raw("Aa", "k1"))
}

// TestCollisionsDoNotUseUpTheAnswer: older records with the key are found behind
// any number of others with its hash.
func TestCollisionsDoNotUseUpTheAnswer(t *testing.T) {
	w := newWorld(t, 100, 50)
	want := offsets(w.put("Aa", "k1"), w.put("Aa", "k1"))
	for range 200 {
		w.put("BB", "k1")
	}
	require.Equal(t, want, w.query("Aa", "k1"))
	require.NotContains(t, w.raw("Aa", "k1"), want[0])
}

func TestTwoRecordsWithOneUniqueKey(t *testing.T) {
	w := newWorld(t, 100, 400)
	for range 2 {
		require.NoError(t, w.index.Put(w.record("topic", "unique", "", 0)))
	}
	require.Equal(t, w.order, w.query("topic", "unique"))
}

func TestKeyTwiceInOneRecord(t *testing.T) {
	w := newWorld(t, 100, 400)
	off := w.put("topic", "k k")
	require.Equal(t, offsets(off), w.query("topic", "k"))
	require.Equal(t, offsets(off, off), w.raw("topic", "k"))
}

func TestNewestAreTaken(t *testing.T) {
	w := newWorld(t, 10, 30)
	for range 100 {
		w.put("topic", "k")
	}
	for _, n := range []int{1, 7, 29, 64, 100, math.MaxInt} {
		got, err := query(w.index, "topic", "k", n, 0, forever, w.match("topic", "k"))
		require.NoError(t, err)
		require.Equal(t, w.order[100-min(n, 64):], got, n)
	}
	for _, n := range []int{0, -1, math.MinInt} {
		got, err := query(w.index, "topic", "k", n, 0, forever, w.match("topic", "k"))
		require.NoError(t, err)
		require.Empty(t, got)
	}
	raw, err := w.index.QueryRaw("topic", "k", 3, 0, forever)
	require.NoError(t, err)
	require.Equal(t, Raw{w.order[97:], w.clock, w.order[99]}, raw)
}

// TestTimesAreExact: entries know only the second.
func TestTimesAreExact(t *testing.T) {
	w := newWorld(t, 10, 8)
	var times []int64
	for range 40 {
		times = append(times, w.clock)
		w.put("topic", "k")
		w.clock += 333
	}
	for i := range times {
		for j := i; j < len(times); j += 3 {
			require.Equal(t, w.order[i:j+1], w.within("topic", "k", times[i], times[j]))
			require.Equal(t, w.order[i:j+1], w.within("topic", "k", times[i]-1, times[j]+1))
		}
	}
	require.Empty(t, w.within("topic", "k", times[3]+1, times[4]-1))
	require.Empty(t, w.within("topic", "k", times[4], times[3]))
	require.Empty(t, w.within("topic", "k", 0, times[0]-1))
	require.Empty(t, w.within("topic", "k", w.clock, forever))
}

func TestUnreadableRecordIsNoHit(t *testing.T) {
	w := newWorld(t, 10, 8)
	gone, stays := w.put("topic", "k"), w.put("topic", "k")
	delete(w.log, gone)
	require.Equal(t, offsets(stays), w.query("topic", "k"))
}

// TestNewestFilesStayMapped once a query has looked into them, until they leave the
// index, become old, or it is closed.
func TestNewestFilesStayMapped(t *testing.T) {
	const perFile, files = 3, keptFiles + 6
	w := newWorld(t, 10, perFile+1)
	for range perFile * files {
		w.put("topic", "k")
	}
	require.NoError(t, w.index.Flush())
	require.Equal(t, 1, w.fs.open(), "the one that is written")
	all := func() int {
		seen := 0
		require.NoError(t, ask(w.index, "topic", "k", 1, 0, forever, func(message.LogOffset) bool { seen++; return false }))
		return seen
	}
	require.Equal(t, perFile*files, all())
	require.Equal(t, keptFiles, w.fs.open())

	w.put("topic", "k")
	require.NoError(t, w.index.Flush())
	require.Equal(t, keptFiles-1, w.fs.open(), "one is too old now, and the one that was written was nobody's any more")
	require.Equal(t, perFile*files+1, all())
	require.Equal(t, keptFiles, w.fs.open())

	w.reopen()
	require.Zero(t, w.fs.open())
	require.Len(t, w.within("topic", "k", 0, forever), DefaultMaxResults)
	require.Equal(t, 2*together, w.fs.open(), "as many as it took, and those touched with them")
	require.Equal(t, perFile*files+1, all())
	removed, err := w.index.RemoveBefore(w.order[perFile*(files-9)])
	require.NoError(t, err)
	require.Len(t, removed, files-9)
	require.Equal(t, 10, w.fs.open())
	require.NoError(t, w.index.Close())
	require.Zero(t, w.fs.open())
}

// TestQueriesWhileFilesGo: whoever keeps a file while it is removed, or the index
// closed, lets go of it.
func TestQueriesWhileFilesGo(t *testing.T) {
	w := newWorld(t, 10, 4)
	for range 60 {
		w.put("topic", "k")
	}
	require.NoError(t, w.index.Flush())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for err := error(nil); !errors.Is(err, message.ErrClosed); {
				err = ask(w.index, "topic", "k", 1, 0, forever, func(message.LogOffset) bool { return false })
			}
		})
	}
	for i := 3; i < 57; i += 3 {
		_, err := w.index.RemoveBefore(w.order[i])
		require.NoError(t, err)
	}
	require.NoError(t, w.index.Close())
	wg.Wait()
	require.Zero(t, w.fs.open())
}

// TestCandidatesAreTouchedBeforeTheyAreTaken: each once, in the same order, and no
// more of them than are still wanted.
func TestCandidatesAreTouchedBeforeTheyAreTaken(t *testing.T) {
	w := newWorld(t, 1, 200)
	for i := range 100 {
		w.put("topic", fmt.Sprint("k", i%2))
	}
	for _, test := range []struct{ maxNum, ahead int }{{1, 1}, {3, 3}, {candidates, candidates}, {50, candidates}} {
		var touched, taken []message.LogOffset
		ahead := 0
		touch := func(off message.LogOffset) {
			touched = append(touched, off)
			ahead = max(ahead, len(touched)-len(taken))
		}
		take := func(off message.LogOffset) bool {
			taken = append(taken, off)
			require.LessOrEqual(t, len(taken), len(touched))
			return true
		}
		require.NoError(t, w.index.Query(Query{Topic: "topic", Key: "k1", MaxNum: test.maxNum, End: forever, Touch: touch, Take: take}))
		require.Len(t, taken, test.maxNum)
		require.Equal(t, touched, taken)
		require.Equal(t, test.ahead, ahead)
	}
}

// TestQueryAllocatesNothing, whether it finds something or not, and however many
// files there are.
func TestQueryAllocatesNothing(t *testing.T) {
	w := newWorld(t, 10, 40)
	for i := range 1000 {
		w.put("topic", fmt.Sprint("k", i%100))
	}
	found := 0
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if ask(w.index, "topic", "k7", 5, 0, forever, func(message.LogOffset) bool { found++; return true }) != nil {
			t.Error("query")
		}
		_ = ask(w.index, "topic", "none", 5, 0, forever, func(message.LogOffset) bool { return false })
	}))
	require.Equal(t, 5*101, found)
}

// edit changes the bytes of the newest file.
func (w *world) edit(change func(b []byte)) {
	w.t.Helper()
	files := names(w.t, w.cfg.Dir)
	path := filepath.Join(w.cfg.Dir, files[len(files)-1])
	b, err := os.ReadFile(path)
	require.NoError(w.t, err)
	change(b)
	require.NoError(w.t, os.WriteFile(path, b, 0o600))
}

// TestDamagedChainsEnd sets every word of slots and entries to nonsense. What
// belongs to the chains Repair finds; a wrong hash, offset or time it can not.
func TestDamagedChainsEnd(t *testing.T) {
	w := newWorld(t, 3, 12)
	for range 9 {
		w.put("topic", "k")
	}
	sound := images(t, w.cfg.Dir)[0]
	for _, word := range []int32{0, 1, 5, 9, 10, 11, 12, 13, -1, math.MaxInt32, math.MinInt32} {
		for at := headerSize; at < len(sound); at += 4 {
			w.edit(func(b []byte) {
				copy(b, sound)
				binary.BigEndian.PutUint32(b[at:], uint32(word))
			})
			w.reopen()
			require.Subset(t, w.order, w.query("topic", "k"))
			w.raw("topic", "k")
			require.NoError(t, w.index.Repair(w.end))
			w.feed()
			field := (int64(at) - FileSize(3, 0)) % entrySize
			if field < 0 || field == entryPrev {
				require.Equal(t, w.order, w.query("topic", "k"), "word %d at %d", word, at)
			}
		}
	}
}

// TestEntriesOfOneChainDescend: a cycle through all of them.
func TestEntriesOfOneChainDescend(t *testing.T) {
	w := newWorld(t, 1, 12)
	for range 9 {
		w.put("topic", "k")
	}
	w.edit(func(b []byte) {
		for e := range int64(9) {
			binary.BigEndian.PutUint32(b[headerSize+slotSize+(e+1)*entrySize+entryPrev:], uint32((e+1)%9+1))
		}
	})
	w.reopen()
	calls := 0
	_, err := query(w.index, "topic", "k", 64, 0, forever, func(message.LogOffset) (int64, bool) { calls++; return 0, false })
	require.NoError(t, err)
	require.LessOrEqual(t, calls, 9)
}

// TestFileCutFromOutside: a fault becomes an error, and other files answer.
func TestFileCutFromOutside(t *testing.T) {
	if testing.Short() {
		t.Skip("provokes faults")
	}
	w := newWorld(t, 20_000, 3)
	whole := w.put("topic", "k k") // fills a file
	w.put("topic", "k")
	require.NoError(t, os.Truncate(w.index.Files()[1].Path, 4096))
	r := w.record("topic", "", "k", 0)
	for range 100 {
		got, err := query(w.index, "topic", "k", 10, 0, forever, w.match("topic", "k"))
		require.ErrorIs(t, err, segment.ErrFault)
		require.Equal(t, offsets(whole), got)
		require.ErrorIs(t, w.index.Put(r), segment.ErrFault)
	}
	require.NoError(t, w.index.Close())
	_, err := Open(w.cfg)
	require.ErrorIs(t, err, segment.ErrFileSize)
	w.cfg.Rebuild = true
	w.open()
	require.Len(t, w.index.Dropped(), 1)
	w.feed()
	require.Equal(t, w.order, w.query("topic", "k"))
}

// TestQueriesWhilePutting has readers that know what must be found already.
func TestQueriesWhilePutting(t *testing.T) {
	w := newWorld(t, 5, 40)
	const n = 3000
	records := make([]*message.DispatchRequest, n)
	for i := range records {
		w.clock += 10
		key := []string{"Aa", "BB", "k"}[i%3]
		records[i] = w.record("topic", "", key+" "+key+" x", 0)
	}
	var done atomic.Int32
	var stop atomic.Bool
	var readers sync.WaitGroup
	for r := range 4 {
		readers.Go(func() {
			key := []string{"Aa", "BB", "k", "x"}[r]
			for !stop.Load() {
				sure := int(done.Load())
				got, err := query(w.index, "topic", key, 5, 0, forever, func(off message.LogOffset) (int64, bool) {
					r, ok := w.log[off]
					return matches(r, ok, "topic", key)
				})
				if err != nil {
					t.Error(err)
					return
				}
				wanted := 0
				for i := sure - 1; i >= 0 && wanted < min(5, len(got)+1); i-- {
					if key == "x" || []string{"Aa", "BB", "k"}[i%3] == key {
						wanted++
					}
				}
				if overtaken := int(done.Load())-sure > 200; overtaken {
					continue // files with what was wanted may have been removed meanwhile
				}
				if len(got) < wanted {
					t.Errorf("%d of %d records of %s after %d puts", len(got), wanted, key, sure)
					return
				}
				_, _ = w.index.QueryRaw("topic", key, 5, 0, forever)
				w.index.Files()
				w.index.LastFull()
			}
		})
	}
	readers.Go(func() {
		for !stop.Load() {
			if err := w.index.Flush(); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	for i, r := range records {
		if err := w.index.Put(r); err != nil {
			t.Error(err)
			break
		}
		done.Store(int32(i + 1))
		if i%500 == 499 {
			if _, err := w.index.RemoveBefore(records[i-300].LogOffset()); err != nil {
				t.Error(err)
			}
		}
	}
	stop.Store(true)
	readers.Wait()
}

// TestDamagedStoreTimeHidesNoOther: no checksum covers the time of a record, and
// that of the last one ends the time of its file.
func TestDamagedStoreTimeHidesNoOther(t *testing.T) {
	for _, damaged := range []int64{math.MinInt64, -1, 0, 1, startTime / 2} {
		w := newWorld(t, 10, 100)
		want := offsets(w.put("topic", "k"), w.put("topic", "k"))
		good := w.clock
		w.clock = damaged
		w.put("topic", "k")
		w.clock = good
		require.Equal(t, want, w.within("topic", "k", startTime, forever), damaged)
		w.reopen()
		require.Equal(t, want, w.within("topic", "k", startTime, forever), damaged)
		want = append(want, w.put("topic", "k"))
		require.Equal(t, want, w.within("topic", "k", startTime, forever), damaged)
	}
}
