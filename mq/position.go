package mq

import (
	"context"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// Position says where reading a queue begins. The functions below are or make
// one; an application may have its own.
type Position func(context.Context, protocol.Broker, protocol.MessageQueue) (message.QueueOffset, error)

// Begin is the oldest message of a queue.
func Begin(ctx context.Context, b protocol.Broker, q protocol.MessageQueue) (message.QueueOffset, error) {
	return b.GetMinOffset(ctx, q.Topic, q.QueueID)
}

// End is behind the newest message of a queue.
func End(ctx context.Context, b protocol.Broker, q protocol.MessageQueue) (message.QueueOffset, error) {
	return b.GetMaxOffset(ctx, q.Topic, q.QueueID)
}

// AtOffset is the message with that queue offset, in every queue.
func AtOffset(off message.QueueOffset) Position {
	return func(context.Context, protocol.Broker, protocol.MessageQueue) (message.QueueOffset, error) {
		return off, nil
	}
}

// OfGroup is where a group goes on, or an error that matches
// protocol.QueryNotFound.
func OfGroup(group string) Position {
	return func(ctx context.Context, b protocol.Broker, q protocol.MessageQueue) (message.QueueOffset, error) {
		return b.QueryConsumerOffset(ctx, protocol.QueryConsumerOffsetRequest{Group: group, Topic: q.Topic, QueueID: q.QueueID})
	}
}

// orElse is p, or other where p finds nothing.
func (p Position) orElse(other Position) Position {
	return func(ctx context.Context, b protocol.Broker, q protocol.MessageQueue) (message.QueueOffset, error) {
		off, err := p(ctx, b, q)
		if protocol.CodeOf(err) == protocol.QueryNotFound {
			return other(ctx, b, q)
		}
		return off, err
	}
}
