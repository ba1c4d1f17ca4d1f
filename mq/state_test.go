package mq

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

func TestServiceStateTexts(t *testing.T) {
	for state, want := range map[ServiceState]string{
		StateCreateJust: "CREATE_JUST", StateStartFailed: "START_FAILED", StateRunning: "RUNNING",
		StateShutdownAlready: "SHUTDOWN_ALREADY", 9: "ServiceState(9)",
	} {
		require.Equal(t, want, state.String())
	}
}

// operations is everything that a producer can be asked, each with its error.
func operations(t *testing.T, p *Producer) map[string]func() error {
	m, q := text(t, "orders", "x"), queue("orders", 0)
	ctx := t.Context()
	calledBack := func(start func(done func(error))) func() error {
		return func() error {
			result := make(chan error, 1)
			start(func(err error) { result <- err })
			return <-result
		}
	}
	sent := func(done func(error)) func(SendResult, error) { return func(_ SendResult, err error) { done(err) } }
	replied := func(done func(error)) func(*message.MessageExt, error) {
		return func(_ *message.MessageExt, err error) { done(err) }
	}
	return map[string]func() error{
		"Send":              func() error { _, err := p.Send(ctx, m); return err },
		"SendToQueue":       func() error { _, err := p.SendToQueue(ctx, m, q); return err },
		"SendSelected":      func() error { _, err := p.SendSelected(ctx, m, SelectByKey, "k"); return err },
		"SendBatch":         func() error { _, err := p.SendBatch(ctx, []*message.Message{m}); return err },
		"SendBatchToQueue":  func() error { _, err := p.SendBatchToQueue(ctx, []*message.Message{m}, q); return err },
		"SendBatchSelected": func() error { _, err := p.SendBatchSelected(ctx, []*message.Message{m}, SelectByKey, "k"); return err },
		"SendOneway":        func() error { return p.SendOneway(ctx, m) },
		"SendFuture":        func() error { _, err := p.SendFuture(ctx, m).Wait(ctx); return err },
		"SendAsync":         calledBack(func(done func(error)) { p.SendAsync(ctx, m, sent(done)) }),
		"SendToQueueAsync":  calledBack(func(done func(error)) { p.SendToQueueAsync(ctx, m, q, sent(done)) }),
		"SendSelectedAsync": calledBack(func(done func(error)) { p.SendSelectedAsync(ctx, m, SelectByKey, "k", sent(done)) }),
		"SendBatchAsync": calledBack(func(done func(error)) {
			p.SendBatchAsync(ctx, []*message.Message{m}, func(_ []SendResult, err error) { done(err) })
		}),
		"Request":              func() error { _, err := p.Request(ctx, m); return err },
		"RequestToQueue":       func() error { _, err := p.RequestToQueue(ctx, m, q); return err },
		"RequestSelected":      func() error { _, err := p.RequestSelected(ctx, m, SelectByKey, "k"); return err },
		"RequestAsync":         calledBack(func(done func(error)) { p.RequestAsync(ctx, m, replied(done)) }),
		"RequestToQueueAsync":  calledBack(func(done func(error)) { p.RequestToQueueAsync(ctx, m, q, replied(done)) }),
		"RequestSelectedAsync": calledBack(func(done func(error)) { p.RequestSelectedAsync(ctx, m, SelectByKey, "k", replied(done)) }),
		"Reply":                func() error { _, err := p.Reply(ctx, &message.MessageExt{}, nil); return err },
		"Queues":               func() error { _, err := p.Queues(ctx, "orders"); return err },
	}
}

// TestProducerNotStarted asks the zero Producer everything.
func TestProducerNotStarted(t *testing.T) {
	var p Producer
	require.Equal(t, StateCreateJust, p.State())
	require.NoError(t, p.Close(), "there is nothing to close")
	require.Equal(t, StateCreateJust, p.State())
	for name, op := range operations(t, &p) {
		err := op()
		require.Equal(t, &StateError{State: StateCreateJust}, err, name)
		require.NotErrorIs(t, err, message.ErrClosed, name)
		require.ErrorContains(t, err, "CREATE_JUST", name)
		require.Equal(t, protocol.NoCode, CodeOf(err), name)
	}
	p.SendAsync(t.Context(), nil, func(SendResult, error) { panic("nobody logs this") })
}

// TestProducerShutDown asks a closed producer everything; nothing reaches a broker.
func TestProducerShutDown(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	require.Equal(t, StateRunning, p.State())
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.Equal(t, StateShutdownAlready, p.State())
	for name, op := range operations(t, p) {
		err := op()
		require.Equal(t, &StateError{State: StateShutdownAlready}, err, name)
		require.ErrorIs(t, err, message.ErrClosed, name)
		require.ErrorContains(t, err, "SHUTDOWN_ALREADY", name)
		require.Equal(t, protocol.NoCode, CodeOf(err), name)
	}
	_, err := h.broker.GetTopic(t.Context(), "orders")
	require.ErrorIs(t, err, protocol.TopicNotExist)
}
