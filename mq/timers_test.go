package mq

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// TestCancelTimerByHandle and reschedule, also by another producer.
func TestCancelTimerByHandle(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	send := func(body string, at time.Time) string {
		m := text(t, "orders", body)
		m.Properties = m.Properties.DeliverAt(at)
		r, err := p.Send(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, "orders", r.Queue.Topic)
		handle, err := protocol.ParseRecallHandle(r.RecallHandle)
		require.NoError(t, err)
		require.Equal(t, protocol.RecallHandle{Topic: "orders", Broker: "house", DeliverAt: at.UnixMilli(), ID: r.MsgID}, handle)
		return r.RecallHandle
	}
	in := time.Now().Add(time.Hour)
	cancelled, moved := send("cancelled", in), send("moved", in)
	p = h.producer(t)
	require.NoError(t, p.CancelTimer(t.Context(), cancelled))
	require.ErrorIs(t, p.CancelTimer(t.Context(), cancelled), protocol.ErrNotPending)
	require.ErrorIs(t, p.CancelTimer(t.Context(), cancelled), protocol.QueryNotFound)
	again, err := p.RescheduleTimer(t.Context(), moved, in.Add(time.Hour))
	require.NoError(t, err)
	_, err = p.RescheduleTimer(t.Context(), again, in.Add(10_000*time.Hour))
	require.ErrorIs(t, err, message.ErrLimit)
	_, err = p.RescheduleTimer(t.Context(), moved, time.Now())
	require.NoError(t, err)
	m, err := h.consumer(t, ConsumerConfig{Topic: "orders"}).Receive(soon(t))
	require.NoError(t, err)
	require.Equal(t, "moved", string(m.Body))
	require.ErrorIs(t, p.CancelTimer(t.Context(), again), protocol.ErrNotPending)

	r, err := p.Send(t.Context(), text(t, "orders", "now"))
	require.NoError(t, err)
	require.Empty(t, r.RecallHandle)
	require.ErrorIs(t, p.CancelTimer(t.Context(), r.RecallHandle), message.ErrIllegal)
	other := protocol.RecallHandle{Topic: "orders", Broker: "other", ID: "x"}
	require.ErrorIs(t, p.CancelTimer(t.Context(), other.String()), ErrNoRoute)
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.CancelTimer(t.Context(), cancelled), message.ErrClosed)
}

// TestTimedMessagesInProducers: hooks are told of a delay, and no batch takes them.
func TestTimedMessagesInProducers(t *testing.T) {
	for _, p := range []message.Properties{
		message.Properties("").DeliverAt(time.Now()), message.Properties("").DeliverAfter(time.Second), "TIMER_DELAY_SEC\x01x",
	} {
		require.Equal(t, MessageDelay, typeOf(p))
		err := checkBatch([]*message.Message{{Topic: "t", Body: []byte("x")}, {Topic: "t", Body: []byte("x"), Properties: p}}, 10)
		require.ErrorIs(t, err, message.ErrIllegal)
		require.ErrorContains(t, err, "message 1 of the batch")
	}
}

// TestCancelTimerInNamespace: handles have the broker's name of the topic.
func TestCancelTimerInNamespace(t *testing.T) {
	h := openHouse(t)
	p, err := NewProducer(ProducerConfig{Group: "senders", Namespace: "ns", NameService: h.names, Connect: h.names.Connect})
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	m := text(t, "orders", "x")
	m.Properties = m.Properties.DeliverAfter(time.Hour)
	r, err := p.Send(t.Context(), m)
	require.NoError(t, err)
	handle, err := protocol.ParseRecallHandle(r.RecallHandle)
	require.NoError(t, err)
	require.Equal(t, "ns%orders", handle.Topic)
	again, err := p.RescheduleTimer(t.Context(), r.RecallHandle, time.Now().Add(2*time.Hour))
	require.NoError(t, err)
	require.NoError(t, h.producer(t).CancelTimer(t.Context(), again), "by one without a namespace")
	require.ErrorIs(t, p.CancelTimer(t.Context(), again), protocol.ErrNotPending)
}
