package mq

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// slowTransport is a way to a broker on which every call about sending takes
// longer: by really waiting, or, with a clock, by moving that on.
type slowTransport struct {
	protocol.Broker

	delay atomic.Int64
	clock *atomic.Int64
	sends atomic.Int64
}

func (b *slowTransport) pass(ctx context.Context) error {
	d := time.Duration(b.delay.Load())
	if b.clock != nil {
		b.clock.Add(int64(d))
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return &protocol.Error{Code: protocol.AccessBrokerTimeout, Err: ctx.Err()}
	}
}

func (b *slowTransport) SendMessage(ctx context.Context, req protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
	b.sends.Add(1)
	if err := b.pass(ctx); err != nil {
		return protocol.SendMessageResponse{Code: protocol.CodeOf(err)}, err
	}
	return b.Broker.SendMessage(ctx, req)
}

func (b *slowTransport) Writable(ctx context.Context) error {
	if err := b.pass(ctx); err != nil {
		return err
	}
	return b.Broker.Writable(ctx)
}

// slowTown has two brokers on stores of their own, and a slow way to one of them.
func slowTown(t *testing.T) (*town, *slowTransport) {
	t.Helper()
	w := openTown(t, map[string]store.Config{"slow": {}, "well": {}})
	slow := &slowTransport{}
	w.before["slow"] = func(b protocol.Broker) protocol.Broker { slow.Broker = b; return slow }
	return w, slow
}

// shares sends messages and returns how many each broker took.
func shares(t *testing.T, p *Producer, n int) map[string]int {
	t.Helper()
	by := map[string]int{}
	for range n {
		r, err := p.Send(t.Context(), text(t, "t", "x"))
		require.NoError(t, err)
		by[r.Queue.BrokerName]++
	}
	return by
}

// TestSlowTransport delays a broker to two seconds, by the producer's clock. After
// its first slow send none goes there during its penalty, which RocketMQ 5's
// table says is five seconds, and then one. When it is well again both take
// turns.
func TestSlowTransport(t *testing.T) {
	w, slow := slowTown(t)
	var clock atomic.Int64
	slow.clock = &clock
	start := time.Unix(1_700_000_000, 0)
	p := w.producer(t, ProducerConfig{Now: func() time.Time { return start.Add(time.Duration(clock.Load())) }})
	slow.delay.Store(int64(2 * time.Second))
	const penalty, step = 5 * time.Second, 50 * time.Millisecond
	for round := int64(1); round <= 3; round++ {
		for slow.sends.Load() < round {
			require.LessOrEqual(t, shares(t, p, 1)["slow"], 1)
		}
		for range penalty/step - 1 {
			clock.Add(int64(step))
			require.Equal(t, map[string]int{"well": 4}, shares(t, p, 4))
		}
		require.Equal(t, round, slow.sends.Load(), "none during its penalty")
		clock.Add(int64(step))
	}
	slow.delay.Store(0)
	require.Equal(t, map[string]int{"well": 20, "slow": 20}, shares(t, p, 40), "its penalty is over: it is tried, and has its share")
}

// TestLateTransport is the same where a send does not wait for two seconds: it
// goes elsewhere, and what was late is asked, not tried, until it answers again.
// The clock is the test's own: it stands still while the brokers work, so that only the slow one is late.
func TestLateTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, slow := slowTown(t)
		p := w.producer(t, ProducerConfig{
			AttemptTimeout: 100 * time.Millisecond,
			Faults: FaultPolicy{
				LatencyMax: []time.Duration{time.Hour}, NotAvailable: []time.Duration{time.Hour},
				Isolation: time.Hour, MaxNotAvailable: time.Hour, ProbeInterval: 20 * time.Millisecond,
			},
		})
		slow.delay.Store(int64(2 * time.Second))
		met := 0
		for range 200 {
			r, err := p.Send(t.Context(), text(t, "t", "x"))
			require.NoError(t, err)
			require.Equal(t, "well", r.Queue.BrokerName)
			if r.Attempts > 1 {
				require.Equal(t, []string{"slow", "well"}, r.Tried, "within one retry")
				met++
			}
		}
		require.Equal(t, 1, met)
		require.EqualValues(t, 1, slow.sends.Load())
		slow.delay.Store(0)
		require.Eventually(t, func() bool { return shares(t, p, 2)["slow"] > 0 }, time.Minute, time.Millisecond, "a probe ends its penalty")
		require.Equal(t, map[string]int{"well": 20, "slow": 20}, shares(t, p, 40))
	})
}
