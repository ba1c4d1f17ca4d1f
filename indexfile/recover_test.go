package indexfile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// image is what the index of the first n records looks like.
func (w *world) image(n int) [][]byte {
	w.t.Helper()
	cfg := w.cfg
	cfg.Dir = filepath.Join(w.t.TempDir(), "index")
	x, err := Open(cfg)
	require.NoError(w.t, err)
	for _, off := range w.order[:n] {
		r := w.log[off]
		require.NoError(w.t, x.Put(&r))
	}
	require.NoError(w.t, x.Close())
	if n == 0 {
		return nil
	}
	return images(w.t, cfg.Dir)
}

// TestTruncateAnywhere cuts after every record: the files become what they were,
// and so they do when the records are put again.
func TestTruncateAnywhere(t *testing.T) {
	for n := range 21 {
		w := newWorld(t, 5, 8)
		for i := range 20 {
			w.put("topic", []string{"a b", "", "a a c", "d"}[i%4])
			w.clock += 1000
		}
		whole := w.image(20)
		want := w.image(n)
		end := w.end
		if n < 20 {
			end = w.order[n]
		}
		require.NoError(t, w.index.Truncate(end))
		require.Equal(t, end, w.index.NextLogOffset())
		got := images(t, w.cfg.Dir)
		if len(want) > len(got) { // a file was made, and nothing put into it
			require.Len(t, want, len(got)+1)
			require.EqualValues(t, 1, headerAt(want[len(got)]).Count)
			want = want[:len(got)]
		}
		require.Equal(t, len(want), len(got), n)
		for i := range want {
			late := headerAt(got[i]).EndTimestamp - headerAt(want[i]).EndTimestamp
			require.True(t, 0 <= late && late <= 999, late)
			copy(got[i][headerEndTimestamp:], want[i][headerEndTimestamp:headerBeginOffset])
			require.Equal(t, want[i], got[i], "%d records, file %d", n, i)
		}
		w.reopen()
		w.feed()
		require.Equal(t, whole, images(t, w.cfg.Dir), n)
	}
}

func TestTruncateReadsNothingIfNothingIsToBeCut(t *testing.T) {
	w := newWorld(t, 5, 8)
	for range 20 {
		w.put("topic", "k")
	}
	w.reopen()
	w.fs.set(nil)
	require.NoError(t, w.index.Truncate(w.end))
	require.Zero(t, w.fs.did("open"))
	require.Equal(t, w.order[19], w.index.NextLogOffset())
}

// TestNewLogAfterTruncate: RocketMQ would not index these.
func TestNewLogAfterTruncate(t *testing.T) {
	w := newWorld(t, 50, 12)
	for range 30 {
		w.put("topic", "old")
	}
	w.cutAt(w.order[3:])
	require.Equal(t, w.order[:3], w.query("topic", "old"))
	off := w.put("topic", "new")
	require.Equal(t, offsets(off), w.query("topic", "new"))
}

// TestRepairAfterPowerCut keeps each page of what was written after the last
// Flush, or the old one, at random. 64 bytes count as a page.
func TestRepairAfterPowerCut(t *testing.T) {
	for seed := range uint64(80) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(t, 1+rnd.Int32N(9), 3+rnd.Int32N(60))
		w.end = 1000 // at 0 half an entry could pass for one more of the first record
		put := func() { w.put("topic", strings.Repeat(randomKey(rnd)+" ", rnd.IntN(4))) }
		for range 1 + rnd.IntN(40) {
			put()
		}
		require.NoError(t, w.index.Flush())
		flushed, point := images(t, w.cfg.Dir), w.end
		for range rnd.IntN(40) {
			put()
		}
		require.NoError(t, w.index.Close())
		for i, name := range names(t, w.cfg.Dir) {
			path := filepath.Join(w.cfg.Dir, name)
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			old := make([]byte, len(b))
			if i < len(flushed) {
				old = flushed[i]
			}
			page := []int{64, 128, 512}[rnd.IntN(3)]
			for at := 0; at < len(b); at += page {
				if rnd.IntN(2) == 0 {
					copy(b[at:min(at+page, len(b))], old[at:])
				}
			}
			require.NoError(t, os.WriteFile(path, b, 0o600))
		}
		w.cfg.Rebuild = true
		w.open()
		require.NoError(t, w.index.Repair(point), seed)
		require.LessOrEqual(t, w.index.NextLogOffset(), point)
		w.feed()
		for _, key := range []string{"Aa", "BB", "k0", "k1", "k2", "k3", "none"} {
			require.Equal(t, w.expect("topic", key, 0, forever, 0), w.query("topic", key), "seed %d", seed)
		}
		w.noneTwice()
	}
}

