package mq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pocketmq/pocketmq/message"
)

// TraceContext returns the properties by which a message carries on the trace that
// its sender is part of: names and values that travel with ctx, as traceparent and
// tracestate of the W3C do. Consumers find them in the message's properties. It is
// called for each message of Send and its kind, once for a batch or more often,
// and may be called concurrently. A property that the message has is replaced.
//
// A propagator of OpenTelemetry fits as it is:
//
//	TraceContext: func(ctx context.Context) map[string]string {
//		carrier := propagation.MapCarrier{}
//		otel.GetTextMapPropagator().Inject(ctx, carrier)
//		return carrier
//	},
//
// and in a consumer, for what m.Properties.All yields in a MapCarrier, Extract.
//
// A name that is reserved, or a name or value that no message can carry, makes
// the send fail with an *message.IllegalError, too many bytes with a
// *message.LimitError, and a panic with an error that matches ErrTraceContext.
// Nothing was sent then.
type TraceContext func(ctx context.Context) map[string]string

// ErrTraceContext is matched by the error of a send for which
// ProducerConfig.TraceContext gave nothing that can be used.
var ErrTraceContext = errors.New("trace context can not be added")

// addTraceContext adds the properties of ctx to m, which is not the caller's.
func (p *Producer) addTraceContext(ctx context.Context, m *message.Message) error {
	if p.inject == nil {
		return nil
	}
	add, err := p.traceContext(ctx)
	if err == nil {
		m.Properties, err = withAll(m.Properties, add)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTraceContext, err)
	}
	return nil
}

// traceContext makes an error of a panic.
func (p *Producer) traceContext(ctx context.Context) (add map[string]string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError(errHookPanicked, v)
		}
	}()
	return p.inject(ctx), nil
}

// withAll is p with properties added in the order of their names.
func withAll(p message.Properties, add map[string]string) (message.Properties, error) {
	for _, name := range slices.Sorted(maps.Keys(add)) {
		var err error
		if p, err = p.WithUser(name, add[name]); err != nil {
			return p, err
		}
	}
	if len(p) > MaxPropertiesLength {
		return p, &message.LimitError{Field: "properties", Limit: int64(MaxPropertiesLength), Value: int64(len(p))}
	}
	return p, nil
}

// batchInContext is the batch with the properties of ctx: copies, if there are any.
func (p *Producer) batchInContext(ctx context.Context, ms []*message.Message) ([]*message.Message, error) {
	if p.inject == nil {
		return ms, nil
	}
	add, err := p.traceContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTraceContext, err)
	}
	own := make([]*message.Message, len(ms))
	for i, m := range ms {
		c := *m
		if c.Properties, err = withAll(m.Properties, add); err != nil {
			return nil, batchError(i, fmt.Errorf("%w: %w", ErrTraceContext, err))
		}
		own[i] = &c
	}
	return own, nil
}
