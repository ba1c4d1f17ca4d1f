package inspect_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

func TestMain(m *testing.M) {
	if err := os.Setenv("TMPDIR", crashfs.Dir()); err != nil { // where files cost least
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// Sizes at which everything rolls within a hundred messages.
const (
	segmentSize = 8192
	queueUnits  = 16
)

// now is the clock of the stores, in ms: one passes with each message.
var now atomic.Int64

func open(t *testing.T, dir string, flush store.FlushMode) *store.DefaultMessageStore {
	t.Helper()
	now.Store(1_700_000_000_000)
	s, err := store.Open(t.Context(), dir, store.Config{
		Flush: flush, FlushTimeout: 10 * time.Minute, SegmentSize: segmentSize, ConsumeQueueFileSize: queueUnits * 20, NoIndex: true,
		Now: func() time.Time { return time.UnixMilli(now.Load()) },
	})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// put stores messages [from, to) alternately in queues a/0 and b/1.
func put(t *testing.T, s *store.DefaultMessageStore, from, to int) []store.PutMessageResult {
	t.Helper()
	var results []store.PutMessageResult
	for i := from; i < to; i++ {
		m := &message.MessageExtBrokerInner{}
		m.Topic, m.QueueID = []string{"a", "b"}[i%2], int32(i%2)
		m.Body = fmt.Appendf(nil, "the body of message %03d, which is long enough for some messages in a file", i)
		m.Properties = message.Properties(message.PropertyTags + "\x01red")
		now.Add(1)
		r, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
		results = append(results, r)
	}
	return results
}

// newStore makes a store of n messages and closes it.
func newStore(t *testing.T, n int) (dir string, results []store.PutMessageResult) {
	t.Helper()
	dir = t.TempDir()
	s := open(t, dir, store.FlushSync)
	results = put(t, s, 0, n)
	require.NoError(t, s.Close())
	return dir, results
}

// verify returns the findings with their paths relative to dir.
func verify(t *testing.T, dir string) (inspect.Summary, []string) {
	t.Helper()
	before := state(t, dir)
	var found []string
	sum, err := inspect.Verify(t.Context(), dir, func(f inspect.Finding) {
		rel, err := filepath.Rel(dir, f.File)
		require.NoError(t, err)
		found = append(found, fmt.Sprintf("%s %s: %s+%d: %s", f.Severity, f.Kind, rel, f.Offset, f.Text))
	})
	require.NoError(t, err)
	require.True(t, maps.Equal(before, state(t, dir)), "nothing changes")
	require.EqualValues(t, len(found), sum.Errors+sum.Notes)
	return sum, found
}

// state is every path in dir with its bytes.
func state(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			all[path] = ""
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	}))
	return all
}

// change lets f change the bytes of a file.
func change(t *testing.T, path string, f func(b []byte)) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	f(b)
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