// noneTwice wants as many entries as the records have keys.
func (w *world) noneTwice() {
	w.t.Helper()
	want := 0
	for _, off := range w.order {
		ks := keysOf(w.log[off].Marks)
		for ks.next() != nil {
			want++
		}
	}
	require.Equal(w.t, want, entriesOf(w.index))
}

// TestRepairAfterKill stops between the steps of an insertion.
func TestRepairAfterKill(t *testing.T) {
	for _, step := range []string{"entry", "slot", "header"} {
		w := newWorld(t, 1, 30)
		for range 5 {
			w.put("topic", "k")
		}
		require.NoError(t, w.index.Flush())
		point := w.end
		r := w.record("topic", "", "k", 0)
		w.edit(func(b []byte) {
			entry{KeyHash("topic", "k"), r.LogOffset(), 0, 5}.put(b[FileSize(1, 6):])
			if step != "entry" {
				storeSlot(b[headerSize:], 6)
			}
			if step == "header" {
				h := headerAt(b)
				h.EndLogOffset = r.LogOffset()
				h.put(b)
			}
		})
		w.reopen()
		require.NoError(t, w.index.Repair(point))
		require.Equal(t, point, w.index.NextLogOffset())
		w.feed()
		require.Equal(t, w.order, w.query("topic", "k"))
		w.noneTwice()
	}
}

// TestThousandKeys: neither a power cut after a clean close nor a crash loses
// keys, and none is there twice.
func TestThousandKeys(t *testing.T) {
	for _, clean := range []bool{true, false} {
		w := newWorld(t, 500, 5000)
		for i := range 1000 {
			w.put("topic", fmt.Sprint("key", i))
			if i == 600 {
				require.NoError(t, w.index.Flush())
			}
		}
		point := w.order[601]
		if clean {
			w.fs.set(nil)
			require.NoError(t, w.index.Flush())
			require.Equal(t, 1, w.fs.did("sync"))
			require.NoError(t, w.index.Flush()) // nothing new, nothing done
			require.Equal(t, 1, w.fs.did("sync"))
		}
		w.reopen()
		if !clean {
			require.NoError(t, w.index.Repair(point))
			require.Equal(t, point, w.index.NextLogOffset())
		}
		w.feed()
		for i, off := range w.order {
			require.Equal(t, offsets(off), w.query("topic", fmt.Sprint("key", i)))
		}
		w.noneTwice()
	}
}

// TestRepairOfDeletedIndex: the whole log has to be put again.
func TestRepairOfDeletedIndex(t *testing.T) {
	w := newWorld(t, 5, 8)
	for range 20 {
		w.put("topic", "k")
	}
	require.NoError(t, w.index.Close())
	require.NoError(t, os.RemoveAll(w.cfg.Dir))
	w.open()
	require.NoError(t, w.index.Repair(w.end))
	require.Zero(t, w.index.NextLogOffset())
	w.feed()
	require.Equal(t, w.order, w.query("topic", "k"))
}

// TestRemoveNewer is RocketMQ's rule after a crash.
func TestRemoveNewer(t *testing.T) {
	w := newWorld(t, 5, 8)
	for range 30 {
		w.put("topic", "k")
		w.clock += 1000
	}
	require.NoError(t, w.index.Flush())
	files := w.index.Files()
	require.Len(t, files, 5)
	at, end, ok := w.index.LastFull()
	require.True(t, ok)
	require.Equal(t, files[3].Header.EndTimestamp, at)
	require.Equal(t, files[3].Header.EndLogOffset, end)
	w.reopen()
	again, _, _ := w.index.LastFull()
	require.Equal(t, at, again)
	require.NoError(t, w.index.RemoveNewer(at))
	require.Equal(t, files[:4], w.index.Files())
	require.Equal(t, end, w.index.NextLogOffset())
	require.NoError(t, w.index.RemoveNewer(files[1].Header.EndTimestamp-1))
	require.Equal(t, files[:1], w.index.Files())
	w.feed()
	require.Equal(t, w.order, w.query("topic", "k"))
	w.noneTwice()
	require.NoError(t, w.index.RemoveNewer(0))
	require.Empty(t, w.index.Files())
	require.Zero(t, w.index.NextLogOffset())
	_, _, ok = w.index.LastFull()
	require.False(t, ok)
}

