package mq

import (
	"context"
	"maps"
	"slices"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// ConsumeStats is how far a group is in a queue.
type ConsumeStats struct {
	Queue protocol.MessageQueue
	protocol.ConsumeStats
}

// Groups returns the groups that any broker knows, sorted by name, each as the first
// of the brokers has it.
func (a *Admin) Groups(ctx context.Context) ([]protocol.SubscriptionGroupConfig, error) {
	groups := map[string]protocol.SubscriptionGroupConfig{}
	err := a.everywhere(ctx, protocol.NoCode, func(_ string, b protocol.Broker) error {
		list, err := b.ListGroups(ctx)
		for _, g := range list {
			if _, ok := groups[g.Name]; !ok {
				groups[g.Name] = g
			}
		}
		return err
	})
	var all []protocol.SubscriptionGroupConfig
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, groups[name])
	}
	return all, err
}

// DeleteGroup removes a group from all brokers.
func (a *Admin) DeleteGroup(ctx context.Context, group string) error {
	return a.everywhere(ctx, protocol.SubscriptionGroupNotExist, func(_ string, b protocol.Broker) error { return b.DeleteGroup(ctx, group) })
}

// ConsumeStats tells how far a group is, by topic, broker and queue: in a topic, or
// where that is empty in all in which it has offsets.
func (a *Admin) ConsumeStats(ctx context.Context, group, topic string) ([]ConsumeStats, error) {
	var all []ConsumeStats
	ask := func(name string, b protocol.Broker) error {
		stats, err := b.ConsumeStats(ctx, group, topic)
		for _, s := range stats {
			all = append(all, ConsumeStats{protocol.MessageQueue{Topic: s.Topic, BrokerName: name, QueueID: s.QueueID}, s})
		}
		return err
	}
	var err error
	if topic == "" {
		err = a.everywhere(ctx, protocol.SubscriptionGroupNotExist, ask)
	} else {
		err = a.ofTopic(ctx, topic, protocol.SubscriptionGroupNotExist, ask)
	}
	slices.SortFunc(all, func(x, y ConsumeStats) int { return x.Queue.Compare(y.Queue) })
	return all, err
}

// ResetOffset has a group go on, in all queues of a topic, with the first message
// stored at or after a time, in ms since the Unix epoch: 0 is the first message,
// protocol.EndOfQueue is behind the last one. Without force it only goes back. It
// returns what the group now has. Consumers of the group that run go on there.
func (a *Admin) ResetOffset(ctx context.Context, group, topic string, time int64, force bool) (map[protocol.MessageQueue]message.QueueOffset, error) {
	now := map[protocol.MessageQueue]message.QueueOffset{}
	err := a.ofTopic(ctx, topic, protocol.TopicNotExist, func(name string, b protocol.Broker) error {
		positions, err := b.ResetOffset(ctx, protocol.ResetOffsetRequest{Group: group, Topic: topic, Time: time, Force: force})
		for _, p := range positions {
			now[protocol.MessageQueue{Topic: topic, BrokerName: name, QueueID: p.QueueID}] = p.Offset
		}
		return err
	})
	return now, err
}

// SetOffset has a group go on with a certain message of a queue, forward or back.
func (a *Admin) SetOffset(ctx context.Context, group string, q protocol.MessageQueue, off message.QueueOffset) error {
	return a.at(ctx, q, func(b protocol.Broker) error {
		_, err := b.ResetOffset(ctx, protocol.ResetOffsetRequest{
			Group: group, Topic: q.Topic, Force: true, Positions: []protocol.QueuePosition{{QueueID: q.QueueID, Offset: off}},
		})
		return err
	})
}

// CloneOffsets gives a group the offsets that another one has: in a topic, or in all
// where that is empty. A broker on which that one has none is an error.
func (a *Admin) CloneOffsets(ctx context.Context, req protocol.CloneOffsetsRequest) error {
	clone := func(_ string, b protocol.Broker) error { return b.CloneOffsets(ctx, req) }
	if req.Topic == "" {
		return a.everywhere(ctx, protocol.NoCode, clone)
	}
	return a.ofTopic(ctx, req.Topic, protocol.NoCode, clone)
}
