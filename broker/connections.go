package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// producersOf and consumersOf are the clients that have one of the group, by id.
func (t *clientTable) producersOf(group string) []protocol.RegisterClientRequest {
	return t.members(func(c *protocol.RegisterClientRequest) bool { return slices.Contains(c.ProducerGroups, group) })
}

func (t *clientTable) consumersOf(group string) []protocol.RegisterClientRequest {
	return t.members(func(c *protocol.RegisterClientRequest) bool { return slices.Contains(c.ConsumerGroups, group) })
}

func (t *clientTable) members(is func(*protocol.RegisterClientRequest) bool) []protocol.RegisterClientRequest {
	t.mu.Lock()
	defer t.mu.Unlock()
	var members []protocol.RegisterClientRequest
	for _, c := range t.byID {
		if is(&c) {
			members = append(members, c)
		}
	}
	slices.SortFunc(members, func(a, b protocol.RegisterClientRequest) int { return strings.Compare(a.ClientID, b.ClientID) })
	return members
}

// tellReset has the group's consumers go on where it was reset to.
func (b *Broker) tellReset(ctx context.Context, req *protocol.ResetOffsetRequest, to []protocol.QueuePosition) error {
	if len(to) == 0 {
		return nil
	}
	var errs []error
	for _, c := range b.clients.consumersOf(req.Group) {
		err := c.Client.ResetConsumerOffset(ctx, protocol.ResetConsumerOffsetRequest{
			Broker: b.name, Group: req.Group, Topic: req.Topic, Positions: slices.Clone(to),
		})
		if err != nil {
			errs = append(errs, refuse(protocol.SystemError, "client "+c.ClientID+" does not go on there", err))
		}
	}
	return errors.Join(errs...)
}

// ProducerConnections lists the clients that have a producer of a group.
//
// Source: RocketMQ broker/processor/AdminBrokerProcessor.java, getProducerConnectionList.
func (b *Broker) ProducerConnections(_ context.Context, group string) ([]string, error) {
	return b.idsOf(b.clients.producersOf(group), protocol.SystemError, "the producer group "+group+" is not online")
}

// ConsumerConnections lists the clients that have a consumer of a group.
//
// Source: RocketMQ broker/processor/AdminBrokerProcessor.java, getConsumerConnectionList.
func (b *Broker) ConsumerConnections(_ context.Context, group string) ([]string, error) {
	return b.idsOf(b.clients.consumersOf(group), protocol.ConsumerNotOnline, "the consumer group "+group+" is not online")
}

func (b *Broker) idsOf(members []protocol.RegisterClientRequest, none protocol.ResponseCode, remark string) ([]string, error) {
	if err := b.open(); err != nil {
		return nil, err
	}
	if len(members) == 0 {
		return nil, refuse(none, remark, nil)
	}
	ids := make([]string, len(members))
	for i := range members {
		ids[i] = members[i].ClientID
	}
	return ids, nil
}

// ConsumeTimeSpans tells from when the messages are that a group has to read.
//
// Source: RocketMQ broker/processor/AdminBrokerProcessor.java, queryConsumeTimeSpan.
func (b *Broker) ConsumeTimeSpans(_ context.Context, group, topic string) ([]protocol.ConsumeTimeSpan, error) {
	cfg, err := b.existing(topic)
	if err != nil {
		return nil, err
	}
	if err := protocol.CheckGroup(group); err != nil {
		return nil, refuse(protocol.SystemError, "", err)
	}
	spans := make([]protocol.ConsumeTimeSpan, cfg.ReadQueueNums)
	for i := range spans {
		if spans[i], err = b.consumeTimeSpan(group, topic, int32(i)); err != nil {
			return nil, fmt.Errorf("queue %d: %w", i, err)
		}
	}
	return spans, nil
}

func (b *Broker) consumeTimeSpan(group, topic string, queueID int32) (protocol.ConsumeTimeSpan, error) {
	s := protocol.ConsumeTimeSpan{QueueID: queueID}
	lowest, highest, err := b.bounds(topic, queueID)
	if err != nil || lowest == highest {
		return s, err
	}
	stored := func(off message.QueueOffset) int64 {
		ms, _ := b.store.MessageStoreTimestamp(topic, queueID, off)
		return ms
	}
	off, _ := b.offsets.get(topic, group, queueID)
	off = max(min(off, highest), lowest)
	s.Earliest, s.Latest, s.Consumed = stored(lowest), stored(highest-1), stored(max(off-1, lowest))
	if off < highest {
		s.Delay = max(b.now().UnixMilli()-stored(off), 0)
	}
	return s, nil
}
