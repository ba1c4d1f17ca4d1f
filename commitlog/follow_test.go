package commitlog

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// followed opens a log that is followed, with a ring of size bytes at first, or,
// with 0, the one that Follow makes.
func followed(t *testing.T, cfg Config, size int64) (*Log, *Follower) {
	t.Helper()
	l := load(t, cfg)
	f := l.Follow()
	if size > 0 {
		l.recent = newRecent(size)
		f.recent = l.recent
	}
	l.Start(0, 0)
	return l, f
}

// requested is everything that a request says of its record, but for its body.
func requested(r *message.DispatchRequest) string {
	return fmt.Sprintf("%d+%d queue %d:%d stored %d %v code %d topic %q properties %q marks %q %q %q",
		r.LogOffset(), r.Size(), r.QueueID(), r.QueueOffset(), r.StoreTimestamp(), r.SysFlag(), r.TagsCode,
		r.Topic(), r.Properties(), r.Keys, r.Tags, r.UniqueKey)
}

// source is how both of Log and Follower are read.
type source interface {
	Scan(from, to message.LogOffset, visit func(*message.DispatchRequest) error) (message.LogOffset, error)
}

// gathered scans, and stops with an error at the record after the first most.
func gathered(s source, from, to message.LogOffset, most int) (got []string, end message.LogOffset, err error) {
	end, err = s.Scan(from, to, func(r *message.DispatchRequest) error {
		if len(got) == most {
			return errInjected
		}
		got = append(got, requested(r))
		return nil
	})
	return got, end, err
}

// TestFollowerEqualsLog appends and follows at random, and compares with what is
// read in the log.
func TestFollowerEqualsLog(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		for _, size := range []int64{0, maxOutline, maxOutline + 300, 2*maxOutline + 1, 4 * maxOutline} {
			seed := rand.Uint64()
			t.Run(fmt.Sprintf("ring=%d/seed=%d", size, seed), func(t *testing.T) {
				cfg := config(t, staged)
				cfg.FileSize = 96 << 10
				f := &following{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), counter: NewCounter(0)}
				var err error
				cfg.DelayLevels, err = message.ParseDelayLevels("1s 5s 10s")
				require.NoError(t, err)
				f.log, f.follower = followed(t, cfg, size)
				for range 40 {
					f.step()
				}
				require.NoError(t, f.log.Flush())
				f.read(f.log.Visible(), -1)
				require.Equal(t, f.log.Visible(), f.pos)
				require.Greater(t, f.log.Files(), 1)
				require.Empty(t, f.log.Damaged())
			})
		}
	})
}

type following struct {
	t        *testing.T
	rnd      *rand.Rand
	log      *Log
	follower *Follower
	counter  *Counter
	ends     []message.LogOffset // of all records
	pos      message.LogOffset   // followed up to here
}

func (f *following) step() {
	switch f.rnd.IntN(10) {
	case 0, 1, 2:
		f.append(1 + f.rnd.IntN(30))
	case 3:
		f.append(500) // more than there is room for
	case 4, 5:
		f.batch()
	case 6:
		require.NoError(f.t, f.log.Flush())
	case 7:
		f.read(f.log.Visible(), -1)
	default:
		f.piece()
	}
}

func (f *following) message() message.Message {
	m := message.Message{Topic: strings.Repeat("t", 1+f.rnd.IntN(127)), Body: make([]byte, f.rnd.IntN(600))}
	if f.rnd.IntN(8) == 0 {
		m.Topic = message.ScheduleTopic
	}
	var p []string
	for _, name := range []string{"TAGS", "KEYS", "UNIQ_KEY", "DELAY"} {
		if f.rnd.IntN(2) == 0 {
			p = append(p, fmt.Sprintf("%s\x01%d", name, 1+f.rnd.IntN(3)))
		}
	}
	if f.rnd.IntN(40) == 0 {
		p = append(p, "long\x01"+strings.Repeat("x", message.MaxPropertiesLength-100-f.rnd.IntN(4000)))
	}
	m.Properties = message.Properties(strings.Join(p, "\x02"))
	return m
}

// room syncs what is staged before it is so much that an append waits for a sync:
// nobody else does one.
func (f *following) room() {
	if n := len(f.ends); n > 0 && f.ends[n-1]-f.log.Visible() > groupMax/2 {
		require.NoError(f.t, f.log.Flush())
	}
}

func (f *following) append(n int) {
	for range n {
		f.room()
		m := &message.MessageExt{Message: f.message(), QueueID: 3}
		if f.rnd.IntN(10) == 0 {
			m.SysFlag = message.TransactionPrepared
		}
		p, err := f.log.Append(f.t.Context(), m, f.counter)
		require.NoError(f.t, err)
		f.ends = append(f.ends, p.End())
	}
}

