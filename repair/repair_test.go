package repair_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/internal/golden"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/repair"
	"github.com/pocketmq/pocketmq/store"
)

// Sizes at which everything rolls within a hundred messages.
const (
	segmentSize = 8192
	queueUnits  = 16
	messages    = 100
)

const offsets = `{
	"offsetTable":{
		"a@g":{0:50
		},
		"b@g":{1:49
		}
	}
}`

// damaged is a store of 100 messages, alternately in queues a/0 and b/1.
type damaged struct {
	dir    string
	puts   []store.PutMessageResult
	bodies []string
}

func newStore(t *testing.T) damaged {
	t.Helper()
	d := damaged{dir: t.TempDir()}
	var now atomic.Int64 // a ms passes with each look at the clock
	now.Store(1_700_000_000_000)
	s, err := store.Open(t.Context(), d.dir, store.Config{
		Flush: store.FlushAsync, SegmentSize: segmentSize, ConsumeQueueFileSize: queueUnits * 20, NoIndex: true,
		Now: func() time.Time { return time.UnixMilli(now.Add(1)) },
	})
	require.NoError(t, err)
	for i := range messages {
		m := &message.MessageExtBrokerInner{}
		m.Topic, m.QueueID = []string{"a", "b"}[i%2], int32(i%2)
		m.Body = fmt.Appendf(nil, "the body of message %03d, which is long enough for some messages in a file", i)
		m.Properties = "TAGS\x01red"
		r, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
		d.puts, d.bodies = append(d.puts, r), append(d.bodies, string(m.Body))
	}
	require.NoError(t, s.WriteConfig("consumerOffset.json", []byte(offsets)))
	require.NoError(t, s.Close())
	return d
}

// inLog lets f change the log from message i on.
func (d damaged) inLog(t *testing.T, i int, f func(b []byte)) {
	t.Helper()
	off := int64(d.puts[i].LogOffset)
	path := filepath.Join(d.dir, "commitlog", fmt.Sprintf("%020d", off/segmentSize*segmentSize))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	f(b[off%segmentSize:])
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

func (d damaged) segment(n int) string {
	return filepath.Join(d.dir, "commitlog", fmt.Sprintf("%020d", n*segmentSize))
}

// firstOf is the first message of a segment.
func (d damaged) firstOf(segment int64) int {
	return slices.IndexFunc(d.puts, func(r store.PutMessageResult) bool { return int64(r.LogOffset) >= segment*segmentSize })
}

func flip(at int) func(b []byte) { return func(b []byte) { b[at] ^= 0x10 } }
func zero(n int) func(b []byte)  { return func(b []byte) { clear(b[:n]) } }
func between(from, to int) []int { return numbers(from, to, 1) }
func numbers(from, to, step int) (all []int) {
	for ; from < to; from += step {
		all = append(all, from)
	}
	return all
}

// TestRepair damages a store, and wants every other message back: by its number,
// at its place in the log.
func TestRepair(t *testing.T) {
	tests := []struct {
		name    string
		damage  func(t *testing.T, d damaged)
		lost    func(d damaged) []int // messages
		ranges  int64
		fillers int64
	}{
		{"nothing", func(*testing.T, damaged) {}, nil, 0, 0},
		{"a body", func(t *testing.T, d damaged) { d.inLog(t, 20, flip(90)) },
			func(damaged) []int { return []int{20} }, 1, 1},
		{"a magic number", func(t *testing.T, d damaged) { d.inLog(t, 20, flip(5)) },
			func(damaged) []int { return []int{20} }, 1, 1},
		{"the first record", func(t *testing.T, d damaged) { d.inLog(t, 0, flip(3)) },
			func(damaged) []int { return []int{0} }, 1, 1},
		{"the last record of a file", func(t *testing.T, d damaged) { d.inLog(t, d.firstOf(1)-1, flip(5)) },
			func(d damaged) []int { return []int{d.firstOf(1) - 1} }, 1, 0},
		{"the first record of a file", func(t *testing.T, d damaged) { d.inLog(t, d.firstOf(1), flip(5)) },
			func(d damaged) []int { return []int{d.firstOf(1)} }, 1, 1},
		{"the last records", func(t *testing.T, d damaged) {
			d.inLog(t, 98, flip(90))
			d.inLog(t, 99, flip(90))
		}, func(damaged) []int { return []int{98, 99} }, 2, 0},
		{"zeros", func(t *testing.T, d damaged) { d.inLog(t, 20, zero(1000)) },
			func(damaged) []int { return between(20, 26) }, 1, 1},
		{"a queue offset that the queue knows", func(t *testing.T, d damaged) { d.inLog(t, 20, func(b []byte) { b[27] = 12 }) }, nil, 0, 0},
		{"a queue offset that nobody knows", func(t *testing.T, d damaged) {
			d.inLog(t, 20, func(b []byte) { b[27] = 12 })
			require.NoError(t, os.RemoveAll(filepath.Join(d.dir, "consumequeue")))
		}, func(damaged) []int { return []int{20} }, 1, 1},
		{"a blank", func(t *testing.T, d damaged) {
			d.inLog(t, d.firstOf(1)-1, func(b []byte) { clear(b[d.puts[0].Bytes : d.puts[0].Bytes+8]) })
		}, nil, 1, 0},
		{"a missing file", func(t *testing.T, d damaged) { require.NoError(t, os.Remove(d.segment(1))) },
			func(d damaged) []int { return between(d.firstOf(1), d.firstOf(2)) }, 1, 0},
		{"a file that was cut", func(t *testing.T, d damaged) { require.NoError(t, os.Truncate(d.segment(1), 4000)) },
			func(d damaged) []int { return between(d.firstOf(1)+23, d.firstOf(2)) }, 1, 0},
		{"an old file gone", func(t *testing.T, d damaged) { require.NoError(t, os.Remove(d.segment(0))) },
			func(d damaged) []int { return between(0, d.firstOf(1)) }, 0, 0},
		{"every consume queue", func(t *testing.T, d damaged) {
			require.NoError(t, os.RemoveAll(filepath.Join(d.dir, "consumequeue")))
		}, nil, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newStore(t)
			test.damage(t, d)
			before, err := golden.Files(d.dir)
			require.NoError(t, err)
			out := filepath.Join(t.TempDir(), "out")
			var heard int64
			r, err := repair.Run(t.Context(), d.dir, out, repair.Config{Lost: func(inspect.Lost) { heard++ }})
			require.NoError(t, err)
			after, err := golden.Files(d.dir)
			require.NoError(t, err)
			require.Equal(t, before, after, "the source is not changed")
			require.Equal(t, test.ranges, r.Salvaged.Lost)
			require.Equal(t, test.ranges, heard)
			require.Equal(t, test.fillers, r.Fillers)
			var lost []int
			if test.lost != nil {
				lost = test.lost(d)
			}
			d.requireKept(t, out, lost)
		})
	}
}

