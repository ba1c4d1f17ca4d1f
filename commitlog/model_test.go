package commitlog

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// TestLogEqualsSlice does random things to a log and to a slice of what should
// be in it.
func TestLogEqualsSlice(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		for range 12 {
			seed := rand.Uint64()
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				cfg := config(t, staged)
				m := &model{t: t, cfg: cfg, rnd: rand.New(rand.NewPCG(seed, 0))}
				m.log = start(t, cfg)
				m.counters = []*Counter{NewCounter(0), NewCounter(0)}
				for range 150 {
					m.step()
				}
				m.flush()
				m.check()
			})
		}
	})
}

type entry struct {
	off    message.LogOffset
	queue  int
	queued bool
	num    message.QueueOffset
	body   string
}

type model struct {
	t        *testing.T
	cfg      Config
	rnd      *rand.Rand
	log      *Log
	counters []*Counter
	next     [2]message.QueueOffset
	placed   []entry // all
	durable  int     // how many of them a flush has covered
	end      message.LogOffset
}

// place is where size bytes should go.
func (m *model) place(size int) message.LogOffset {
	file := message.LogOffset(m.cfg.FileSize)
	if left := file - m.end%file; left < message.LogOffset(size)+8 {
		return m.end + left
	}
	return m.end
}

func (m *model) step() {
	switch n := m.rnd.IntN(20); {
	case n < 12:
		m.append()
	case n < 15:
		m.batch()
	case n < 18:
		m.flush()
	case n < 19:
		m.check()
	default:
		m.reopen()
	}
}

func (m *model) message(queue int) *message.MessageExt {
	size := 100 + m.rnd.IntN(300)
	if m.rnd.IntN(4) == 0 { // up to the edge of the file and around it
		left := int(m.cfg.FileSize - int64(m.end)%m.cfg.FileSize)
		size = min(max(95, left-12+m.rnd.IntN(8)), 1016)
	}
	r := msg(size, byte('a'+m.rnd.IntN(26)))
	r.QueueID = int32(queue)
	return r
}

func (m *model) append() {
	queue := m.rnd.IntN(2)
	r := m.message(queue)
	if m.rnd.IntN(10) == 0 {
		r.SysFlag = message.TransactionPrepared
	}
	at := m.place(r.RecordSize())
	p, err := m.log.Append(context.Background(), r, m.counters[queue])
	require.NoError(m.t, err)
	e := entry{at, queue, r.SysFlag.Queued(), 0, string(r.Body)}
	if e.queued {
		e.num = m.next[queue]
		m.next[queue]++
	}
	m.end = at + message.LogOffset(r.RecordSize())
	require.Equal(m.t, Placement{LogOffset: at, QueueOffset: e.num, StoreTimestamp: p.StoreTimestamp, Bytes: r.RecordSize(), group: p.group}, p)
	m.placed = append(m.placed, e)
}

func (m *model) batch() {
	queue := m.rnd.IntN(2)
	var in message.MessageExtBatch
	in.Topic, in.QueueID = "T", int32(queue)
	var bodies []string
	size := 0
	for range 1 + m.rnd.IntN(4) {
		r := m.message(queue)
		if size += r.RecordSize(); size > 1016 {
			size -= r.RecordSize()
			break
		}
		bodies = append(bodies, string(r.Body))
		var err error
		in.Body, err = message.AppendBatchElement(in.Body, &r.Message)
		require.NoError(m.t, err)
	}
	var b Batch
	require.NoError(m.t, b.Encode(&in, message.Host{}, 1<<20, 1<<20, false))
	at := m.place(size)
	p, err := m.log.AppendBatch(context.Background(), &b, m.counters[queue])
	require.NoError(m.t, err)
	require.Equal(m.t, at, p.LogOffset)
	require.Equal(m.t, size, p.Bytes)
	require.Equal(m.t, m.next[queue], p.QueueOffset)
	for i, off := range b.LogOffsets(at) {
		m.placed = append(m.placed, entry{off, queue, true, m.next[queue] + message.QueueOffset(i), bodies[i]})
	}
	m.next[queue] += message.QueueOffset(len(bodies))
	m.end = at + message.LogOffset(size)
}

func (m *model) flush() {
	require.NoError(m.t, m.log.Flush())
	m.durable = len(m.placed)
}

// visible is what must be readable now.
func (m *model) visible() []entry {
	if m.cfg.Staged {
		return m.placed[:m.durable]
	}
	return m.placed
}

func (m *model) check() {
	want := m.visible()
	got := 0
	_, err := m.log.Scan(0, m.log.Visible(), func(r *message.DispatchRequest) error {
		e := entry{r.LogOffset(), int(r.QueueID()), r.SysFlag().Queued(), r.QueueOffset(), string(r.Body())}
		require.Less(m.t, got, len(want))
		require.Equal(m.t, want[got], e)
		got++
		return nil
	})
	require.NoError(m.t, err)
	require.Len(m.t, want, got)
	require.Empty(m.t, m.log.Damaged())
	if len(want) > 0 {
		e := want[m.rnd.IntN(len(want))]
		require.Equal(m.t, e.body, string(read(m.t, m.log, e.off).Body))
	}
}

// reopen is a kill of the process: without staging everything survives, with it
// what was flushed.
func (m *model) reopen() {
	require.NoError(m.t, m.log.Close())
	m.placed = m.visible()
	m.durable = len(m.placed)
	m.log = start(m.t, m.cfg)
	m.end = m.log.Visible()
	m.next = [2]message.QueueOffset{}
	for _, e := range m.placed {
		if e.queued {
			m.next[e.queue] = e.num + 1
		}
	}
	for i, n := range m.next {
		m.counters[i] = NewCounter(n)
	}
	m.check()
}