func (f *following) batch() {
	f.room()
	in := message.MessageExtBatch{}
	in.Topic = "batch"
	for range 1 + f.rnd.IntN(20) {
		m := f.message()
		m.Properties = m.Properties[:min(len(m.Properties), 1000)]
		var err error
		in.Body, err = message.AppendBatchElement(in.Body, &m)
		require.NoError(f.t, err)
	}
	var b Batch
	require.NoError(f.t, b.Encode(&in, message.Host{}, 1<<20, 1<<20, f.rnd.IntN(2) == 0))
	p, err := f.log.AppendBatch(f.t.Context(), &b, f.counter)
	require.NoError(f.t, err)
	f.ends = append(append(f.ends, b.LogOffsets(p.LogOffset)[1:]...), p.End())
}

// piece reads to the end of any record, or fails before that, and sometimes begins
// with what was read already.
func (f *following) piece() {
	var to []message.LogOffset
	for _, end := range f.ends {
		if end > f.pos && end <= f.log.Visible() {
			to = append(to, end)
		}
	}
	if len(to) == 0 {
		return
	}
	most := -1
	if f.rnd.IntN(2) == 0 {
		most = f.rnd.IntN(len(to))
	}
	if f.rnd.IntN(10) == 0 {
		f.pos = f.ends[f.rnd.IntN(len(f.ends)-len(to)+1)]
		f.pos = min(f.pos, to[0])
	}
	f.read(to[f.rnd.IntN(len(to))], most)
}

// read compares both, and goes on.
func (f *following) read(to message.LogOffset, most int) {
	want, wantEnd, wantErr := gathered(f.log, f.pos, to, most)
	got, end, err := gathered(f.follower, f.pos, to, most)
	require.Equal(f.t, want, got)
	require.Equal(f.t, wantEnd, end)
	require.Equal(f.t, wantErr, err)
	f.pos = end
}

