package indexfile

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
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
			out = append(out, message.DispatchRequest{View: v})
			b = b[v.Size():]
		}
	}
	return out
}

func eachGolden(t *testing.T, test func(t *testing.T, c *golden.Case, dir string)) {
	t.Helper()
	names, err := golden.Cases()
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := golden.Load(name)
			require.NoError(t, err)
			dir := t.TempDir()
			require.NoError(t, c.Unpack(golden.StoreArchive, dir))
			test(t, c, dir)
		})
	}
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
	eachGolden(t, func(t *testing.T, c *golden.Case, dir string) {
		if why := notFromLog[c.Case]; why != "" {
			t.Skip(why)
		}
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
			if i > 0 {
				withoutFirstDiff(x, want[i], got[i])
			}
			require.True(t, bytes.Equal(want[i], got[i]), "file %d: %+v instead of %+v", i, headerAt(got[i]), headerAt(want[i]))
		}
	})
}

// withoutFirstDiff takes out the one field that differs: the first time of a file
// that follows another (F32).
func withoutFirstDiff(x *Index, want, got []byte) {
	at := FileSize(x.cfg.Slots, 1) + entryDiff
	copy(want[at:at+4], got[at:at+4])
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
			if i > 0 {
				withoutFirstDiff(got, a[i], b[i])
			}
			end := headerAt(b[i]).EndTimestamp - headerAt(a[i]).EndTimestamp
			require.True(t, 0 <= end && end <= 999, end) // known to the second only
			copy(b[i][headerEndTimestamp:], a[i][headerEndTimestamp:headerBeginOffset])
			require.True(t, bytes.Equal(a[i], b[i]), "%s, file %d", name, i)
		}
	}
}

// TestGoldenHeaders compares what RocketMQ said about its files.
func TestGoldenHeaders(t *testing.T) {
	eachGolden(t, func(t *testing.T, c *golden.Case, dir string) {
		if c.Live == nil || len(c.Edits) > 0 {
			t.Skip("no snapshot of this directory")
		}
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

type goldenQuery struct {
	Offsets                  []message.LogOffset
	IndexLastUpdateTimestamp int64
	IndexLastUpdatePhyoffset message.LogOffset
}

func TestGoldenQueries(t *testing.T) {
	eachGolden(t, func(t *testing.T, c *golden.Case, dir string) {
		if len(c.Edits) > 0 || c.Has(golden.AfterArchive) {
			t.Skip("the questions were asked after the directory was opened again")
		}
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
			var want goldenQuery
			require.NoError(t, json.Unmarshal(read.Result, &want))
			raw, err := x.QueryRaw(read.Topic, read.Key, read.MaxNum, read.Begin, read.End)
			require.NoError(t, err)
			got := goldenQuery{raw.LogOffsets, raw.UpdateTimestamp, raw.UpdateLogOffset}
			got.Offsets = slices.DeleteFunc(got.Offsets, func(off message.LogOffset) bool { // the log does not have it any more
				_, ok := records[off]
				return !ok
			})
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
	got, err := x.Query(read.Topic, read.Key, read.MaxNum, read.Begin, read.End, match)
	require.NoError(t, err)
	require.Equal(t, want, got, "%+v", read)
}
