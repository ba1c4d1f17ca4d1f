package mq

import (
	"context"
	"slices"

	"github.com/pocketmq/pocketmq/protocol"
)

// ProducerConnections returns the ids of the clients that have a producer of a
// group, at any broker, sorted. The error matches protocol.SystemError when there is
// none.
func (a *Admin) ProducerConnections(ctx context.Context, group string) ([]string, error) {
	return a.connections(ctx, protocol.SystemError, func(b protocol.Broker) ([]string, error) { return b.ProducerConnections(ctx, group) })
}

// ConsumerConnections returns the ids of the clients that have a consumer of a
// group, at any broker, sorted. The error matches protocol.ConsumerNotOnline when
// there is none.
func (a *Admin) ConsumerConnections(ctx context.Context, group string) ([]string, error) {
	return a.connections(ctx, protocol.ConsumerNotOnline, func(b protocol.Broker) ([]string, error) { return b.ConsumerConnections(ctx, group) })
}

func (a *Admin) connections(ctx context.Context, none protocol.ResponseCode, ask func(protocol.Broker) ([]string, error)) ([]string, error) {
	var all []string
	err := a.everywhere(ctx, none, func(_ string, b protocol.Broker) error {
		ids, err := ask(b)
		all = append(all, ids...)
		return err
	})
	slices.Sort(all)
	return slices.Compact(all), err
}

// ConsumeTimeSpan is from when the messages of a queue are, as a group sees it.
type ConsumeTimeSpan struct {
	Queue protocol.MessageQueue
	protocol.ConsumeTimeSpan
}

// ConsumeTimeSpans tells from when the messages of each queue of a topic are, and how
// far in time a group is, by broker and queue.
func (a *Admin) ConsumeTimeSpans(ctx context.Context, group, topic string) ([]ConsumeTimeSpan, error) {
	var all []ConsumeTimeSpan
	err := a.ofTopic(ctx, topic, protocol.TopicNotExist, func(name string, b protocol.Broker) error {
		spans, err := b.ConsumeTimeSpans(ctx, group, topic)
		for _, s := range spans {
			all = append(all, ConsumeTimeSpan{protocol.MessageQueue{Topic: topic, BrokerName: name, QueueID: s.QueueID}, s})
		}
		return err
	})
	slices.SortFunc(all, func(x, y ConsumeTimeSpan) int { return x.Queue.Compare(y.Queue) })
	return all, err
}
