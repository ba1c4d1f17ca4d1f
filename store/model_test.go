package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// model is what a store is: for each queue a list of messages.
type model map[queueKey][]modelMessage

type modelMessage struct {
	message.Message
	logOffset message.LogOffset
	time      int64
}

// TestRandomOperationsMatchTheModel: puts, batches, refusals, gets, flushes and
// reopens in random order, beside a map of slices. POCKETMQ_TEST_SEED repeats a
// run.
func TestRandomOperationsMatchTheModel(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			seed := rand.Uint64()
			if given, err := strconv.ParseUint(os.Getenv("POCKETMQ_TEST_SEED"), 10, 64); err == nil {
				seed = given
			}
			defer func() {
				if t.Failed() {
					t.Logf("POCKETMQ_TEST_SEED=%d", seed)
				}
			}()
			r := &modelRun{t: t, rand: rand.New(rand.NewPCG(seed, uint64(mode))), model: make(model), dir: scratch(t), mode: mode}
			r.open()
			for range 1500 {
				r.step()
			}
			r.compareAll()
			closeStore(t, r.store)
		})
	}
}

type modelRun struct {
	t     *testing.T
	rand  *rand.Rand
	mode  FlushMode
	dir   string
	store *DefaultMessageStore
	model model
	n     int // makes bodies unique
}

func (r *modelRun) open() { r.store = openStore(r.t, r.dir, smallConfig(r.mode)) }

func (r *modelRun) step() {
	switch n := r.rand.IntN(100); {
	case n < 40:
		r.put()
	case n < 55:
		r.batch()
	case n < 60:
		r.refused()
	case n < 97:
		r.get()
	case n < 99:
		require.NoError(r.t, r.store.Flush(r.t.Context()))
	default:
		r.reopen()
	}
}

func (r *modelRun) queue() queueKey {
	return queueKey{crashTopics[r.rand.IntN(len(crashTopics))], r.rand.Int32N(2)}
}

func (r *modelRun) message(topic string) message.Message {
	r.n++
	m := drawMessage(r.rand, strconv.Itoa(r.n))
	m.Topic = topic
	return m
}

func (r *modelRun) put() {
	k := r.queue()
	m := r.message(k.topic)
	res, err := r.store.PutMessage(r.t.Context(), &message.MessageExtBrokerInner{MessageExt: message.MessageExt{Message: m, QueueID: k.id}})
	require.NoError(r.t, err)
	r.placed(k, res, m)
}

func (r *modelRun) batch() {
	k := r.queue()
	var ms []message.Message
	for range 1 + r.rand.IntN(3) {
		ms = append(ms, r.message(k.topic))
	}
	res, err := r.store.PutMessages(r.t.Context(), batchOf(r.t, k.topic, k.id, ms...))
	require.NoError(r.t, err)
	r.placed(k, res, ms...)
}

func (r *modelRun) placed(k queueKey, res PutMessageResult, ms ...message.Message) {
	require.EqualValues(r.t, len(r.model[k]), res.QueueOffset)
	require.Equal(r.t, len(ms), res.Count)
	for i, m := range ms {
		off := res.LogOffset
		if res.Offsets != nil {
			off = res.Offsets[i]
		}
		r.model[k] = append(r.model[k], modelMessage{m, off, res.StoreTimestamp})
	}
}

func (r *modelRun) refused() {
	k := r.queue()
	m := inner(k.topic, k.id, "x")
	switch r.rand.IntN(3) {
	case 0:
		m.Body = make([]byte, testSegment)
	case 1:
		m.Topic = "a/b"
	default:
		m.Properties = message.Properties(strings.Repeat("p", 40000))
	}
	res, err := r.store.PutMessage(r.t.Context(), m)
	require.Error(r.t, err)
	require.False(r.t, res.Status.Stored())
}

// get asks somewhere in or around a queue, and compares the answer.
func (r *modelRun) get() {
	k := r.queue()
	list := r.model[k]
	dispatched(r.t, r.store)
	off := message.QueueOffset(r.rand.IntN(len(list)+4) - 2)
	count := r.rand.IntN(40)
	res, err := r.store.GetMessage(r.t.Context(), GetQuery{Topic: k.topic, QueueID: k.id, Offset: off, MaxCount: count, Verify: true})
	require.NoError(r.t, err)
	defer res.Release()
	end := message.QueueOffset(len(list))
	require.Equal(r.t, end, res.MaxOffset)
	require.Equal(r.t, end, r.store.MaxOffsetInQueue(k.topic, k.id))
	switch {
	case end == 0:
		require.Equal(r.t, GetNoMessageInQueue, res.Status)
	case off < 0:
		require.Equal(r.t, GetOffsetTooSmall, res.Status)
		require.Zero(r.t, res.NextBeginOffset)
	case off == end:
		require.Equal(r.t, GetOffsetOverflowOne, res.Status)
	case off > end:
		require.Equal(r.t, GetOffsetOverflowBadly, res.Status)
		require.Equal(r.t, end, res.NextBeginOffset)
	default:
		require.Equal(r.t, GetFound, res.Status)
		require.NotEmpty(r.t, res.Messages)
		require.LessOrEqual(r.t, len(res.Messages), max(count, 1))
		require.Equal(r.t, off+message.QueueOffset(len(res.Messages)), res.NextBeginOffset)
		for i, v := range res.Messages {
			r.compare(k, off+message.QueueOffset(i), v.Message())
		}
	}
}