// requireKept opens a store and wants all messages but the lost ones.
func (d damaged) requireKept(t *testing.T, dir string, lost []int) {
	t.Helper()
	sum, err := inspect.Verify(t.Context(), dir, func(f inspect.Finding) { require.Equal(t, inspect.UnitBlank, f.Kind) })
	require.NoError(t, err)
	require.True(t, sum.Clean())
	s, err := store.Open(t.Context(), dir, store.Config{NoIndex: true})
	require.NoError(t, err)
	defer s.Close()
	require.True(t, s.Recovery().FromPoint || messages == len(lost))
	for i, put := range d.puts {
		topic, id := []string{"a", "b"}[i%2], int32(i%2)
		r, err := s.GetMessage(t.Context(), store.GetQuery{Topic: topic, QueueID: id, Offset: put.QueueOffset, MaxCount: 1})
		require.NoError(t, err)
		if slices.Contains(lost, i) {
			if len(r.Messages) > 0 {
				require.NotEqual(t, put.QueueOffset, r.Messages[0].QueueOffset(), "message %d", i)
			}
		} else {
			require.Len(t, r.Messages, 1, "message %d", i)
			v := r.Messages[0]
			require.Equal(t, put.QueueOffset, v.QueueOffset())
			require.Equal(t, put.LogOffset, v.LogOffset())
			require.Equal(t, d.bodies[i], string(v.Body()))
		}
		r.Release()
	}
}

// TestRepairTellsWhatIsMissing names the numbers, and lowers a consumer's offset
// to the end of what is left.
func TestRepairTellsWhatIsMissing(t *testing.T) {
	d := newStore(t)
	d.inLog(t, 20, zero(1000)) // six messages, three of each queue
	d.inLog(t, 98, flip(90))   // the last of queue a
	out := filepath.Join(t.TempDir(), "out")
	r, err := repair.Run(t.Context(), d.dir, out, repair.Config{})
	require.NoError(t, err)
	require.Equal(t, []inspect.SalvagedQueue{
		{Topic: "a", QueueID: 0, Dir: filepath.Join(d.dir, "consumequeue", "a", "0"), Kept: 46, Missing: []inspect.OffsetRange{{From: 10, To: 13}, {From: 49, To: 50}}},
		{Topic: "b", QueueID: 1, Dir: filepath.Join(d.dir, "consumequeue", "b", "1"), Kept: 47, Missing: []inspect.OffsetRange{{From: 10, To: 13}}},
	}, r.Queues)
	require.Equal(t, []repair.Lowered{{File: "consumerOffset.json", Key: "a@g", QueueID: 0, From: 50, To: 49}}, r.Lowered)
	for _, name := range []string{"consumerOffset.json", "consumerOffset.json.bak"} {
		text, err := os.ReadFile(filepath.Join(out, "config", name))
		require.NoError(t, err)
		require.Equal(t, `{
	"offsetTable":{
		"a@g":{0:49
		},
		"b@g":{1:49
		}
	}
}`, string(text))
	}
	require.Equal(t, []string{"config/consumerOffset.json", "pocketmq/store.json"}, r.Files)
}

