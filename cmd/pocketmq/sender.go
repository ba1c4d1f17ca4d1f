package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"time"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/message"
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
	if queue < 0 || cfg.WriteQueueNums == 1 {
		return func(ctx context.Context, ms []*pocketmq.Message) (int, error) {
			results, err := producer.SendBatch(ctx, ms)
			return acknowledged(results), err
		}, nil
	}
	q := queueSender{producer: producer, broker: node.Broker(), queue: protocol.MessageQueue{
		Topic: topic, BrokerName: node.Broker().Name(), QueueID: queue,
	}}
	q.ids = message.NewUniqueIDs(netip.Addr{}, os.Getpid(), rand.Uint32(), time.Now)
	return q.send, nil
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

// queueSender sends batches to one queue of several.
type queueSender struct {
	producer *mq.Producer
	broker   protocol.Broker
	queue    protocol.MessageQueue
	ids      *message.UniqueIDs
	buf      []byte
}

func (q *queueSender) send(ctx context.Context, ms []*pocketmq.Message) (int, error) {
	if len(ms) == 1 { // which may be too large for a batch
		r, err := q.producer.SendToQueue(ctx, ms[0], q.queue)
		return acknowledged([]mq.SendResult{r}), err
	}
	q.buf = q.buf[:0]
	for _, m := range ms {
		element := *m
		var err error
		if element.Properties, err = m.Properties.With(message.PropertyUniqueKey, q.ids.Next().String()); err != nil {
			return 0, err
		}
		if q.buf, err = message.AppendBatchElement(q.buf, &element); err != nil {
			return 0, err
		}
	}
	var req protocol.SendMessageBatchRequest
	req.Group, req.QueueID, req.BornTimestamp = producerGroup, q.queue.QueueID, time.Now().UnixMilli()
	req.Message.Topic, req.Message.Body = q.queue.Topic, q.buf
	resp, err := q.broker.SendMessageBatch(ctx, req)
	if err == nil && resp.Code != protocol.Success {
		err = resp.Code
	}
	if err != nil {
		return 0, fmt.Errorf("send to %v: %w", q.queue, err)
	}
	return len(ms), nil
}