// TestLastFullOnlyAfterFlush: the checkpoint must not promise too much.
func TestLastFullOnlyAfterFlush(t *testing.T) {
	w := newWorld(t, 5, 4)
	for range 7 {
		w.put("topic", "k")
	}
	_, _, ok := w.index.LastFull()
	require.False(t, ok)
	failure := errors.New("EIO")
	w.fs.failOps(failure, "sync")
	require.ErrorIs(t, w.index.Flush(), failure)
	w.fs.set(nil)
	require.ErrorIs(t, w.index.Flush(), failure) // for good
	_, _, ok = w.index.LastFull()
	require.False(t, ok)
	w.reopen()
	require.NoError(t, w.index.Flush())
}

// TestFlushWhileFileFillsUp: what came after the sync is not durable.
func TestFlushWhileFileFillsUp(t *testing.T) {
	w := newWorld(t, 5, 4)
	w.put("topic", "k")
	filled := false
	w.fs.set(func(op, _ string) error {
		if op == "sync" && !filled {
			filled = true
			w.fs.mu.Unlock()
			defer w.fs.mu.Lock()
			for range 3 {
				w.put("topic", "k")
			}
		}
		return nil
	})
	require.NoError(t, w.index.Flush())
	_, _, ok := w.index.LastFull()
	require.False(t, ok)
	require.NoError(t, w.index.Flush())
	_, end, ok := w.index.LastFull()
	require.True(t, ok)
	require.Equal(t, w.order[2], end)
}

func TestRemoveBefore(t *testing.T) {
	w := newWorld(t, 5, 8)
	for range 55 {
		w.put("topic", "k")
	}
	require.Len(t, w.index.Files(), 8)
	paths := names(t, w.cfg.Dir)
	removed, err := w.index.RemoveBefore(w.order[6]) // the last record of the first file
	require.NoError(t, err)
	require.Empty(t, removed)
	removed, err = w.index.RemoveBefore(w.order[21])
	require.NoError(t, err)
	require.Len(t, removed, 3)
	require.Equal(t, paths[3:], names(t, w.cfg.Dir))
	require.Equal(t, w.order[21:], w.query("topic", "k"))
	w.fs.failOps(os.ErrPermission, "remove")
	_, err = w.index.RemoveBefore(w.end)
	require.ErrorIs(t, err, os.ErrPermission)
	w.fs.set(nil)
	require.Equal(t, w.order[21:], w.query("topic", "k"))
	removed, err = w.index.RemoveBefore(w.end + 1)
	require.NoError(t, err)
	require.Len(t, removed, 4) // never the newest
	require.Equal(t, w.order[49:], w.query("topic", "k"))
	off := w.put("topic", "k")
	require.Equal(t, off, w.order[len(w.order)-1])
	require.Equal(t, w.order[49:], w.query("topic", "k"))
}

// TestRemoveUnderQuery: what a query looks into stays until it is done.
func TestRemoveUnderQuery(t *testing.T) {
	w := newWorld(t, 5, 8)
	for range 20 {
		w.put("topic", "k")
	}
	match := w.match("topic", "k")
	got, err := query(w.index, "topic", "k", 64, 0, forever, func(off message.LogOffset) (int64, bool) {
		_, err := w.index.RemoveBefore(w.end)
		require.NoError(t, err)
		return match(off)
	})
	require.NoError(t, err)
	require.Equal(t, w.order[14:], got)
}

// TestOpenFindsBadFiles: in front, in the middle and at the end.
func TestOpenFindsBadFiles(t *testing.T) {
	damages := map[string]func(path string) error{
		"empty": func(p string) error { return os.Truncate(p, 0) },
		"half":  func(p string) error { return os.Truncate(p, FileSize(5, 8)/2) },
		"long":  func(p string) error { return os.Truncate(p, FileSize(5, 8)+1) },
		"noise": func(p string) error {
			return os.WriteFile(p, []byte(strings.Repeat("\xA5", int(FileSize(5, 8)))), 0o600)
		},
	}
	for damage, do := range damages {
		for i := range 4 {
			w := newWorld(t, 5, 8)
			for range 28 {
				w.put("topic", "k")
			}
			require.NoError(t, w.index.Close())
			before := names(t, w.cfg.Dir)
			require.Len(t, before, 4)
			require.NoError(t, do(filepath.Join(w.cfg.Dir, before[i])))
			if damage != "empty" { // might be a mistake in the configuration
				_, err := Open(w.cfg)
				if damage == "noise" {
					require.ErrorIs(t, err, message.ErrCorrupt)
				} else {
					require.ErrorIs(t, err, segment.ErrFileSize)
				}
				require.Equal(t, before, names(t, w.cfg.Dir))
				w.cfg.Rebuild = true
			}
			w.open()
			dropped := w.index.Dropped()
			require.Len(t, dropped, 4-i)
			require.NotErrorIs(t, dropped[0].Err, ErrBehindDropped)
			for j, d := range dropped {
				require.Equal(t, before[i+j], filepath.Base(d.Path))
				require.True(t, j == 0 || errors.Is(d.Err, ErrBehindDropped))
			}
			require.Equal(t, before[:i], names(t, w.cfg.Dir))
			if i%2 == 0 {
				require.NoError(t, w.index.Repair(w.end))
			}
			w.feed()
			require.Equal(t, w.order, w.query("topic", "k"), "%s %d", damage, i)
			w.noneTwice()
		}
	}
}

