package mq

import (
	"context"
	"fmt"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// RetryLevels are what Retry takes beside the delay levels themselves.
const (
	RetryLater = 0  // at the level that follows from how often the message came: 10 seconds at first, 2 hours at last
	RetryNever = -1 // the message becomes a dead letter
)

// Retry has a message that Receive returned delivered to the group again when the
// delay level is over: RetryLater is the broker's choice. A message that came too
// often becomes a dead letter, one of the topic %DLQ%<group>, which comes only to
// who consumes that topic. The message comes again as a copy with another offset
// and a higher ReconsumeTimes; its unique key, body and properties stay.
//
// When it returns nil, the copy is stored as durably as a send is, and the message
// can be committed. After an error it is not; then neither commit nor go on, but
// try again, or the message is lost for the group.
func (c *Consumer) Retry(ctx context.Context, m *message.MessageExt, level int) error {
	broker, err := c.f.brokerOf(m)
	if err == nil {
		err = broker.SendMessageBack(ctx, protocol.SendMessageBackRequest{
			Group: c.group, Offset: m.LogOffset, DelayLevel: level, MaxReconsumeTimes: c.maxReconsume,
		})
	}
	if err != nil {
		return fmt.Errorf("retry of message %d of topic %s, queue %d, group %s: %w", m.QueueOffset, m.Topic, m.QueueID, c.group, err)
	}
	c.trace.retried(m)
	return nil
}

// brokerOf is the broker that a message came from.
func (f *fetcher) brokerOf(m *message.MessageExt) (protocol.Broker, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, message.ErrClosed
	}
	for q, s := range f.queues {
		if q.BrokerName == m.BrokerName && !s.dead {
			return s.broker, nil
		}
	}
	return nil, fmt.Errorf("%w: no broker %s", ErrNoRoute, m.BrokerName)
}
