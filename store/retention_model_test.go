package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// TestRetentionMatchesTheModel: random puts, commits, time, cleanings and
// reopens, beside a list of what was put. What the log still has is readable, in
// order; what is gone may be gone; nothing beyond the limit is kept, nothing
// unconsumed removed, and nothing young. POCKETMQ_TEST_SEED repeats a run.
func TestRetentionMatchesTheModel(t *testing.T) {
	notEmulated(t)
	seed := rand.Uint64()
	if given, err := strconv.ParseUint(os.Getenv("POCKETMQ_TEST_SEED"), 10, 64); err == nil {
		seed = given
	}
	defer func() {
		if t.Failed() {
			t.Logf("POCKETMQ_TEST_SEED=%d", seed)
		}
	}()
	const segment = 8 << 10
	for name, cfg := range map[string]Config{
		"age":      {Retention: Retention{MaxAge: time.Hour}},
		"bytes":    {Retention: Retention{RetainBytes: 6 * segment}},
		"consumed": {Retention: Retention{Groups: RemoveConsumed}, MaxBytes: 20 * segment},
		"kept":     {Retention: Retention{Groups: KeepUnconsumed, RetainBytes: 2 * segment, MaxAge: time.Hour}, MaxBytes: 20 * segment, WhenFull: DropOldest},
		"dropped":  {WhenFull: DropOldest, MaxBytes: 16 * segment},
	} {
		for _, mode := range bothModes {
			t.Run(name+" "+mode.String(), func(t *testing.T) {
				r := &retentionRun{t: t, rand: rand.New(rand.NewPCG(seed, 1)), dir: scratch(t), cfg: cfg, seen: make(map[queueKey]message.QueueOffset)}
				r.cfg.Flush, r.cfg.SegmentSize, r.cfg.ConsumeQueueFileSize, r.cfg.Now = mode, segment, 200, r.clock.now
				r.cfg.FlushTimeout = patient
				r.cfg.NoIndex = true // the limits leave no room for one
				r.clock.ms.Store(1_700_000_000_000)
				for i := range r.consumed {
					r.consumed[i].Store(0)
				}
				r.open()
				for range 800 {
					r.step()
				}
				r.check()
				require.Positive(t, r.store.MinOffset(), "something was removed")
				closeStore(t, r.store)
			})
		}
	}
}

type retentionRun struct {
	t     *testing.T
	rand  *rand.Rand
	dir   string
	cfg   Config
	clock clock
	store *DefaultMessageStore

	put      []modelMessage // in the order of the log
	queue    []int32        // of these
	seen     map[queueKey]message.QueueOffset
	consumed [2]atomic.Int64 // by queue
	refused  int
}

func (r *retentionRun) open() {
	r.store = openStore(r.t, r.dir, r.cfg)
	r.store.SetConsumed(func(_ string, queueID int32) (message.QueueOffset, bool) {
		return message.QueueOffset(r.consumed[queueID].Load()), true
	})
}

func (r *retentionRun) step() {
	switch n := r.rand.IntN(100); {
	case n < 75:
		r.putOne()
	case n < 85:
		q := r.rand.Int32N(2)
		next := r.seen[queueKey{"t", q}]
		r.consumed[q].Store(max(r.consumed[q].Load(), r.rand.Int64N(int64(next)+1)))
		r.store.NotifyConsumed()
	case n < 92:
		r.clock.advance(time.Duration(r.rand.IntN(10)) * time.Minute)
	case n < 96:
		dispatched(r.t, r.store)
		_, err := r.store.DeleteExpired(r.t.Context())
		require.NoError(r.t, err)
		r.check()
	case n < 98:
		r.reopen()
	default:
		r.check()
	}
}

func (r *retentionRun) putOne() {
	q := r.rand.Int32N(2)
	m := inner("t", q, fmt.Sprint(len(r.put), strings.Repeat("b", r.rand.IntN(3000))))
	res, err := r.store.PutMessage(r.t.Context(), m)
	if err != nil {
		require.ErrorIs(r.t, err, message.ErrDiskFull)
		require.NotZero(r.t, r.cfg.MaxBytes)
		r.refused++
		return
	}
	k := queueKey{"t", q}
	require.Equal(r.t, r.seen[k], res.QueueOffset, "dense, whatever was removed")
	r.seen[k]++
	r.put = append(r.put, modelMessage{m.Message, res.LogOffset, res.StoreTimestamp})
	r.queue = append(r.queue, q)
}

// check holds the store against the list. What is removed meanwhile is looked at
// the next time.
func (r *retentionRun) check() {
	dispatched(r.t, r.store)
	var consumed [2]int64
	for q := range consumed {
		consumed[q] = r.consumed[q].Load()
	}
	start := r.store.MinOffset()
	next := make(map[int32]message.QueueOffset)
	for i, m := range r.put {
		off := next[r.queue[i]]
		next[r.queue[i]]++
		got, err := r.store.LookMessageByOffset(r.t.Context(), m.logOffset)
		if err != nil {
			require.ErrorIs(r.t, err, message.ErrOffsetNotFound)
			require.Less(r.t, m.logOffset, r.store.MinOffset())
			r.mayBeGone(i, off)
			continue
		}
		require.Equal(r.t, len(m.Body), len(got.Body))
		require.Equal(r.t, off, got.QueueOffset)
		at, ok := r.store.CommitLogOffsetInQueue("t", r.queue[i], off)
		require.True(r.t, ok && at == m.logOffset || m.logOffset < r.store.MinOffset(), "message %d of queue %d, log offset %d, from %d", off, r.queue[i], m.logOffset, start)
	}
	for q := range int32(2) {
		k := queueKey{"t", q}
		require.Equal(r.t, r.seen[k], r.store.MaxOffsetInQueue("t", q))
		if r.cfg.Retention.Groups != IgnoreGroups {
			require.LessOrEqual(r.t, int64(r.store.MinOffsetInQueue("t", q)), max(r.consumed[q].Load(), consumed[q]))
		}
	}
	if r.cfg.MaxBytes > 0 {
		require.LessOrEqual(r.t, r.store.Stats().BytesStored, r.cfg.MaxBytes)
	}
}

// mayBeGone checks that message i, number off of its queue, could be removed.
func (r *retentionRun) mayBeGone(i int, off message.QueueOffset) {
	rule := r.cfg.Retention
	if rule.Groups != IgnoreGroups {
		require.Less(r.t, int64(off), r.consumed[r.queue[i]].Load())
	}
	if rule.MaxAge > 0 && rule.RetainBytes == 0 {
		require.GreaterOrEqual(r.t, r.clock.ms.Load()-r.put[i].time, rule.MaxAge.Milliseconds())
	}
}

// reopen closes, sometimes loses what is derived, and opens.
func (r *retentionRun) reopen() {
	closeStore(r.t, r.store)
	switch r.rand.IntN(4) {
	case 0:
		err := os.Remove(filepath.Join(r.dir, ownDir, pointFile))
		require.True(r.t, err == nil || len(r.put) == 0, "a store that had a message has a recovery point: %v", err)
	case 1:
		require.NoError(r.t, os.WriteFile(filepath.Join(r.dir, abortFile), nil, 0o600))
	}
	r.open()
	require.Empty(r.t, r.store.Recovery().Damaged)
}