func TestOpenPassesOverOtherNames(t *testing.T) {
	w := newWorld(t, 5, 8)
	w.put("topic", "k")
	for _, name := range []string{"notes.txt", ".20220415052000123", "2022-04", "x"} {
		require.NoError(t, os.WriteFile(filepath.Join(w.cfg.Dir, name), nil, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(w.cfg.Dir, "lost+found"), 0o700))
	w.reopen()
	require.Len(t, w.index.Files(), 1)
	require.NoError(t, w.index.Close())
	require.NoError(t, os.Mkdir(filepath.Join(w.cfg.Dir, "7"), 0o700))
	_, err := Open(w.cfg)
	require.ErrorIs(t, err, segment.ErrForeignFile)
}

// TestOpenFailsAtAnyStep leaves nothing open and nothing changed.
func TestOpenFailsAtAnyStep(t *testing.T) {
	w := newWorld(t, 5, 8)
	for range 28 {
		w.put("topic", "k")
	}
	require.NoError(t, w.index.Close())
	before := images(t, w.cfg.Dir)
	for _, op := range []string{"openread", "readat"} {
		failure := errors.New("EIO")
		w.fs.failOps(failure, op)
		_, err := Open(w.cfg)
		require.ErrorIs(t, err, failure)
		require.Zero(t, w.fs.open())
	}
	w.fs.set(nil)
	require.Equal(t, before, images(t, w.cfg.Dir))
	for _, op := range []string{"open", "map"} {
		w.open()
		failure := errors.New("ENOMEM")
		w.fs.failOps(failure, op)
		_, err := query(w.index, "topic", "k", 3, 0, forever, w.match("topic", "k"))
		require.Equal(t, op == "open", errors.Is(err, failure))
		require.ErrorIs(t, w.index.Repair(0), failure)
		w.fs.set(nil)
		require.Equal(t, w.order[25:], w.query("topic", "k")[25:])
		require.NoError(t, w.index.Close())
	}
}

// FuzzOpen opens, repairs, queries and writes a damaged file.
func FuzzOpen(f *testing.F) {
	w := newWorld(f, 3, 9)
	for range 6 {
		w.clock += 700
		w.put("topic", "a b")
	}
	for _, b := range images(f, w.cfg.Dir) {
		f.Add(b, int64(0), true)
		f.Add(slices.Concat(b[:40], make([]byte, len(b)-40)), int64(300), false)
		f.Add(b[:len(b)/2], int64(100), true)
	}
	f.Add(make([]byte, FileSize(3, 9)), int64(1), true)
	f.Add([]byte(nil), int64(-1), true)
	f.Fuzz(func(t *testing.T, b []byte, end int64, rebuild bool) {
		w := newWorld(t, 3, 9)
		require.NoError(t, os.Mkdir(w.cfg.Dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(w.cfg.Dir, "20220101000000000"), b, 0o600))
		w.cfg.Rebuild = rebuild
		x, err := Open(w.cfg)
		if err != nil {
			require.False(t, rebuild, err)
			require.True(t, errors.Is(err, segment.ErrFileSize) || errors.Is(err, message.ErrCorrupt), err)
			return
		}
		w.index = x
		calls := 0
		_, err = query(x, "topic", "a", 64, 0, forever, func(message.LogOffset) (int64, bool) { calls++; return 0, calls%2 == 0 })
		require.NoError(t, err)
		require.LessOrEqual(t, calls, 9)
		_, err = x.QueryRaw("topic", "b", 64, startTime, startTime+5000)
		require.NoError(t, err)
		require.NoError(t, x.Repair(message.LogOffset(end)))
		for _, info := range x.Files() {
			require.NoError(t, info.Header.check(9))
			require.Less(t, info.Header.EndLogOffset, message.LogOffset(max(end, 1)))
		}
		require.NoError(t, x.Truncate(0))
		require.Empty(t, x.Files())
		off := w.put("topic", "a b c")
		require.Equal(t, offsets(off), w.query("topic", "c"))
		require.NoError(t, x.Flush())
	})
}
