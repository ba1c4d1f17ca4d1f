package indexfile

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/golden"
	"github.com/pocketmq/pocketmq/message"
)

// goldenRecords reads the records of a recorded log in order.
func goldenRecords(t *testing.T, dir string, segmentSize int64) []message.DispatchRequest {
	t.Helper()
	log, err := golden.ReadLog(dir, segmentSize)
	require.NoError(t, err)
	var out []message.DispatchRequest
	for _, b := range log.Segments {
		for len(b) > 0 {
			v, kind, _ := message.ReadRecord(b)
			if kind != message.KindRecord {
				break
			}
			out = append(out, message.DispatchRequest{View: v, Marks: v.Marks()})
			b = b[v.Size():]
		}
	}
	return out
}

var goldenCases = sync.OnceValues(func() (cases []*golden.Case, err error) {
	names, err := golden.Cases()
	for _, name := range names {
		c, loadErr := golden.Load(name)
		cases, err = append(cases, c), errors.Join(err, loadErr)
	}
	return cases, err
})

// eachGolden tests the recorded stores that are fit for it, of which there must
// be n.
func eachGolden(t *testing.T, n int, fit func(c *golden.Case) bool, test func(t *testing.T, c *golden.Case, dir string)) {
	t.Helper()
	cases, err := goldenCases()
	require.NoError(t, err)
	tested := 0
	for _, c := range cases {
		if !fit(c) {
			continue
		}
		tested++
		t.Run(c.Case, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, c.Unpack(golden.StoreArchive, dir))
			test(t, c, dir)
		})
	}
	require.Equal(t, n, tested)
}

func goldenConfig(c *golden.Case, dir string) Config {
	return Config{
		Dir: dir, Slots: int32(c.Config.MaxHashSlotNum), Entries: int32(c.Config.MaxIndexNum),
		Location: time.UTC, Now: func() time.Time { return time.UnixMilli(startTime) },
	}
}

// notFromLog says why the index of a recorded store can not be made from its log.
var notFromLog = map[string]string{
	"crash_cq_deleted_nocheckpoint": "the index was deleted",
	"crash_log_deleted":             "the log was deleted",
	"crash_tail_torn":               "the log lost records that are in the index",
	"crash_tail_zero":               "the log lost records that are in the index",
	"minoffset":                     "the log lost files whose records are in the index",
	"topic_utf8_overlong":           "RocketMQ could not read records that we can",
	"crash_file_short":              "a log file has another length",
}

func TestGoldenFilesAreMadeAgain(t *testing.T) {
	fromLog := func(c *golden.Case) bool { return notFromLog[c.Case] == "" }
	eachGolden(t, 17, fromLog, func(t *testing.T, c *golden.Case, dir string) {
		want := images(t, filepath.Join(dir, "index"))
		x, err := Open(goldenConfig(c, filepath.Join(t.TempDir(), "index")))
		require.NoError(t, err)
		for _, r := range goldenRecords(t, dir, c.Config.MappedFileSizeCommitLog) {
			require.NoError(t, x.Put(&r))
		}
		require.NoError(t, x.Close())
		got := images(t, x.cfg.Dir)
		require.Len(t, got, len(want))
		for i := range want {
			require.True(t, bytes.Equal(want[i], got[i]), "file %d: %+v instead of %+v", i, headerAt(got[i]), headerAt(want[i]))
		}
	})
}

// TestGoldenFilesAreCut has indexes that point behind the end of their log.
func TestGoldenFilesAreCut(t *testing.T) {
	for _, name := range []string{"crash_tail_torn", "crash_tail_zero"} {
		c, err := golden.Load(name)
		require.NoError(t, err)
		dir := t.TempDir()
		require.NoError(t, c.Unpack(golden.StoreArchive, dir))
		want, err := Open(goldenConfig(c, filepath.Join(t.TempDir(), "index")))
		require.NoError(t, err)
		for _, r := range goldenRecords(t, dir, c.Config.MappedFileSizeCommitLog) {
			require.NoError(t, want.Put(&r))
		}
		require.NoError(t, want.Close())
		got, err := Open(goldenConfig(c, filepath.Join(dir, "index")))
		require.NoError(t, err)
		require.NoError(t, got.Truncate(want.NextLogOffset()))
		require.NoError(t, got.Close())
		a, b := images(t, want.cfg.Dir), images(t, got.cfg.Dir)
		require.Len(t, b, len(a))
		for i := range a {
			end := headerAt(b[i]).EndTimestamp - headerAt(a[i]).EndTimestamp
			require.True(t, 0 <= end && end <= 999, end) // known to the second only
			copy(b[i][headerEndTimestamp:], a[i][headerEndTimestamp:headerBeginOffset])
			require.True(t, bytes.Equal(a[i], b[i]), "%s, file %d", name, i)
		}
	}
}

