package broker

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// TopicStats tells of each queue of a topic.
//
// Source: RocketMQ broker/processor/AdminBrokerProcessor.java, getTopicStatsInfo;
// there queues that can only be read are left out.
func (b *Broker) TopicStats(_ context.Context, topic string) ([]protocol.QueueStats, error) {
	cfg, err := b.existing(topic)
	if err != nil {
		return nil, err
	}
	stats := make([]protocol.QueueStats, max(cfg.ReadQueueNums, cfg.WriteQueueNums))
	for i := range stats {
		s := &stats[i]
		s.QueueID = int32(i)
		if s.MinOffset, s.MaxOffset, err = b.bounds(topic, s.QueueID); err != nil {
			return nil, err
		}
		if s.MaxOffset > s.MinOffset {
			s.LastUpdate, _ = b.store.MessageStoreTimestamp(topic, s.QueueID, s.MaxOffset-1)
		}
	}
	return stats, nil
}

// ConsumeStats tells how far a group is.
//
// Source: RocketMQ broker/processor/AdminBrokerProcessor.java, getConsumeStats;
// there messages that were removed count as not consumed.
func (b *Broker) ConsumeStats(_ context.Context, group, topic string) ([]protocol.ConsumeStats, error) {
	if err := b.open(); err != nil {
		return nil, err
	}
	if err := protocol.CheckGroup(group); err != nil {
		return nil, refuse(protocol.SystemError, "", err)
	}
	topics := b.offsets.topicsOf(group)
	if _, configured := b.groups.get(group); len(topics) == 0 && !configured {
		return nil, groupNotExist(group)
	}
	if topic != "" {
		if _, err := b.existing(topic); err != nil {
			return nil, err
		}
		topics = []string{topic}
	}
	var all []protocol.ConsumeStats
	for _, topic := range topics {
		cfg, ok := b.topics.get(topic)
		if !ok {
			continue
		}
		for id := range cfg.ReadQueueNums {
			stats, err := b.consumeStats(group, topic, id)
			if err != nil {
				return nil, err
			}
			all = append(all, stats)
		}
	}
	return all, nil
}

func (b *Broker) consumeStats(group, topic string, queueID int32) (protocol.ConsumeStats, error) {
	s := protocol.ConsumeStats{Topic: topic, QueueID: queueID}
	lowest, highest, err := b.bounds(topic, queueID)
	if err != nil {
		return s, err
	}
	off, _ := b.offsets.get(topic, group, queueID)
	s.BrokerOffset, s.ConsumerOffset = highest, max(min(off, highest), lowest)
	if s.ConsumerOffset > lowest {
		s.LastTimestamp, _ = b.store.MessageStoreTimestamp(topic, queueID, s.ConsumerOffset-1)
	}
	return s, nil
}

// ListGroups returns the groups that are known.
func (b *Broker) ListGroups(context.Context) ([]protocol.SubscriptionGroupConfig, error) {
	if err := b.open(); err != nil {
		return nil, err
	}
	groups := maps.Clone(*b.groups.table.Load())
	for _, name := range b.offsets.groups() {
		if _, ok := groups[name]; !ok {
			groups[name] = protocol.DefaultSubscriptionGroup(name)
		}
	}
	list := make([]protocol.SubscriptionGroupConfig, 0, len(groups))
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		list = append(list, groups[name])
	}
	return list, nil
}

// DeleteGroup removes a group.
//
// Source: RocketMQ broker/processor/AdminBrokerProcessor.java, deleteSubscriptionGroup.
func (b *Broker) DeleteGroup(_ context.Context, group string) error {
	if err := b.open(); err != nil {
		return err
	}
	if err := protocol.CheckGroup(group); err != nil {
		return refuse(protocol.SystemError, "", err)
	}
	configured, err := b.groups.remove(group)
	if err != nil {
		return refuse(protocol.SystemError, "group "+group+" not deleted", err)
	}
	if had := b.offsets.removeGroup(group); !had && !configured {
		return groupNotExist(group)
	}
	return b.saveNow()
}

// ViewMessage returns the message of an id: also one of a RocketMQ broker that had
// the directory, as the record tells.
//
// Source: RocketMQ broker/processor/QueryMessageProcessor.java, viewMessageById;
// there whatever looks like a record at the offset is an answer.
func (b *Broker) ViewMessage(ctx context.Context, id message.OffsetMessageID) (message.MessageExt, error) {
	if err := b.open(); err != nil {
		return message.MessageExt{}, err
	}
	m, err := b.store.LookMessageByOffset(ctx, id.Offset)
	switch {
	case err == nil && m.OffsetMessageID() != id, errors.Is(err, message.ErrOffsetNotFound) && id.Host != b.host:
		return message.MessageExt{}, refuse(protocol.SystemError, "", &message.IllegalError{
			Field: "message id", Value: id.String(), Reason: "is of the store " + id.Host.String() + ", this is " + b.host.String()})
	case err != nil:
		return message.MessageExt{}, viewError(ctx, id, err)
	}
	begins, err := b.store.BeginsRecord(ctx, &m, id.Offset)
	switch {
	case err != nil:
		return message.MessageExt{}, viewError(ctx, id, err)
	case !begins, m.LogOffset < b.topics.deletedBefore(m.Topic):
		return message.MessageExt{}, viewError(ctx, id, message.ErrOffsetNotFound)
	}
	return m, nil
}

func viewError(ctx context.Context, id message.OffsetMessageID, err error) error {
	if ctx.Err() != nil || errors.Is(err, message.ErrClosed) {
		return readError(err)
	}
	return refuse(protocol.SystemError, "can not find the message of id "+id.String(), err)
}
