package mq

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/protocol"
)

// load has senders send for so long, one message after the other, and returns
// how many messages were taken.
func load(t *testing.T, p *Producer, senders int, d time.Duration) int64 {
	t.Helper()
	var sent atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for range senders {
		wg.Go(func() {
			for time.Now().Before(end) {
				if _, err := p.Send(t.Context(), text(t, "t", "x")); err != nil {
					t.Error(err)
					return
				}
				sent.Add(1)
			}
		})
	}
	wg.Wait()
	return sent.Load()
}

// TestThroughputWithOneSlow has eight senders and two brokers, one of which takes
// two seconds for each message instead of ten milliseconds. Once it was met, one
// sender at a time finds out whether it still is slow, when its time is over;
// all together they get through nine tenths of what they get from the healthy
// broker alone. Time is that of the bubble, so this is arithmetic.
func TestThroughputWithOneSlow(t *testing.T) {
	const senders, penalty = 8, 5 * time.Second
	takes := func(d time.Duration) func(context.Context) error {
		return func(context.Context) error { time.Sleep(d); return nil }
	}
	var alone int64
	synctest.Test(t, func(t *testing.T) {
		p, _, b := flakyProducer(t, ProducerConfig{})
		names := p.routes.names.(*fakeNames)
		names.route = func(string) (protocol.TopicRoute, error) { return routeOf(2, "b"), nil }
		b.set(takes(10*ms), nil)
		alone = load(t, p, senders, time.Minute)
		require.EqualValues(t, senders*6000, alone)
	})
	synctest.Test(t, func(t *testing.T) {
		p, a, b := flakyProducer(t, ProducerConfig{})
		var mu sync.Mutex
		tries := map[time.Time]int{} // of those that chose it in the same moment both go there
		a.set(func(context.Context) error {
			mu.Lock()
			tries[time.Now()]++
			mu.Unlock()
			time.Sleep(2 * time.Second)
			return nil
		}, nil)
		b.set(takes(10*ms), nil)
		load(t, p, senders, 2*time.Second)
		require.LessOrEqual(t, a.sends.Load(), int64(senders), "those that were under way before the first answer")
		clear(tries)
		both := load(t, p, senders, time.Minute)
		require.LessOrEqual(t, len(tries), int(time.Minute/(2*time.Second+penalty))+1, "one at a time, when its time is over")
		require.GreaterOrEqual(t, len(tries), 8)
		require.GreaterOrEqual(t, both, alone*9/10)

		a.set(takes(10*ms), nil)
		load(t, p, senders, penalty)
		sent, before := load(t, p, senders, time.Second), a.sends.Load()
		require.EqualValues(t, senders*100, sent)
		sent = load(t, p, senders, time.Second)
		require.InDelta(t, sent/2, a.sends.Load()-before, senders, "healed, it has its half")
	})
}

// TestTrialEnds: whatever becomes of the send that finds out, the next one may.
func TestTrialEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, a, _ := flakyProducer(t, ProducerConfig{Retries: -1, Faults: FaultPolicy{ProbeInterval: -1}})
		for a.sends.Load() == 0 {
			a.set(failing(&protocol.Error{Code: protocol.SystemError}), nil)
			_, _ = p.Send(t.Context(), text(t, "t", "x"))
		}
		pass(10 * time.Second)
		hang := make(chan struct{})
		a.set(func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return &protocol.Error{Code: protocol.SystemError, Err: ctx.Err()}
			case <-hang:
				return nil
			}
		}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		try := func(ctx context.Context) { // one for each queue
			for range 4 {
				go func() { _, _ = p.Send(ctx, text(t, "t", "x")) }()
				synctest.Wait()
			}
		}
		try(ctx)
		require.EqualValues(t, 2, a.sends.Load())
		try(ctx)
		require.EqualValues(t, 2, a.sends.Load(), "one at a time")
		cancel()
		synctest.Wait()
		try(t.Context())
		require.EqualValues(t, 3, a.sends.Load(), "the first one gave up, which says nothing")
		pass(longestTrial - 1)
		try(t.Context())
		require.EqualValues(t, 3, a.sends.Load())
		pass(1)
		try(t.Context())
		require.EqualValues(t, 4, a.sends.Load(), "nobody waits for one that hangs for ever")
		close(hang)
		pass(30 * time.Second) // after the answer that took a minute
		for range 8 {
			try(t.Context())
		}
		require.EqualValues(t, 4+8*2, a.sends.Load())
	})
}