// TestGoldenHeaders compares what RocketMQ said about its files.
func TestGoldenHeaders(t *testing.T) {
	snapshot := func(c *golden.Case) bool { return c.Live != nil && len(c.Edits) == 0 }
	eachGolden(t, 14, snapshot, func(t *testing.T, c *golden.Case, dir string) {
		x, err := Open(goldenConfig(c, filepath.Join(dir, "index")))
		require.NoError(t, err)
		defer x.Close()
		var got []golden.IndexState
		for _, f := range x.Files() {
			h := f.Header
			got = append(got, golden.IndexState{
				Name: filepath.Base(f.Path), BeginTimestamp: h.BeginTimestamp, EndTimestamp: h.EndTimestamp,
				BeginPhyOffset: int64(h.BeginLogOffset), EndPhyOffset: int64(h.EndLogOffset),
				HashSlotCount: int(h.SlotCount), IndexCount: int(h.Count),
			})
		}
		require.Equal(t, c.Live.IndexFiles, got)
	})
}

func TestGoldenQueries(t *testing.T) {
	var asked atomic.Int64
	t.Cleanup(func() { require.EqualValues(t, 1950, asked.Load()) })
	asIs := func(c *golden.Case) bool { return len(c.Edits) == 0 && !c.Has(golden.AfterArchive) } // not opened again before
	eachGolden(t, 14, asIs, func(t *testing.T, c *golden.Case, dir string) {
		records := make(map[message.LogOffset]message.DispatchRequest)
		for _, r := range goldenRecords(t, dir, c.Config.MappedFileSizeCommitLog) {
			records[r.LogOffset()] = r
		}
		x, err := Open(goldenConfig(c, filepath.Join(dir, "index")))
		require.NoError(t, err)
		defer x.Close()
		for i, read := range c.Reads {
			if read.Op != "queryMessage" {
				continue
			}
			asked.Add(1)
			answer, err := read.Answer()
			require.NoError(t, err)
			want := *answer.(*golden.QueryResult)
			raw, err := x.QueryRaw(read.Topic, read.Key, read.MaxNum, read.Begin, read.End)
			require.NoError(t, err)
			got := golden.QueryResult{IndexLastUpdateTimestamp: raw.UpdateTimestamp, IndexLastUpdatePhyoffset: int64(raw.UpdateLogOffset)}
			for _, off := range raw.LogOffsets {
				if _, ok := records[off]; ok { // the log may not have it any more
					got.Offsets = append(got.Offsets, int64(off))
				}
			}
			if len(raw.LogOffsets) == 0 { // RocketMQ's store then leaves them out
				got.IndexLastUpdateTimestamp, got.IndexLastUpdatePhyoffset = 0, 0
			}
			if len(want.Offsets) == 0 {
				want.Offsets = got.Offsets[:0]
			}
			require.Equal(t, want, got, "read %d: %s %s %d %d %d", i, read.Topic, read.Key, read.MaxNum, read.Begin, read.End)
			if c.Case != "topic_utf8_overlong" { // RocketMQ could not index records that we can read
				checkExact(t, x, read, records)
			}
		}
	})
}

// checkExact compares our answer with a search through the log.
func checkExact(t *testing.T, x *Index, read golden.Read, records map[message.LogOffset]message.DispatchRequest) {
	t.Helper()
	match := func(off message.LogOffset) (int64, bool) {
		r, ok := records[off]
		return matches(r, ok, read.Topic, read.Key)
	}
	var want []message.LogOffset
	for off, r := range records {
		at, ok := match(off)
		indexed := r.SysFlag().Transaction() != message.TransactionRollback
		if ok && indexed && read.Key != "" && read.Begin <= at && at <= read.End {
			want = append(want, off)
		}
	}
	slices.Sort(want)
	if n := min(read.MaxNum, DefaultMaxResults); len(want) > n {
		want = want[len(want)-n:]
	}
	got, err := query(x, read.Topic, read.Key, read.MaxNum, read.Begin, read.End, match)
	require.NoError(t, err)
	require.Equal(t, want, got, "%+v", read)
}
