package mq

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

type traceparentKey struct{}

// fromContext is what a propagator does.
func fromContext(ctx context.Context) map[string]string {
	parent, ok := ctx.Value(traceparentKey{}).(string)
	if !ok {
		return nil
	}
	return map[string]string{"tracestate": "vendor=1", "traceparent": parent}
}

// TestTraceContext has the context of each way to send arrive at a consumer.
func TestTraceContext(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	p, err := NewProducer(ProducerConfig{Group: "senders", NameService: h.names, Connect: h.names.Connect, TraceContext: fromContext})
	require.NoError(t, err)
	defer p.Close()
	c := h.consumer(t, ConsumerConfig{Topic: "orders"})
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ctx := context.WithValue(t.Context(), traceparentKey{}, parent)
	m := text(t, "orders", "x", "traceparent", "of the message that it answers")
	before := *m
	for name, send := range map[string]func() error{
		"send":     func() error { _, err := p.Send(ctx, m); return err },
		"to queue": func() error { _, err := p.SendToQueue(ctx, m, queue("orders", 0)); return err },
		"selected": func() error { _, err := p.SendSelected(ctx, m, SelectByKey, "k"); return err },
		"future":   func() error { _, err := p.SendFuture(ctx, m).Wait(ctx); return err },
		"oneway":   func() error { return p.SendOneway(ctx, m) },
		"batch":    func() error { _, err := p.SendBatch(ctx, []*message.Message{m, m}); return err },
		"of one":   func() error { _, err := p.SendBatch(ctx, []*message.Message{m}); return err },
	} {
		require.NoError(t, send(), name)
		require.Equal(t, before, *m, "the caller's message is not modified")
		messages := 1
		if name == "batch" {
			messages = 2
		}
		for range messages {
			got, err := c.Receive(soon(t))
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(got.Properties), "traceparent\x01"+parent+"\x02tracestate\x01vendor=1\x02UNIQ_KEY\x01"), "%s: %q", name, got.Properties)
		}
	}
	_, err = p.Send(t.Context(), m)
	require.NoError(t, err)
	got, err := c.Receive(soon(t))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(got.Properties), string(m.Properties)), "a context without a trace changes nothing")
}

// TestTraceContextRefuses: nothing is sent with a context that no message can carry.
func TestTraceContextRefuses(t *testing.T) {
	errOwn := errors.New("no span")
	for _, test := range []struct {
		name string
		add  func(context.Context) map[string]string
		want error
		text string
	}{
		{"reserved name", func(context.Context) map[string]string { return map[string]string{"UNIQ_KEY": "x"} }, message.ErrIllegal, `property name "UNIQ_KEY": is reserved`},
		{"blank name", func(context.Context) map[string]string { return map[string]string{" ": "x"} }, message.ErrIllegal, "property name"},
		{"blank value", func(context.Context) map[string]string { return map[string]string{"a": ""} }, message.ErrIllegal, "property value"},
		{"separator", func(context.Context) map[string]string { return map[string]string{"a": "b\x02c"} }, message.ErrIllegal, "0x02"},
		{"too long", func(context.Context) map[string]string {
			return map[string]string{"a": strings.Repeat("x", MaxPropertiesLength)}
		}, message.ErrLimit, " bytes, limit is 32589"},
		{"panic", func(context.Context) map[string]string { panic(errOwn) }, errOwn, "panicked"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, a, b := flakyProducer(t, ProducerConfig{TraceContext: test.add})
			m := text(t, "t", "x")
			for name, err := range map[string]error{
				"send":   func() error { _, err := p.Send(t.Context(), m); return err }(),
				"future": func() error { _, err := p.SendFuture(t.Context(), m).Wait(t.Context()); return err }(),
				"oneway": p.SendOneway(t.Context(), m),
				"batch":  func() error { _, err := p.SendBatch(t.Context(), []*message.Message{m, m}); return err }(),
			} {
				require.ErrorIs(t, err, ErrTraceContext, name)
				require.ErrorIs(t, err, test.want, name)
				require.ErrorContains(t, err, test.text, name)
				require.Equal(t, protocol.NoCode, CodeOf(err))
			}
			require.Zero(t, a.sends.Load()+b.sends.Load())
		})
	}
}
