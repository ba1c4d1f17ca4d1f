package broker

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"

	"github.com/pocketmq/pocketmq/message"
)

// errUndeliverable: it is the message that can not be delivered, now and later.
var errUndeliverable = errors.New("can not be delivered")

// parkedMessage is a message of the schedule topic.
type parkedMessage struct {
	inner     message.MessageExtBrokerInner // as it is to be delivered; empty while it is not due
	offset    message.QueueOffset
	logOffset message.LogOffset
	due       int64 // in ms
}

// unpark copies a message out and makes of it what is to be delivered, if it is
// due. The record may lie in a mapped file: a fault while reading it is an error.
// Errors match errUndeliverable.
func (d *delays) unpark(l *delayLevel, v message.View) (p parkedMessage, err error) {
	p.offset = l.next // counts after a fault
	defer undeliverable(&err)
	defer message.CatchFault(debug.SetPanicOnFault(true), &err)
	p.offset = max(v.QueueOffset(), l.next)
	p.logOffset = v.LogOffset()
	p.due = d.dueAt(l, v.StoreTimestamp())
	if p.due > d.now().UnixMilli() {
		return p, nil
	}
	p.inner, err = delivery(v.Message())
	return p, err
}

// copyParked is unpark for a message that may not be due.
func copyParked(v message.View) (m message.MessageExtBrokerInner, err error) {
	defer undeliverable(&err)
	defer message.CatchFault(debug.SetPanicOnFault(true), &err)
	return delivery(v.Message())
}

// delivery is a parked message as it is delivered: topic and queue are the real
// ones, its properties stay. It does not wait for a sync of its own.
//
// Source: RocketMQ store/schedule/ScheduleMessageService.java, messageTimeup.
func delivery(m message.MessageExt) (message.MessageExtBrokerInner, error) {
	topic, _ := m.Properties.Get(message.PropertyRealTopic)
	queue, _ := m.Properties.Get(message.PropertyRealQueueID)
	id, err := strconv.ParseInt(queue, 10, 32)
	switch {
	case topic == "" || err != nil:
		return message.MessageExtBrokerInner{}, fmt.Errorf("%w: property REAL_TOPIC is %q, REAL_QID %q", errUndeliverable, topic, queue)
	case topic == message.ScheduleTopic || topic == message.TimerTopic || topic == halfTopic:
		return message.MessageExtBrokerInner{}, fmt.Errorf("%w: property REAL_TOPIC is %q", errUndeliverable, topic)
	}
	m.Topic, m.QueueID = topic, int32(id)
	m.Properties = m.Properties.Without(message.PropertyCRC32)
	m.PreparedTransactionOffset = 0
	return message.MessageExtBrokerInner{MessageExt: m, NoWait: true}, nil
}

// halfTopic is where messages in transaction wait. Nothing is delivered there.
const halfTopic = "RMQ_SYS_TRANS_HALF_TOPIC"

// refused is the error of a put that stored nothing. What the store can not take
// for what it is can not be delivered.
func refused(err error) error {
	if errors.Is(err, message.ErrIllegal) {
		return fmt.Errorf("%w: %w", errUndeliverable, err)
	}
	return err
}

// undeliverable makes every error one that matches errUndeliverable.
func undeliverable(err *error) {
	if *err != nil && !errors.Is(*err, errUndeliverable) {
		*err = fmt.Errorf("%w: %w", errUndeliverable, *err)
	}
}
