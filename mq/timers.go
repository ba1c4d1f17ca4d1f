package mq

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pocketmq/pocketmq/protocol"
)

// CancelTimer cancels a message that waits for its time of delivery, by the
// SendResult.RecallHandle of its send, of whichever producer. When it returns nil,
// the message is never delivered; that is as durable as a send. The error matches
// protocol.ErrNotPending when it was delivered already, or is just being, or was
// cancelled. When the error's code is protocol.FlushDiskTimeout or another that is
// Stored(), it is cancelled, but the promise was not kept. After any other error it
// waits as before.
func (p *Producer) CancelTimer(ctx context.Context, handle string) error {
	h, broker, err := p.recall(ctx, handle)
	if err == nil {
		err = broker.CancelTimer(ctx, protocol.CancelTimerRequest{Topic: h.Topic, ID: h.ID})
	}
	if err != nil {
		return fmt.Errorf("cancel message %s of topic %s: %w", h.ID, h.Topic, err)
	}
	return nil
}

// RescheduleTimer gives a message that waits another time of delivery, in one step:
// it is delivered once. It returns the handle from now on; the one before still
// names the message. Errors are those of CancelTimer; a time beyond the broker's
// horizon is refused with a *message.LimitError. A time that is over delivers at
// once.
func (p *Producer) RescheduleTimer(ctx context.Context, handle string, at time.Time) (newHandle string, err error) {
	h, broker, err := p.recall(ctx, handle)
	if err == nil {
		err = broker.RescheduleTimer(ctx, protocol.RescheduleTimerRequest{
			CancelTimerRequest: protocol.CancelTimerRequest{Topic: h.Topic, ID: h.ID}, DeliverAt: at.UnixMilli(),
		})
	}
	if err != nil {
		return "", fmt.Errorf("reschedule message %s of topic %s: %w", h.ID, h.Topic, err)
	}
	h.DeliverAt = at.UnixMilli()
	return h.String(), nil
}

// recall reads a handle and finds the broker that it names.
func (p *Producer) recall(ctx context.Context, handle string) (protocol.RecallHandle, protocol.Broker, error) {
	if err := p.running(); err != nil {
		return protocol.RecallHandle{}, nil, err
	}
	h, err := protocol.ParseRecallHandle(handle)
	if err != nil {
		return h, nil, err
	}
	r, err := p.routes.get(ctx, p.ns.unwrap(h.Topic), p.now())
	if err != nil {
		return h, nil, err
	}
	i := slices.IndexFunc(r.queues, func(q protocol.MessageQueue) bool { return q.BrokerName == h.Broker })
	if i < 0 {
		return h, nil, fmt.Errorf("%w: no broker %s", ErrNoRoute, h.Broker)
	}
	return h, r.brokers[i], nil
}