// TestFollowerReadsOutlines: what the rest is about does happen. A reader that keeps
// up finds outlines; one that is behind reads the log for what was left out, and
// finds outlines again when it has caught up.
func TestFollowerReadsOutlines(t *testing.T) {
	cfg := config(t, false)
	cfg.FileSize = 1 << 20
	l, f := followed(t, cfg, 0)
	c := NewCounter(0)
	pos := message.LogOffset(0)
	follow := func() (outlines, whole int) {
		var err error
		pos, err = f.Scan(pos, l.End(), func(r *message.DispatchRequest) error {
			if len(r.Body()) == 0 {
				outlines++
			} else {
				whole++
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, l.Visible(), pos)
		return outlines, whole
	}
	for range 5 { // several laps
		for range 300 {
			add(t, l, c, 400, 'A')
		}
		outlines, whole := follow()
		require.Equal(t, [2]int{300, 0}, [2]int{outlines, whole})
	}
	burst := func() (outlines, whole int) {
		for range 3000 {
			add(t, l, c, 400, 'A')
		}
		return follow()
	}
	outlines, whole := burst()
	require.Equal(t, 3000, outlines+whole)
	require.Greater(t, outlines, 500)
	require.Greater(t, whole, 500)
	add(t, l, c, 400, 'A')
	outlines, whole = follow()
	require.Equal(t, [2]int{1, 0}, [2]int{outlines, whole})
	outlines, whole = burst()
	require.Equal(t, [2]int{3000, 0}, [2]int{outlines, whole}, "there is a larger ring now")
	require.EqualValues(t, 4*leastRecent, f.recent.size)
}

// TestRingGrowsUpToItsLimit, however much is left out.
func TestRingGrowsUpToItsLimit(t *testing.T) {
	cfg := config(t, false)
	cfg.FileSize = 4 << 20
	l, f := followed(t, cfg, maxOutline)
	c := NewCounter(0)
	m := msg(100, 'A')
	m.Properties = message.Properties("l\x01" + strings.Repeat("x", 30_000))
	var sizes []int64
	pos, seen := message.LogOffset(0), message.QueueOffset(0)
	for range 12 {
		for range 200 { // 6 MB
			_, err := l.Append(t.Context(), m, c)
			require.NoError(t, err)
		}
		var err error
		pos, err = f.Scan(pos, l.End(), func(r *message.DispatchRequest) error {
			require.Equal(t, seen, r.QueueOffset())
			seen++
			return nil
		})
		require.NoError(t, err)
		if size := f.recent.size; len(sizes) == 0 || size != sizes[len(sizes)-1] {
			sizes = append(sizes, size)
		}
	}
	require.Equal(t, l.Visible(), pos)
	require.EqualValues(t, 12*200, seen)
	require.Equal(t, []int64{maxOutline, 4 * maxOutline, 16 * maxOutline, 64 * maxOutline, mostRecent}, sizes)
	require.Nil(t, f.recent.offer.Load())
}

// TestLongOutlinesAtTheEndOfALap: they go on behind the end of the ring, wherever
// in its last part they begin.
func TestLongOutlinesAtTheEndOfALap(t *testing.T) {
	cfg := config(t, false)
	cfg.FileSize = 1 << 20
	l, f := followed(t, cfg, maxOutline+4096)
	c := NewCounter(0)
	m := msg(100, 'A')
	m.Properties = message.Properties("TAGS\x01x\x02l\x01" + strings.Repeat("x", message.MaxPropertiesLength-9))
	pos, outlines := message.LogOffset(0), 0
	for i := range 400 {
		if i%20 == 0 {
			_, err := l.Append(t.Context(), m, c)
			require.NoError(t, err)
		}
		add(t, l, c, 100+i%17, 'B')
		end, err := f.Scan(pos, l.End(), func(r *message.DispatchRequest) error {
			if len(r.Body()) == 0 {
				outlines++
			}
			if r.Size() > message.MaxPropertiesLength {
				require.Equal(t, string(m.Properties), string(r.Properties()))
			}
			return nil
		})
		require.NoError(t, err)
		pos = end
	}
	require.Equal(t, l.Visible(), pos)
	require.Greater(t, outlines, 350)
}

// TestFollowerBesideAWriter: one goroutine appends, one syncs, one follows.
func TestFollowerBesideAWriter(t *testing.T) {
	const total = 6000
	bothModes(t, func(t *testing.T, staged bool) {
		cfg := config(t, staged)
		cfg.FileSize = 256 << 10
		l, f := followed(t, cfg, maxOutline+8<<10)
		var written atomic.Bool
		var others sync.WaitGroup
		defer others.Wait() // also when the test has failed
		others.Go(func() {
			defer written.Store(true)
			appendNumbered(t, l, total)
		})
		others.Go(func() {
			for !written.Load() {
				if staged {
					_ = l.Flush()
				}
				runtime.Gosched()
			}
			_ = l.Flush()
		})
		pos, next, outlines := message.LogOffset(0), 0, 0
		for next < total && !t.Failed() {
			end := l.End()
			got, err := f.Scan(pos, end, func(r *message.DispatchRequest) error {
				if len(r.Body()) == 0 {
					outlines++
				}
				if int(r.QueueOffset()) != next || string(r.Keys) != fmt.Sprint(next) {
					return fmt.Errorf("queue offset %d, keys %q, instead of %d", r.QueueOffset(), r.Keys, next)
				}
				next++
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, end, got)
			pos = got
			runtime.Gosched()
		}
		others.Wait()
		require.Equal(t, l.End(), pos)
		require.Positive(t, outlines)
	})
}

// appendNumbered appends messages whose key is their number.
func appendNumbered(t *testing.T, l *Log, total int) {
	c := NewCounter(0)
	for i := range total {
		m := msg(110+i%50, 'A')
		m.Properties = message.Properties(fmt.Sprintf("KEYS\x01%d", i))
		if i%500 == 0 {
			m.Properties += message.Properties("\x02l\x01" + strings.Repeat("x", 32000))
		}
		if _, err := l.Append(context.Background(), m, c); err != nil {
			t.Error(err)
			return
		}
	}
}

// TestOutlinesOfAFailedSyncAreNotGiven: what was appended and not synced is in the ring
// and nowhere else, and is not given to the reader.
func TestOutlinesOfAFailedSyncAreNotGiven(t *testing.T) {
	cfg := config(t, true)
	fs := newFaultFS()
	cfg.FS = fs
	l, f := followed(t, cfg, 0)
	c := NewCounter(0)
	add(t, l, c, 200, 'A')
	require.NoError(t, l.Flush())
	add(t, l, c, 200, 'B')
	fs.set(failing("sync", errInjected))
	require.ErrorIs(t, l.Flush(), message.ErrFlush)
	got, end, err := gathered(f, 0, l.End(), -1)
	require.NoError(t, err)
	require.Equal(t, message.LogOffset(200), end)
	require.Len(t, got, 1)
}

func TestFollowingAllocatesNothing(t *testing.T) {
	cfg := config(t, false)
	cfg.FileSize = 16 << 20
	l, f := followed(t, cfg, 0)
	c := NewCounter(0)
	m := msg(300, 'A')
	m.Properties = "TAGS\x01a\x02KEYS\x01k"
	visited := 0
	visit := func(*message.DispatchRequest) error { visited++; return nil }
	pos := message.LogOffset(0)
	step := func() {
		_, err := l.Append(context.Background(), m, c)
		if err == nil {
			pos, err = f.Scan(pos, l.End(), visit)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	step()
	require.Zero(t, testing.AllocsPerRun(500, step))
	require.Equal(t, 502, visited)
	require.Equal(t, l.Visible(), pos)
}
