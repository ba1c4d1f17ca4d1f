package mq

import (
	"context"
	"slices"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// start makes the consumer known to the brokers, and begins to read. A group that is
// reset meanwhile is so before or afterwards: the one who resets waits.
func (c *Consumer) start(ctx context.Context, cfg *ConsumerConfig) error {
	request := protocol.RegisterClientRequest{
		ClientID: clientID(newInstanceName(), ""), ConsumerGroups: []string{c.group}, Client: consumerClient{c},
	}
	c.presence = presence{
		names: cfg.NameService, connect: cfg.Connect, interval: cfg.RouteInterval, log: cfg.Logger,
		request: func() protocol.RegisterClientRequest { return request },
	}
	c.commitMu.Lock()
	defer c.commitMu.Unlock()
	c.presence.start(ctx)
	err := c.f.run(ctx)
	if err != nil {
		c.leave()
	}
	return err
}

// leave has the brokers forget the consumer.
func (c *Consumer) leave() {
	if err := c.presence.close(); err != nil {
		c.log.Warn("brokers were not told that a consumer has ended", "group", c.group, "err", err)
	}
}

// consumerClient is what brokers ask of a consumer.
type consumerClient struct{ c *Consumer }

// CheckTransactionState is protocol.Client's. A consumer sends nothing.
func (consumerClient) CheckTransactionState(context.Context, protocol.CheckTransactionStateRequest) error {
	return &protocol.Error{Code: protocol.SystemError, Remark: "the client is a consumer"}
}

// PushReplyMessage is protocol.Client's. A consumer asks nothing.
func (consumerClient) PushReplyMessage(context.Context, protocol.PushReplyMessageRequest) error {
	return &protocol.Error{Code: protocol.SystemError, Remark: "the client is a consumer"}
}

// ResetConsumerOffset has the consumer go on elsewhere.
//
// Source: RocketMQ client/impl/factory/MQClientInstance.java, resetOffset.
func (k consumerClient) ResetConsumerOffset(_ context.Context, req protocol.ResetConsumerOffsetRequest) error {
	c := k.c
	if req.Group != c.group {
		return &protocol.Error{Code: protocol.ConsumerNotOnline, Remark: "group " + req.Group}
	}
	c.commitMu.Lock()
	defer c.commitMu.Unlock()
	for _, p := range req.Positions {
		c.f.seek(protocol.MessageQueue{Topic: req.Topic, BrokerName: req.Broker, QueueID: p.QueueID}, p.Offset)
	}
	c.log.Info("offsets of the group were reset", "group", c.group, "topic", req.Topic, "broker", req.Broker)
	return nil
}

// seek has a queue read from an offset on, and drops what was not handed out. A queue
// that is not read yet begins where the group is.
func (f *fetcher) seek(q protocol.MessageQueue, off message.QueueOffset) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.queues[q]
	if old == nil || f.closed {
		return
	}
	old.stop() // and what it pushes from now on is not taken
	f.ready = slices.DeleteFunc(f.ready, func(b *batch) bool { return b.queue == old })
	s := &queueState{MessageQueue: q, space: make(chan struct{}, 1), broker: old.broker, position: off, fetched: off, dead: old.dead, stop: old.stop}
	f.queues[q] = s
	if !s.dead {
		f.startReading(s, s.broker, -1)
	}
}

// ResetConsumerOffset is protocol.Client's. A producer reads nothing.
func (in *instance) ResetConsumerOffset(_ context.Context, req protocol.ResetConsumerOffsetRequest) error {
	return &protocol.Error{Code: protocol.ConsumerNotOnline, Remark: "group " + req.Group}
}