// inLog lets f change the log from an offset on.
func inLog(t *testing.T, dir string, off message.LogOffset, f func(b []byte)) {
	t.Helper()
	base := int64(off) / segmentSize * segmentSize
	change(t, filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", base)), func(b []byte) { f(b[int64(off)-base:]) })
}

// inQueue lets f change a unit of queue a/0.
func inQueue(t *testing.T, dir string, n int, f func(b []byte)) {
	t.Helper()
	base := n / queueUnits * queueUnits * 20
	change(t, queueFile(dir, n), func(b []byte) { f(b[n*20-base:]) })
}

func queueFile(dir string, n int) string {
	return filepath.Join(dir, "consumequeue", "a", "0", fmt.Sprintf("%020d", n/queueUnits*queueUnits*20))
}

func TestCleanStoreHasNoFinding(t *testing.T) {
	for _, n := range []int{0, 1, 100} {
		dir, _ := newStore(t, n)
		sum, found := verify(t, dir)
		require.Empty(t, found)
		require.True(t, sum.Clean())
		require.EqualValues(t, n, sum.Records)
		require.EqualValues(t, n, sum.Units)
		require.False(t, sum.Marked)
	}
}

// TestVerifyFindsDamage damages a store of 100 messages in one place, and wants
// to hear of that and of nothing else. Message 20 of the log is 10 of queue a/0.
func TestVerifyFindsDamage(t *testing.T) {
	const damagedMessage = 20
	zero := func(n int) func(b []byte) { return func(b []byte) { clear(b[:n]) } }
	flip := func(at int) func(b []byte) { return func(b []byte) { b[at] ^= 0x10 } }
	tests := []struct {
		name   string
		damage func(t *testing.T, dir string, r []store.PutMessageResult)
		want   []string
	}{
		{"body", func(t *testing.T, dir string, r []store.PutMessageResult) {
			inLog(t, dir, r[damagedMessage].LogOffset, flip(90))
		}, []string{
			"error record-body: commitlog/00000000000000000000+3460: message 10 of queue a/0: corrupt data: body checksum 1cf7584f, the record says 52008845",
		}},
		{"size", func(t *testing.T, dir string, r []store.PutMessageResult) {
			inLog(t, dir, r[damagedMessage].LogOffset, flip(3))
		}, []string{
			"error log-damage: commitlog/00000000000000000000+3460: the log can not be read from 3460 to 3633: corrupt data: properties length 8, 24 bytes are left",
			"error unit-wrong: consumequeue/a/0/00000000000000000000+200: unit 10 of queue a/0: corrupt data: size 173, but the record at log offset 3460 takes 189 bytes",
		}},
		{"magic", func(t *testing.T, dir string, r []store.PutMessageResult) {
			inLog(t, dir, r[damagedMessage].LogOffset, flip(5))
		}, []string{
			"error log-damage: commitlog/00000000000000000000+3460: the log can not be read from 3460 to 3633: corrupt data: magic number 0xdab320a7",
			"error unit-wrong: consumequeue/a/0/00000000000000000000+200: unit 10 of queue a/0: log offset 3460: corrupt data: magic number 0xdab320a7",
		}},
		{"magic of the last record", func(t *testing.T, dir string, r []store.PutMessageResult) {
			inLog(t, dir, r[98].LogOffset, flip(5))
			inLog(t, dir, r[99].LogOffset, flip(5))
		}, []string{
			"error unit-wrong: consumequeue/a/0/00000000000000000960+20: unit 49 of queue a/0: log offset 17076: corrupt data: magic number 0xdab320a7",
			"error unit-wrong: consumequeue/b/1/00000000000000000960+20: unit 49 of queue b/1: log offset 17249: corrupt data: magic number 0xdab320a7",
			"error own-file: pocketmq/recovery.json+0: vouches for the log up to 17422, it ends at 17076",
			"error log-tail: commitlog/00000000000000016384+692: behind the end of the log: corrupt data: magic number 0xdab320a7",
		}},
		{"physical offset", func(t *testing.T, dir string, r []store.PutMessageResult) {
			inLog(t, dir, r[damagedMessage].LogOffset, flip(35))
		}, []string{
			"error log-damage: commitlog/00000000000000000000+3460: the log can not be read from 3460 to 3633: corrupt data: a record that was written for offset 3476",
			"error unit-wrong: consumequeue/a/0/00000000000000000000+200: unit 10 of queue a/0: log offset 3460: corrupt data: a record that was written for offset 3476",
		}},
		{"queue offset", func(t *testing.T, dir string, r []store.PutMessageResult) {
			inLog(t, dir, r[damagedMessage].LogOffset, func(b []byte) { b[27] = 12 })
		}, []string{
			"error numbering: commitlog/00000000000000000000+3460: message 12 of queue a/0 comes after message 9",
			"error numbering: commitlog/00000000000000000000+3806: message 11 of queue a/0 comes after message 12",
			"error unit-wrong: consumequeue/a/0/00000000000000000000+200: unit 10 of queue a/0: corrupt data: the record at log offset 3460 is message 12 of queue a/0",
		}},
		{"store time", func(t *testing.T, dir string, r []store.PutMessageResult) {
			inLog(t, dir, r[damagedMessage].LogOffset, func(b []byte) { b[58] = 0 })
		}, []string{
			"note record-time: commitlog/00000000000000000000+3460: message 10 of queue a/0 was stored at 600488372245 ms, the one before at 1700000000020",
		}},
		{"zeros in the log", func(t *testing.T, dir string, r []store.PutMessageResult) {
			inLog(t, dir, r[damagedMessage].LogOffset, zero(r[damagedMessage].Bytes))
		}, []string{
			"error log-damage: commitlog/00000000000000000000+3460: the log can not be read from 3460 to 3633: corrupt data: zeros where a record should be",
			"error unit-wrong: consumequeue/a/0/00000000000000000000+200: unit 10 of queue a/0: log offset 3460: corrupt data: nothing instead of a record",
		}},
		{"blank", func(t *testing.T, dir string, r []store.PutMessageResult) {
			last := slices.IndexFunc(r, func(r store.PutMessageResult) bool { return r.LogOffset == segmentSize }) - 1
			inLog(t, dir, r[last].LogOffset+message.LogOffset(r[last].Bytes), flip(3))
		}, []string{
			"error log-blank: commitlog/00000000000000000000+8131: the blank says that 45 bytes are left in the file, it is 61",
		}},
		{"bytes after the end", func(t *testing.T, dir string, r []store.PutMessageResult) {
			inLog(t, dir, r[99].LogOffset+message.LogOffset(r[99].Bytes)+100, flip(0))
		}, []string{
			"error log-tail: commitlog/00000000000000016384+1038: behind the end of the log: corrupt data: 100 zeros, and then something else",
		}},
		{"unit's offset", func(t *testing.T, dir string, _ []store.PutMessageResult) {
			inQueue(t, dir, 10, flip(7))
		}, []string{
			"error unit-wrong: consumequeue/a/0/00000000000000000000+200: unit 10 of queue a/0: log offset 3476: corrupt data: nothing instead of a record",
		}},
		{"unit's size", func(t *testing.T, dir string, _ []store.PutMessageResult) {
			inQueue(t, dir, 10, flip(11))
		}, []string{
			"error unit-wrong: consumequeue/a/0/00000000000000000000+200: unit 10 of queue a/0: corrupt data: size 189, but the record at log offset 3460 takes 173 bytes",
		}},
		{"unit's tags code", func(t *testing.T, dir string, _ []store.PutMessageResult) {
			inQueue(t, dir, 10, flip(19))
		}, []string{
			"error unit-wrong: consumequeue/a/0/00000000000000000000+200: unit 10 of queue a/0: corrupt data: tags code 112769, the tag of the record at log offset 3460 has 112785",
		}},
		{"unit of another message", func(t *testing.T, dir string, _ []store.PutMessageResult) {
			inQueue(t, dir, 10, func(b []byte) { copy(b[:20], b[20:40]) })
		}, []string{
			"error unit-wrong: consumequeue/a/0/00000000000000000000+200: unit 10 of queue a/0: corrupt data: the record at log offset 3806 is message 11 of queue a/0",
		}},
		{"zero units", func(t *testing.T, dir string, _ []store.PutMessageResult) {
			inQueue(t, dir, 10, zero(40))
		}, []string{
			"error unit-zero: consumequeue/a/0/00000000000000000000+200: units [10, 12) of queue a/0 are zero, and others follow",
		}},
		{"blank units", func(t *testing.T, dir string, _ []store.PutMessageResult) {
			inQueue(t, dir, 10, func(b []byte) {
				clear(b[:40])
				binary.BigEndian.PutUint32(b[8:], 0x7FFFFFFF)
				binary.BigEndian.PutUint32(b[28:], 0x7FFFFFFF)
			})
		}, []string{
			"error unit-missing: commitlog/00000000000000000000+3460: messages [10, 12) of queue a/0 are not in its consume queue",
			"note unit-blank: consumequeue/a/0/00000000000000000000+200: units [10, 12) of queue a/0 are blanks: they hold the places of messages that the queue does not have",
		}},
		{"last unit", func(t *testing.T, dir string, _ []store.PutMessageResult) {
			inQueue(t, dir, 49, zero(20))
		}, []string{
			"error unit-missing: commitlog/00000000000000016384+692: messages [49, 50) of queue a/0 are not in its consume queue",
		}},
		{"first queue file removed", func(t *testing.T, dir string, _ []store.PutMessageResult) {
			require.NoError(t, os.Remove(queueFile(dir, 0)))
		}, []string{
			"error unit-missing: commitlog/00000000000000000000+0: messages [0, 16) of queue a/0 are not in its consume queue",
		}},
		{"middle queue file removed", func(t *testing.T, dir string, _ []store.PutMessageResult) {
			require.NoError(t, os.Remove(queueFile(dir, queueUnits)))
		}, []string{
			"error file-missing: consumequeue/a/0/00000000000000000640+0: the file before it is missing: nothing holds [320, 640)",
		}},
		{"last queue file removed", func(t *testing.T, dir string, _ []store.PutMessageResult) {
			require.NoError(t, os.Remove(queueFile(dir, 49)))
		}, []string{
			"error unit-missing: commitlog/00000000000000016384+346: messages [48, 50) of queue a/0 are not in its consume queue",
		}},
		{"queue removed", func(t *testing.T, dir string, _ []store.PutMessageResult) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "consumequeue", "a")))
		}, []string{
			"error unit-missing: commitlog/00000000000000000000+0: messages [0, 50) of queue a/0 are not in its consume queue",
		}},
		{"middle log file removed", func(t *testing.T, dir string, _ []store.PutMessageResult) {
			require.NoError(t, os.Remove(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", segmentSize))))
		}, []string{
			"error file-missing: commitlog/00000000000000016384+0: the file before it is missing: nothing holds [8192, 16384)",
			"error unit-lost: consumequeue/a/0/00000000000000000320+160: units [24, 47) of queue a/0 point at no file of the log",
			"error unit-lost: consumequeue/b/1/00000000000000000320+140: units [23, 47) of queue b/1 point at no file of the log",
		}},
		{"last log file removed", func(t *testing.T, dir string, _ []store.PutMessageResult) {
			require.NoError(t, os.Remove(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", 2*segmentSize))))
		}, []string{
			"error checkpoint: checkpoint+0: names the time 1700000000100 ms, the last record of the log was stored at 1700000000094",
			"error unit-lost: consumequeue/a/0/00000000000000000640+300: units [47, 50) of queue a/0 point at no file of the log",
			"error unit-lost: consumequeue/b/1/00000000000000000640+300: units [47, 50) of queue b/1 point at no file of the log",
			"error own-file: pocketmq/recovery.json+0: vouches for the log up to 17422, it ends at 16384",
		}},
		{"log file cut", func(t *testing.T, dir string, r []store.PutMessageResult) {
			require.NoError(t, os.Truncate(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", segmentSize)), segmentSize/2))
		}, []string{
			"error file-size: commitlog/00000000000000008192+0: has 4096 bytes, the first file has 8192",
			"error file-missing: commitlog/00000000000000016384+0: the file before it is missing: nothing holds [12288, 16384)",
			"error log-damage: commitlog/00000000000000008192+3979: the log can not be read from 12171 to 16384: corrupt data: record size 173, but the file ends after 117 bytes",
			"error unit-wrong: consumequeue/a/0/00000000000000000640+60: unit 35 of queue a/0: corrupt data: size 173 at log offset 12171: no record has it there",
			"error unit-lost: consumequeue/a/0/00000000000000000640+80: units [36, 47) of queue a/0 point at no file of the log",
			"error unit-lost: consumequeue/b/1/00000000000000000640+60: units [35, 47) of queue b/1 point at no file of the log",
		}},
		{"foreign files", func(t *testing.T, dir string, _ []store.PutMessageResult) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "commitlog", "notes"), nil, 0o600))
			require.NoError(t, os.Mkdir(filepath.Join(dir, "consumequeue", "b", "1", fmt.Sprintf("%020d", 0)+"0"), 0o700))
		}, []string{
			"error file-foreign: consumequeue/b/1/000000000000000000000+0: does not belong here: not a file named by 20 digits",
			"error file-foreign: commitlog/notes+0: does not belong here: not a file named by 20 digits",
		}},
		{"checkpoint", func(t *testing.T, dir string, _ []store.PutMessageResult) {
			change(t, filepath.Join(dir, "checkpoint"), func(b []byte) { copy(b, []byte{0, 0, 9, 0, 0, 0, 0, 0}) })
		}, []string{
			"error checkpoint: checkpoint+0: names the time 9895604649984 ms, the last record of the log was stored at 1700000000100",
		}},
		{"short checkpoint", func(t *testing.T, dir string, _ []store.PutMessageResult) {
			require.NoError(t, os.Truncate(filepath.Join(dir, "checkpoint"), 12))
		}, []string{
			"error checkpoint: checkpoint+0: too short for its three times",
		}},
	}
	sound, results := newStore(t, 100)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(sound)))
			test.damage(t, dir, results)
			sum, found := verify(t, dir)
			require.Equal(t, test.want, found)
			require.Equal(t, strings.HasPrefix(test.want[0], "note"), sum.Clean())
		})
	}
}

