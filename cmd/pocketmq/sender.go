package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/protocol"
)

const producerGroup = "pocketmq-send"

// sender sends a batch, and returns how many of its first messages were
// acknowledged.
type sender func(context.Context, []*pocketmq.Message) (int, error)

// newSender makes the topic if there is none, with one queue, and returns a
// sender to the queue, or to all queues in turn when it is negative.
func newSender(ctx context.Context, node *pocketmq.Node, topic string, queue int32) (sender, error) {
	cfg, err := node.Broker().GetTopic(ctx, topic)
	if errors.Is(err, pocketmq.ErrTopicNotExist) {
		cfg = pocketmq.TopicConfig{Name: topic, ReadQueueNums: 1, WriteQueueNums: 1}
		err = node.CreateTopic(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	if queue >= cfg.WriteQueueNums {
		return nil, fmt.Errorf("topic %s has no queue %d: its queues are 0 to %d", topic, queue, cfg.WriteQueueNums-1)
	}
	producer, err := node.Producer(producerGroup)
	if err != nil {
		return nil, err
	}
	send := producer.SendBatch
	if queue >= 0 {
		q := protocol.MessageQueue{Topic: topic, BrokerName: node.Broker().Name(), QueueID: queue}
		send = func(ctx context.Context, ms []*pocketmq.Message) ([]mq.SendResult, error) {
			return producer.SendBatchToQueue(ctx, ms, q)
		}
	}
	return func(ctx context.Context, ms []*pocketmq.Message) (int, error) {
		results, err := send(ctx, ms)
		return acknowledged(results), err
	}, nil
}

// acknowledged counts the messages whose promise was kept.
func acknowledged(results []mq.SendResult) (n int) {
	for _, r := range results {
		if r.Status == mq.SendOK {
			n++
		}
	}
	return n
}
