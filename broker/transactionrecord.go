package broker

import (
	"strconv"
	"strings"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// opProperties are those of RocketMQ's op messages, in its order.
const opProperties message.Properties = "WAIT\x01true\x02TAGS\x01d"

// stage is a message as it is stored at first: in the half topic, in the schedule
// topic, or in its own. A half message has no delay: its property DELAY and those
// of a delivery time go.
//
// Source: RocketMQ broker/processor/SendMessageProcessor.java, asyncSendMessage.
func (b *Broker) stage(inner message.MessageExtBrokerInner) (message.MessageExtBrokerInner, error) {
	if inner.SysFlag.Transaction() != message.TransactionPrepared {
		return b.park(inner)
	}
	inner.SysFlag = inner.SysFlag.WithTransaction(message.TransactionNone)
	if level, err := b.delays.table.Level(inner.Properties); err != nil {
		return inner, refuse(protocol.MessageIllegal, "", err)
	} else if inner.ReconsumeTimes > 0 && (level > 0 || strings.HasPrefix(inner.Topic, protocol.DeadLetterPrefix)) {
		// A consumer sends back what was a half message once.
		inner.Properties = inner.Properties.Without(protocol.PropertyTransaction)
		return b.park(inner)
	}
	if b.rejectHalf {
		return inner, refuse(protocol.NoPermission, "broker "+b.name+" takes no messages in transaction", nil)
	}
	group, _ := inner.Properties.Get(protocol.PropertyProducerGroup)
	if err := protocol.CheckGroup(group); err != nil {
		return inner, refuse(protocol.MessageIllegal, "property "+protocol.PropertyProducerGroup, err)
	}
	return halfOf(inner)
}

// halfOf is a message as it waits in the half topic.
//
// Source: RocketMQ broker/transaction/queue/TransactionalMessageBridge.java, parseHalfMessageInner.
func halfOf(inner message.MessageExtBrokerInner) (message.MessageExtBrokerInner, error) {
	p, err := withAll(inner.Properties.Without(message.PropertyDelayLevel).WithoutTimer(),
		message.PropertyRealTopic, inner.Topic, message.PropertyRealQueueID, strconv.Itoa(int(inner.QueueID)))
	if err != nil {
		return inner, refuse(protocol.MessageIllegal, "", err)
	}
	inner.Topic, inner.QueueID, inner.Properties = message.HalfTopic, 0, p
	return inner, nil
}

// withAll sets properties, and refuses more than a record has room for.
func withAll(p message.Properties, namesAndValues ...string) (message.Properties, error) {
	var err error
	for i := 0; i < len(namesAndValues); i += 2 {
		if p, err = p.With(namesAndValues[i], namesAndValues[i+1]); err != nil {
			return p, err
		}
	}
	if len(p) > message.MaxPropertiesLength {
		err = &message.LimitError{Field: "properties", Limit: message.MaxPropertiesLength, Value: int64(len(p))}
	}
	return p, err
}

// realOf is the message of a half message, as it is delivered when its transaction
// is committed. Its properties stay.
//
// Source: RocketMQ broker/processor/EndTransactionProcessor.java, endMessageTransaction.
func realOf(m *message.MessageExt) (message.MessageExtBrokerInner, error) {
	inner, err := delivery(*m)
	inner.SysFlag = inner.SysFlag.WithTransaction(message.TransactionCommit)
	inner.PreparedTransactionOffset = m.LogOffset
	return inner, err
}

// rolled is a half message that replaces m, to which it is the same but for its
// place. That m has ended is told by the new one's PreparedTransactionOffset: an op
// message for m would make RocketMQ take the new one for ended, too.
//
// Source: RocketMQ broker/transaction/queue/TransactionalMessageBridge.java, renewImmunityHalfMessageInner.
func rolled(m *message.MessageExt, checks int) (message.MessageExtBrokerInner, error) {
	first, ok := m.Properties.Get(protocol.PropertyFirstHalf)
	if !ok {
		first = strconv.FormatInt(int64(m.QueueOffset), 10)
	}
	return copyOfHalf(m, message.HalfTopic, protocol.PropertyFirstHalf, first, protocol.PropertyCheckTimes, strconv.Itoa(checks))
}

// givenUp is a half message of which nobody knows what became.
func givenUp(m *message.MessageExt, checks int) (message.MessageExtBrokerInner, error) {
	return copyOfHalf(m, protocol.TransactionCheckMaxTopic, protocol.PropertyCheckTimes, strconv.Itoa(checks))
}

// copyOfHalf is a half message for queue 0 of a topic, with some properties set.
func copyOfHalf(m *message.MessageExt, topic string, namesAndValues ...string) (message.MessageExtBrokerInner, error) {
	inner := message.MessageExtBrokerInner{MessageExt: *m, NoWait: true}
	var err error
	inner.Topic, inner.QueueID = topic, 0
	inner.Properties, err = withAll(m.Properties.Without(message.PropertyCRC32), namesAndValues...)
	inner.PreparedTransactionOffset = m.LogOffset
	return inner, err
}

// resumed is a message that was given up, as a half message of which nobody was
// asked yet.
//
// Source: RocketMQ broker/processor/AdminBrokerProcessor.java, resumeCheckHalfMessage.
func resumed(m message.MessageExt) (message.MessageExtBrokerInner, error) {
	m.Properties = m.Properties.Without(protocol.PropertyFirstHalf)
	inner, err := copyOfHalf(&m, message.HalfTopic, protocol.PropertyCheckTimes, "0")
	inner.PreparedTransactionOffset, inner.NoWait = 0, false
	return inner, err
}

// opOf is the message that says that a half message has ended.
//
// Source: RocketMQ broker/transaction/queue/TransactionalMessageBridge.java, makeOpMessageInner.
func (t *transactions) opOf(off message.QueueOffset) message.MessageExtBrokerInner {
	var inner message.MessageExtBrokerInner
	inner.Topic, inner.Body, inner.Properties = protocol.TransactionOpTopic, strconv.AppendInt(nil, int64(off), 10), opProperties
	inner.BornTimestamp, inner.BornHost = t.now().UnixMilli(), t.host
	return inner
}

// opOffsets gives the half messages that an op message is about: RocketMQ 5 names
// several, with a comma behind each. What is no number is passed over.
func opOffsets(body []byte, yield func(message.QueueOffset)) {
	for text := range strings.SplitSeq(string(body), ",") {
		if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil && n >= 0 {
			yield(message.QueueOffset(n))
		}
	}
}