// TestVerifyLiveStore reads a store over and over while it is written to.
func TestVerifyLiveStore(t *testing.T) {
	for _, flush := range []store.FlushMode{store.FlushSync, store.FlushAsync} {
		t.Run(flush.String(), func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, flush)
			ctx, cancel := context.WithCancel(t.Context())
			var n int // how many were put
			var writer sync.WaitGroup
			defer writer.Wait()
			defer cancel() // also when the test has failed
			writer.Go(func() {
				for ; ctx.Err() == nil && n < 5000; n += 10 {
					put(t, s, n, n+10)
				}
			})
			var last inspect.Summary
			for range 30 {
				sum, err := inspect.Verify(t.Context(), dir, func(f inspect.Finding) {
					if f.Kind != inspect.LogTail || f.Severity != inspect.Note { // one write may be under way at both looks
						t.Error(f)
					}
				})
				require.NoError(t, err)
				require.True(t, sum.Marked)
				require.GreaterOrEqual(t, sum.LogEnd, last.LogEnd)
				last = sum
				info, err := inspect.Info(dir)
				require.NoError(t, err)
				require.GreaterOrEqual(t, info.Log.End, last.LogEnd)
			}
			cancel()
			writer.Wait()
			require.NoError(t, s.Close())
			sum, found := verify(t, dir)
			require.Empty(t, found)
			require.EqualValues(t, n, sum.Records)
			require.EqualValues(t, n, sum.Units)
		})
	}
}

