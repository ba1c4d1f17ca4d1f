package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// benchTopic is the topic, and has one queue.
const benchTopic = "bench"

var pocketmqStore = peer{
	name:   "PocketMQ store",
	module: "github.com/pocketmq/pocketmq",
	gives: map[promise]string{
		processCrash: "`Flush: FlushAsync`; synced within 500 ms",
		memoryOnly:   "the same, which promises more: there is nothing less",
		powerLoss:    "`Flush: FlushSync`, the default; writers share syncs",
	},
	batch: "`PutMessages`: seen as a whole; one that a crash of the system cuts off before its answer may survive in part",
	notes: "Default `store.Config`: dispatcher and index on. Messages have a topic and a body, and no key. " +
		"A put is `PutMessage`, a read `GetMessage`. “Can be read” is `WaitDispatched` and `WaitIndexed`.",
	open: openPocketMQStore,
}

var pocketmqProducer = peer{
	name:   "PocketMQ producer",
	module: "github.com/pocketmq/pocketmq",
	gives: map[promise]string{
		processCrash: pocketmqStore.gives[processCrash],
		powerLoss:    pocketmqStore.gives[powerLoss],
	},
	batch: pocketmqStore.batch,
	notes: "The whole path of a send: `Producer.SendToQueue` and `SendBatchToQueue`, broker, store, with default configuration. " +
		"Each message gets a unique id, which is indexed. A read is `Reader.Messages`, which copies.",
	open: openPocketMQProducer,
}

func flushMode(p promise) store.FlushMode {
	if p == powerLoss {
		return store.FlushSync
	}
	return store.FlushAsync
}

type storeQueue struct {
	store *store.DefaultMessageStore
}

func openPocketMQStore(dir string, p promise, _ int) (queue, error) {
	s, err := store.Open(context.Background(), dir, store.Config{Flush: flushMode(p)})
	if err != nil {
		return nil, err
	}
	return &storeQueue{s}, nil
}

func (q *storeQueue) Put(body []byte) error {
	m := &message.MessageExtBrokerInner{}
	m.Topic, m.Body = benchTopic, body
	_, err := q.store.PutMessage(context.Background(), m)
	return err
}

func (q *storeQueue) PutBatch(bodies [][]byte) error {
	b := &message.MessageExtBatch{}
	b.Topic = benchTopic
	size := 0
	for _, body := range bodies {
		size += len(body) + 64 // and what a batch says about each element
	}
	b.Body = make([]byte, 0, size)
	var err error
	for _, body := range bodies {
		if b.Body, err = message.AppendBatchElement(b.Body, &message.Message{Body: body}); err != nil {
			return err
		}
	}
	_, err = q.store.PutMessages(context.Background(), b)
	return err
}

func (q *storeQueue) Drain() error {
	ctx, end := context.Background(), q.store.MaxOffset()
	return errors.Join(q.store.WaitDispatched(ctx, end), q.store.WaitIndexed(ctx, end))
}

func (q *storeQueue) ReadAll(batch int, yield func([]byte) error) error {
	query := store.GetQuery{Topic: benchTopic, MaxCount: batch}
	for {
		r, err := q.store.GetMessage(context.Background(), query)
		if err != nil {
			return err
		}
		for _, m := range r.Messages {
			if err == nil {
				err = yield(m.Body())
			}
		}
		found := r.Status == store.GetFound
		query.Offset = r.NextBeginOffset
		r.Release()
		if err != nil || !found {
			return err
		}
	}
}

func (q *storeQueue) Close() error { return q.store.Close() }

type producerQueue struct {
	node     *pocketmq.Node
	producer *mq.Producer
	queue    protocol.MessageQueue
}

func openPocketMQProducer(dir string, p promise, _ int) (queue, error) {
	ctx := context.Background()
	node, err := pocketmq.OpenConfig(ctx, pocketmq.Config{Dir: dir, Store: store.Config{Flush: flushMode(p)}})
	if err != nil {
		return nil, err
	}
	q := &producerQueue{node: node, queue: protocol.MessageQueue{Topic: benchTopic, BrokerName: node.Broker().Name()}}
	err = node.CreateTopic(ctx, pocketmq.TopicConfig{Name: benchTopic, ReadQueueNums: 1, WriteQueueNums: 1})
	if err == nil {
		q.producer, err = node.Producer("bench")
	}
	if err != nil {
		return nil, errors.Join(err, node.Close())
	}
	return q, nil
}

func (q *producerQueue) Put(body []byte) error {
	r, err := q.producer.SendToQueue(context.Background(), &message.Message{Topic: benchTopic, Body: body}, q.queue)
	if err == nil && r.Status != mq.SendOK {
		err = fmt.Errorf("status %v", r.Status)
	}
	return err
}

func (q *producerQueue) PutBatch(bodies [][]byte) error {
	ms := make([]*message.Message, len(bodies))
	for i, body := range bodies {
		ms[i] = &message.Message{Topic: benchTopic, Body: body}
	}
	results, err := q.producer.SendBatchToQueue(context.Background(), ms, q.queue)
	for _, r := range results {
		if err == nil && r.Status != mq.SendOK {
			err = fmt.Errorf("status %v", r.Status)
		}
	}
	return err
}

func (q *producerQueue) Drain() error { return (&storeQueue{q.node.Store()}).Drain() }

func (q *producerQueue) ReadAll(_ int, yield func([]byte) error) error {
	ctx := context.Background()
	r, err := q.node.NewReader(ctx, mq.ReaderConfig{Topic: benchTopic})
	if err != nil {
		return err
	}
	for m, err := range r.Messages(ctx) {
		if err == nil {
			err = yield(m.Body)
		}
		if err != nil {
			return errors.Join(err, r.Close())
		}
	}
	return r.Close()
}

func (q *producerQueue) Close() error { return q.node.Close() }
