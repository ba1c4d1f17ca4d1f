package mq

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

func (h *house) admin(t *testing.T) *Admin {
	t.Helper()
	a, err := NewAdmin(AdminConfig{NameService: h.names, Connect: h.names.Connect})
	require.NoError(t, err)
	return a
}

func (h *house) sendNumbers(t *testing.T, p *Producer, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		_, err := p.Send(t.Context(), text(t, "orders", fmt.Sprint(i)))
		require.NoError(t, err)
	}
	require.NoError(t, h.store.WaitDispatched(t.Context(), h.store.MaxOffset()))
}

func receiveNumbers(t *testing.T, c *Consumer, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		m, err := c.Receive(soon(t))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), string(m.Body))
	}
}

// TestResetOfRunningConsumers: a consumer goes on where its group is reset to, back
// and forward, whether it waits at the broker or has read ahead. What it commits
// afterwards is from there.
func TestResetOfRunningConsumers(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	h.createTopic(t, "others", 1)
	p, a := h.producer(t), h.admin(t)
	h.sendNumbers(t, p, 0, 10)
	c := h.consumer(t, ConsumerConfig{Topic: "orders", PrefetchMessages: 2})
	other := h.consumer(t, ConsumerConfig{Topic: "others"})
	committed := func() int64 {
		off, err := h.broker.QueryConsumerOffset(t.Context(), protocol.QueryConsumerOffsetRequest{Group: "readers", Topic: "orders"})
		require.NoError(t, err)
		return int64(off)
	}
	receiveNumbers(t, c, 0, 10)
	require.NoError(t, c.Commit(t.Context()))

	at, err := a.ResetOffset(t.Context(), "readers", "orders", 0, false)
	require.NoError(t, err)
	require.EqualValues(t, 0, at[queue("orders", 0)])
	receiveNumbers(t, c, 0, 3) // it waited at the broker; now more is read ahead
	require.NoError(t, a.SetOffset(t.Context(), "readers", queue("orders", 0), 8))
	require.EqualValues(t, 8, committed())
	require.NoError(t, c.Commit(t.Context()))
	require.EqualValues(t, 8, committed(), "what was handed out before does not count")
	receiveNumbers(t, c, 8, 9)
	require.NoError(t, c.Commit(t.Context()))
	require.EqualValues(t, 9, committed())

	_, err = a.ResetOffset(t.Context(), "readers", "orders", protocol.EndOfQueue, true)
	require.NoError(t, err)
	h.sendNumbers(t, p, 10, 12)
	receiveNumbers(t, c, 10, 12)
	_, err = a.ResetOffset(t.Context(), "strangers", "orders", 0, true)
	require.NoError(t, err)
	h.sendNumbers(t, p, 12, 13)
	receiveNumbers(t, c, 12, 13)
	require.NoError(t, c.Close())
	require.NoError(t, other.Close())
	_, err = a.ResetOffset(t.Context(), "readers", "orders", 0, false)
	require.NoError(t, err, "nobody is told any more")
}

// TestResetsWhileReading resets a group again and again while it reads and commits.
// The last reset counts.
func TestResetsWhileReading(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	p, a := h.producer(t), h.admin(t)
	h.sendNumbers(t, p, 0, 200)
	c := h.consumer(t, ConsumerConfig{Topic: "orders", PrefetchMessages: 3})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for m, err := range c.Messages(ctx) {
			if err != nil || m == nil {
				continue
			}
			if err := c.Commit(t.Context()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 100 {
		if err := a.SetOffset(t.Context(), "readers", queue("orders", 0), 2*100-message.QueueOffset(i)); err != nil {
			t.Error(err)
		}
	}
	cancel()
	wg.Wait()
	require.NoError(t, a.SetOffset(t.Context(), "readers", queue("orders", 0), 150))
	receiveNumbers(t, c, 150, 200)
}

// TestConnections lists who is there, until it leaves.
func TestConnections(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 2)
	a := h.admin(t)
	_, err := a.ProducerConnections(t.Context(), "senders")
	require.ErrorIs(t, err, protocol.SystemError)
	_, err = a.ConsumerConnections(t.Context(), "readers")
	require.ErrorIs(t, err, protocol.ConsumerNotOnline)
	p := h.producer(t)
	one, two := h.consumer(t, ConsumerConfig{Topic: "orders"}), h.consumer(t, ConsumerConfig{Topic: "orders"})
	ids, err := a.ProducerConnections(t.Context(), "senders")
	require.NoError(t, err)
	require.Equal(t, []string{p.instance.key.id}, ids)
	ids, err = a.ConsumerConnections(t.Context(), "readers")
	require.NoError(t, err)
	require.Len(t, ids, 2)
	_, err = a.ConsumerConnections(t.Context(), "senders")
	require.ErrorIs(t, err, protocol.ConsumerNotOnline)
	require.NoError(t, one.Close())
	require.NoError(t, two.Close())
	require.NoError(t, p.Close())
	_, err = a.ProducerConnections(t.Context(), "senders")
	require.ErrorIs(t, err, protocol.SystemError)
	_, err = a.ConsumerConnections(t.Context(), "readers")
	require.ErrorIs(t, err, protocol.ConsumerNotOnline)
}

// TestConsumeTimeSpans tells of times in the queue, also of an empty one.
func TestConsumeTimeSpans(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	a, p := h.admin(t), h.producer(t)
	spans, err := a.ConsumeTimeSpans(t.Context(), "readers", "orders")
	require.NoError(t, err)
	require.Equal(t, []ConsumeTimeSpan{{Queue: queue("orders", 0)}}, spans)
	before := time.Now().UnixMilli()
	h.sendNumbers(t, p, 0, 1)
	time.Sleep(5 * time.Millisecond)
	h.sendNumbers(t, p, 1, 3)
	require.NoError(t, h.store.WaitDispatched(t.Context(), h.store.MaxOffset()))
	stored := func(off int) int64 {
		ms, ok := h.store.MessageStoreTimestamp("orders", 0, message.QueueOffset(off))
		require.True(t, ok)
		return ms
	}
	for off, consumed := range []int64{stored(0), stored(0), stored(1), stored(2)} {
		require.NoError(t, h.broker.UpdateConsumerOffset(t.Context(), protocol.UpdateConsumerOffsetRequest{
			Group: "readers", Topic: "orders", Offsets: []protocol.QueuePosition{{Offset: message.QueueOffset(off)}},
		}))
		spans, err := a.ConsumeTimeSpans(t.Context(), "readers", "orders")
		require.NoError(t, err)
		s := spans[0].ConsumeTimeSpan
		require.Equal(t, []int64{stored(0), stored(2), consumed}, []int64{s.Earliest, s.Latest, s.Consumed})
		require.GreaterOrEqual(t, s.Delay, int64(0))
		require.LessOrEqual(t, s.Delay, time.Now().UnixMilli()-before)
		if off == 3 {
			require.Zero(t, s.Delay)
		}
	}
	_, err = a.ConsumeTimeSpans(t.Context(), "readers", "unknown")
	require.ErrorIs(t, err, protocol.TopicNotExist)
}