// TestVerifyTornTail calls what a crash left behind the end a note.
func TestVerifyTornTail(t *testing.T) {
	dir, r := newStore(t, 100)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "abort"), nil, 0o600))
	inLog(t, dir, r[99].LogOffset, func(b []byte) {
		n := r[99].Bytes
		copy(b[n:n+50], b[:50])
		binary.BigEndian.PutUint64(b[n+28:], uint64(r[99].LogOffset)+uint64(n))
	})
	sum, found := verify(t, dir)
	require.Len(t, found, 1)
	require.Contains(t, found[0], "note log-tail: commitlog/00000000000000016384+")
	require.Contains(t, found[0], "a message that was cut off, which the next open removes")
	require.True(t, sum.Clean())
}

func TestVerifyEnds(t *testing.T) {
	dir, _ := newStore(t, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := inspect.Verify(ctx, dir, func(inspect.Finding) {})
	require.ErrorIs(t, err, context.Canceled)
	for _, dir := range []string{t.TempDir(), filepath.Join(dir, "missing"), filepath.Join(dir, "lock")} {
		_, err := inspect.Verify(t.Context(), dir, nil)
		require.ErrorIs(t, err, inspect.ErrNoStore)
		_, err = inspect.Info(dir)
		require.ErrorIs(t, err, inspect.ErrNoStore)
		for _, err := range inspect.Log(dir) {
			require.ErrorIs(t, err, inspect.ErrNoStore)
		}
		for _, err := range inspect.Queue(dir, "a", 0) {
			require.ErrorIs(t, err, inspect.ErrNoStore)
		}
	}
}

// TestInfo compares with what the store says about itself.
func TestInfo(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.FlushSync)
	r := put(t, s, 0, 100)
	require.NoError(t, s.WaitDispatched(t.Context(), s.MaxOffset()))
	for _, marked := range []bool{true, false} {
		info, err := inspect.Info(dir)
		require.NoError(t, err)
		require.Equal(t, marked, info.Marked)
		require.Contains(t, info.Owner, fmt.Sprintf("process %d on ", os.Getpid()))
		require.Equal(t, s.MinOffset(), info.Log.Start)
		require.Equal(t, r[99].LogOffset+message.LogOffset(r[99].Bytes), info.Log.End)
		require.Equal(t, r[99].StoreTimestamp, info.Log.LastTime)
		require.Empty(t, info.Foreign)
		require.Equal(t, []inspect.Topic{
			{Name: "a", Queues: []inspect.QueueInfo{{ID: 0, Max: 50, Files: 4, Bytes: 4 * queueUnits * 20}}},
			{Name: "b", Queues: []inspect.QueueInfo{{ID: 1, Max: 50, Files: 4, Bytes: 4 * queueUnits * 20}}},
		}, info.Topics)
		require.NoError(t, s.Close())
		if !marked {
			require.Equal(t, inspect.Checkpoint{Log: r[99].StoreTimestamp, Queues: r[99].StoreTimestamp}, info.Checkpoint)
		}
	}
}