func (r *modelRun) compare(k queueKey, off message.QueueOffset, got message.MessageExt) {
	r.t.Helper()
	want := r.model[k][off]
	require.Equal(r.t, string(want.Body), string(got.Body))
	require.Equal(r.t, want.Properties, got.Properties)
	require.Equal(r.t, want.Flag, got.Flag)
	require.Equal(r.t, want.logOffset, got.LogOffset)
	require.Equal(r.t, want.time, got.StoreTimestamp)
	require.Equal(r.t, off, got.QueueOffset)
	require.Equal(r.t, k, queueKey{got.Topic, got.QueueID})
}

// reopen closes, loses something that is derived, and opens.
func (r *modelRun) reopen() {
	closeStore(r.t, r.store)
	remove := func(parts ...string) {
		require.NoError(r.t, os.RemoveAll(filepath.Join(append([]string{r.dir}, parts...)...)))
	}
	switch r.rand.IntN(6) {
	case 0:
		remove("consumequeue")
	case 1:
		remove("consumequeue", r.queue().topic)
	case 2:
		remove(ownDir, pointFile)
	case 3:
		remove("checkpoint")
	case 4:
		require.NoError(r.t, os.WriteFile(filepath.Join(r.dir, abortFile), nil, 0o600))
	}
	r.open()
	require.Empty(r.t, r.store.Recovery().Damaged)
	require.Zero(r.t, r.store.Recovery().CutBytes)
}

func (r *modelRun) compareAll() {
	for k, list := range r.model {
		require.Len(r.t, bodies(r.t, r.store, k.topic, k.id), len(list))
		for i, want := range list {
			m, err := r.store.LookMessageByOffset(r.t.Context(), want.logOffset)
			require.NoError(r.t, err)
			r.compare(k, message.QueueOffset(i), m)
		}
	}
}

// TestHistoryOfConcurrentWriters: eight writers and two readers of each queue;
// each queue is dense, in the order of the log, and keeps each writer's order;
// no reader goes back or misses one.
func TestHistoryOfConcurrentWriters(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			const writers, each, queues = 8, 150, 3
			cfg := smallConfig(mode)
			cfg.SegmentSize, cfg.ConsumeQueueFileSize = 64<<10, 4000
			s := openStore(t, scratch(t), cfg)
			var wg sync.WaitGroup
			total := writers * each / queues
			for q := range int32(queues) {
				for range 2 {
					wg.Go(func() {
						if err := readHistory(s, q, total); err != nil {
							t.Error(err)
						}
					})
				}
			}
			for w := range writers {
				wg.Go(func() {
					last := make(map[int32]message.QueueOffset)
					for i := range each {
						q := int32((w + i) % queues)
						r, err := s.PutMessage(context.Background(), inner("t", q, fmt.Sprintf("%d %d", w, i)))
						if err != nil {
							t.Error(err)
							return
						}
						if before, ok := last[q]; ok && r.QueueOffset <= before {
							t.Errorf("writer %d: %d after %d", w, r.QueueOffset, before)
						}
						last[q] = r.QueueOffset
					}
				})
			}
			wg.Wait()
			closeStore(t, s)
		})
	}
}

// readHistory reads n messages of a queue as they come, and checks their order.
func readHistory(s *DefaultMessageStore, q int32, n int) error {
	arrived := make(chan struct{}, 1)
	defer s.NotifyArrival("t", arrived)()
	last := make(map[int]int) // of each writer
	place := message.LogOffset(-1)
	for next := message.QueueOffset(0); int(next) < n; {
		r, err := s.GetMessage(context.Background(), GetQuery{Topic: "t", QueueID: q, Offset: next, MaxCount: 32, Verify: true})
		if err != nil {
			return err
		}
		for i, v := range r.Messages {
			var w, k int
			if _, err := fmt.Sscanf(string(v.Body()), "%d %d", &w, &k); err != nil {
				return err
			}
			before, met := last[w]
			if v.QueueOffset() != next+message.QueueOffset(i) || v.LogOffset() <= place || met && k <= before {
				return fmt.Errorf("queue %d: %q is number %d at %d, after %d", q, v.Body(), v.QueueOffset(), v.LogOffset(), place)
			}
			last[w], place = k, v.LogOffset()
		}
		found := r.Status == GetFound
		next = r.NextBeginOffset
		r.Release()
		if !found {
			<-arrived
		}
	}
	return nil
}