// TestRepairLargeGap fills more than the largest filler takes.
func TestRepairLargeGap(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	s, err := store.Open(t.Context(), dir, store.Config{Flush: store.FlushAsync, SegmentSize: 16 << 20})
	require.NoError(t, err)
	m := &message.MessageExtBrokerInner{}
	m.Topic, m.Body = "a", make([]byte, 4<<20-7)
	var puts []store.PutMessageResult
	for range 3 {
		r, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
		puts = append(puts, r)
	}
	require.NoError(t, s.Close())
	f, err := os.OpenFile(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", 0)), os.O_RDWR, 0)
	require.NoError(t, err)
	for _, r := range puts[:2] {
		_, err = f.WriteAt([]byte("XXXX"), int64(r.LogOffset)+4)
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	r, err := repair.Run(t.Context(), dir, out, repair.Config{})
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Records)
	require.EqualValues(t, 3, r.Fillers)
	require.EqualValues(t, puts[2].LogOffset, r.LostBytes)
}

// TestRepairKeepsNumbering copies the queue of which no message is left.
func TestRepairKeepsNumbering(t *testing.T) {
	d := newStore(t)
	for i := range 3 {
		require.NoError(t, os.Remove(d.segment(i)))
	}
	require.NoError(t, os.WriteFile(d.segment(3), make([]byte, segmentSize), 0o600))
	out := filepath.Join(t.TempDir(), "out")
	r, err := repair.Run(t.Context(), d.dir, out, repair.Config{})
	require.NoError(t, err)
	require.Empty(t, r.Lowered)
	require.EqualValues(t, 3*segmentSize, r.LogStart)
	s, err := store.Open(t.Context(), out, store.Config{NoIndex: true})
	require.NoError(t, err)
	defer s.Close()
	require.EqualValues(t, 50, s.MinOffsetInQueue("a", 0))
	require.EqualValues(t, 50, s.MaxOffsetInQueue("a", 0))
	require.EqualValues(t, 50, s.MaxOffsetInQueue("b", 1))
}

// TestRepairConfig takes a .bak in place of what does not parse.
func TestRepairConfig(t *testing.T) {
	d := newStore(t)
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(d.dir, "config", name), []byte(text), 0o600))
	}
	write("consumerOffset.json", "{\n\t\"offsetTable\":{\n\t\t\"a@g\":{0:")
	write("consumerOffset.json.bak", `{"offsetTable":{"a@g":{0:7}}}`)
	write("topics.json", "")
	write("notes.txt", "not ours")
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "pocketmq", "store.json"), []byte("{}"), 0o600))
	out := filepath.Join(t.TempDir(), "out")
	r, err := repair.Run(t.Context(), d.dir, out, repair.Config{})
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(out, "config", "consumerOffset.json"))
	require.NoError(t, err)
	require.Equal(t, `{"offsetTable":{"a@g":{0:7}}}`, string(text))
	require.Equal(t, []string{"config/consumerOffset.json"}, r.Files)
	var lost []string
	for _, f := range r.FilesLost {
		lost = append(lost, f.Path+": "+f.Err.Error())
	}
	require.Equal(t, []string{
		"config/consumerOffset.json: does not parse: unexpected EOF",
		"config/topics.json: is empty",
		`pocketmq/store.json: checksum "{}", that of the text is ef46db3751d8e999`,
	}, lost)
}

func TestRepairRefusesOutput(t *testing.T) {
	d := newStore(t)
	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "file"), nil, 0o600))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(d.dir, link))
	for _, out := range []string{"", d.dir, full, filepath.Join(d.dir, "out"), filepath.Join(link, "out"), filepath.Join(d.dir, "config", "..", "out"),
		filepath.Join(full, "missing", "out"), filepath.Join(full, "file")} {
		_, err := repair.Run(t.Context(), d.dir, out, repair.Config{})
		require.ErrorIs(t, err, repair.ErrOutput, out)
	}
	_, err := repair.Run(t.Context(), full, filepath.Join(t.TempDir(), "out"), repair.Config{})
	require.ErrorIs(t, err, inspect.ErrNoStore)
	empty := t.TempDir()
	_, err = repair.Run(t.Context(), d.dir, empty, repair.Config{})
	require.NoError(t, err)
	d.requireKept(t, empty, nil)
}

// TestRepairInterrupted leaves nothing behind.
func TestRepairInterrupted(t *testing.T) {
	d := newStore(t)
	parent := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := repair.Run(ctx, d.dir, filepath.Join(parent, "out"), repair.Config{Progress: func(int64, int64) { cancel() }})
	require.True(t, errors.Is(err, context.Canceled), "%v", err)
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Empty(t, entries)
}