// TestInfoOfRemovedLog counts messages from what the log still has.
func TestInfoOfRemovedLog(t *testing.T) {
	dir, r := newStore(t, 100)
	require.NoError(t, os.Remove(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", 0))))
	left := slices.IndexFunc(r, func(r store.PutMessageResult) bool { return r.LogOffset == segmentSize })
	info, err := inspect.Info(dir)
	require.NoError(t, err)
	require.EqualValues(t, segmentSize, info.Log.Start)
	require.EqualValues(t, (left+1)/2, info.Topics[0].Queues[0].Min)
	require.EqualValues(t, left/2, info.Topics[1].Queues[0].Min)
	_, found := verify(t, dir)
	require.Empty(t, found, "messages that were removed are no finding")
}

func TestLogAndQueue(t *testing.T) {
	dir, r := newStore(t, 100)
	n := 0
	for v, err := range inspect.Log(dir) {
		require.NoError(t, err)
		require.Equal(t, r[n].LogOffset, v.LogOffset())
		require.Equal(t, r[n].QueueOffset, v.QueueOffset())
		n++
	}
	require.Equal(t, 100, n)
	n = 0
	for u, err := range inspect.Queue(dir, "a", 0) {
		require.NoError(t, err)
		require.EqualValues(t, n/2, u.QueueOffset)
		require.Equal(t, r[n].LogOffset, u.LogOffset)
		require.EqualValues(t, r[n].Bytes, u.Size)
		n += 2
	}
	require.Equal(t, 100, n)
	for _, err := range inspect.Queue(dir, "unknown", 0) {
		require.NoError(t, err)
		t.Fatal("an unknown queue has no units")
	}
	for _, err := range inspect.Queue(dir, "../commitlog", 0) {
		require.ErrorIs(t, err, message.ErrIllegal)
	}

	inLog(t, dir, r[20].LogOffset, func(b []byte) { b[5] ^= 1 })
	inLog(t, dir, r[30].LogOffset, func(b []byte) { b[90] ^= 1 })
	damages := map[message.LogOffset]bool{}
	n = 0
	for v, err := range inspect.Log(dir) {
		if err == nil {
			n++
			continue
		}
		var damage *message.CorruptionError
		require.ErrorAs(t, err, &damage)
		damages[damage.Offset] = v.Size() > 0
	}
	require.Equal(t, 98, n)
	require.Equal(t, map[message.LogOffset]bool{r[20].LogOffset: false, r[30].LogOffset: true}, damages)
	for _, err := range inspect.Log(dir) {
		require.NoError(t, err)
		break // leaves nothing open
	}
	require.Len(t, slices.Collect(maps.Keys(damages)), 2)
}
