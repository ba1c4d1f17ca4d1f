package broker

import (
	"cmp"
	"context"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// firstRetryLevel is the delay level of a message that comes again for the first
// time, one more each time after.
const firstRetryLevel = 3

// SendMessageBack stores a copy of a message for the group's retry topic, where it
// appears when its delay level is over, or in the group's dead letter topic. Both
// topics are made when they are needed. It waits for the sync like SendMessage; a
// message that is stored without its promise counts as stored.
//
// Source: RocketMQ broker/processor/SendMessageProcessor.java, asyncConsumerSendMsgBack.
func (b *Broker) SendMessageBack(ctx context.Context, req protocol.SendMessageBackRequest) error {
	if err := b.open(); err != nil {
		return err
	}
	group, err := b.groupForRetry(req.Group)
	if err != nil {
		return err
	}
	if err := b.mayWrite(); err != nil {
		return err
	}
	if group.RetryQueueNums <= 0 {
		return nil
	}
	m, err := b.store.LookMessageByOffset(ctx, req.Offset)
	if err != nil {
		return refuse(protocol.SystemError, "look message by offset failed", err)
	}
	if err := protocol.CheckSendTopic(m.Topic); err != nil { // it was not consumed from there
		return refuse(protocol.SystemError, "", err)
	}
	inner, err := sentBack(m)
	if err == nil {
		err = b.aim(&inner, group, req.DelayLevel, cmp.Or(req.MaxReconsumeTimes, group.RetryMaxTimes))
	}
	inner.ReconsumeTimes++
	if err == nil {
		inner, err = b.park(inner)
	}
	if err == nil {
		err = b.ensureTopic(ctx, retryTopicOf(&inner), group.RetryQueueNums)
	}
	if err != nil {
		return err
	}
	res, err := b.store.PutMessage(ctx, &inner)
	code, err := answerPut(&res, err)
	if !code.Stored() {
		return refuse(protocol.SystemError, res.Status.String(), err)
	}
	b.delays.parkedAt(&inner, &res)
	return nil
}

// sentBack is a message with what tells where it came from.
func sentBack(m message.MessageExt) (message.MessageExtBrokerInner, error) {
	p := m.Properties.Without(message.PropertyCRC32).Without(propertyTransaction).WithoutTimer()
	var err error
	for _, nv := range [...][2]string{
		{protocol.PropertyRetryTopic, m.Topic},
		{protocol.PropertyOriginMessageID, m.OffsetMessageID().String()},
	} {
		if _, ok := p.Get(nv[0]); ok {
			continue
		}
		if p, err = p.With(nv[0], nv[1]); err != nil {
			return message.MessageExtBrokerInner{}, refuse(protocol.MessageIllegal, "", err)
		}
	}
	m.Properties = p
	m.PreparedTransactionOffset = 0
	return message.MessageExtBrokerInner{MessageExt: m}, nil
}

// aim chooses where a message goes: into the retry topic, with a delay level, or
// among the dead letters.
func (b *Broker) aim(inner *message.MessageExtBrokerInner, group protocol.SubscriptionGroupConfig, level int, most int32) error {
	if level < 0 || inner.ReconsumeTimes >= most {
		return bury(inner, group.Name)
	}
	if level == 0 {
		level = firstRetryLevel + int(inner.ReconsumeTimes)
	}
	p, err := inner.Properties.With(message.PropertyDelayLevel, strconv.Itoa(level))
	if err != nil {
		return refuse(protocol.MessageIllegal, "", err)
	}
	inner.Topic, inner.QueueID, inner.Properties = protocol.RetryPrefix+group.Name, rand.N(group.RetryQueueNums), p
	return nil
}

// bury makes a message a dead letter of the group.
func bury(inner *message.MessageExtBrokerInner, group string) error {
	p := inner.Properties.WithoutTimer() // its time is over
	topic, _ := p.Get(protocol.PropertyRetryTopic)
	id, _ := p.Get(protocol.PropertyOriginMessageID)
	for _, nv := range [...][2]string{
		{message.PropertyDelayLevel, "0"},
		{protocol.PropertyDLQOriginTopic, topic},
		{protocol.PropertyDLQOriginMessageID, id},
	} {
		if nv[1] == "" {
			continue
		}
		var err error
		if p, err = p.With(nv[0], nv[1]); err != nil {
			return refuse(protocol.MessageIllegal, "", err)
		}
	}
	inner.Topic, inner.QueueID, inner.Properties = protocol.DeadLetterPrefix+group, 0, p
	return nil
}

// retryTopicOf is the topic that a message is for, parked or not.
func retryTopicOf(inner *message.MessageExtBrokerInner) string {
	if inner.Topic == message.ScheduleTopic {
		topic, _ := inner.Properties.Get(message.PropertyRealTopic)
		return topic
	}
	return inner.Topic
}

// ensureTopic makes a retry or dead letter topic that is missing. One that is
// there must be writable.
func (b *Broker) ensureTopic(ctx context.Context, topic string, retryQueues int32) error {
	queues := int32(1)
	if strings.HasPrefix(topic, protocol.RetryPrefix) {
		queues = retryQueues
	}
	cfg, ok := b.topics.get(topic)
	if ok && cfg.ReadQueueNums >= queues && cfg.Perm.Writable() {
		return nil
	}
	if ok && !cfg.Perm.Writable() {
		return refuse(protocol.NoPermission, "topic "+topic+" can not be written: "+cfg.Perm.String(), nil)
	}
	if !ok {
		cfg = protocol.TopicConfig{Name: topic, Perm: protocol.PermReadWrite}
	}
	cfg.ReadQueueNums, cfg.WriteQueueNums = max(cfg.ReadQueueNums, queues), max(cfg.WriteQueueNums, queues)
	if err := b.topics.put(cfg); err != nil {
		return refuse(protocol.SystemError, "topic "+topic+" not created", err)
	}
	return b.announce(ctx)
}

// checkRetry looks at a message that a client sends to a retry topic: how often it
// was tried is in the request, or in properties, which go. What was tried more
// often than it may becomes a dead letter. Other messages stay as they are.
//
// Source: RocketMQ broker/processor/SendMessageProcessor.java, handleRetryAndDLQ.
func (b *Broker) checkRetry(req *protocol.SendMessageRequest, inner *message.MessageExtBrokerInner) error {
	name, ok := strings.CutPrefix(inner.Topic, protocol.RetryPrefix)
	if !ok {
		return nil
	}
	group, err := b.groupForRetry(name)
	if err != nil {
		return err
	}
	most := cmp.Or(req.MaxReconsumeTimes, group.RetryMaxTimes)
	for _, f := range [...]struct {
		property string
		value    *int32
	}{{protocol.PropertyReconsumeTime, &inner.ReconsumeTimes}, {protocol.PropertyMaxReconsumeTimes, &most}} {
		text, ok := inner.Properties.Get(f.property)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return refuse(protocol.MessageIllegal, "", &message.IllegalError{Field: "property " + f.property, Value: text, Reason: "is not a number of times"})
		}
		*f.value = int32(n)
		inner.Properties = inner.Properties.Without(f.property)
	}
	if inner.ReconsumeTimes > most {
		return bury(inner, name)
	}
	return nil
}
