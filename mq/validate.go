package mq

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// The groups that every application would have if it named none.
const (
	defaultProducerGroup = "DEFAULT_PRODUCER"
	defaultConsumerGroup = "DEFAULT_CONSUMER"
)

// MaxPropertiesLength is how many bytes a message's properties may take when it
// is sent: those of a record, less what producer and broker add to them.
const MaxPropertiesLength = message.MaxPropertiesLength - uniqueKeyLength - clusterLength

// What UNIQ_KEY and CLUSTER take at most, each with its two separators.
const (
	uniqueKeyLength = 1 + len(message.PropertyUniqueKey) + 1 + 2*len(message.UniqueID{})
	clusterLength   = 1 + len("CLUSTER") + 1 + message.MaxTopicLength // a cluster's name can be a topic's
)

// checkMessage is RocketMQ's validation before a send, in its order, and then
// properties: a message that is refused must not have made its topic. The error
// names field, limit and value: a *message.IllegalError or *message.LimitError.
//
// Source: RocketMQ client/Validators.java, checkMessage.
func checkMessage(m *message.Message, maxBody int) error {
	if m == nil {
		return &message.IllegalError{Field: "message", Reason: "is nil"}
	}
	if err := protocol.CheckTopic(m.Topic); err != nil {
		return err
	}
	if err := protocol.CheckSendTopic(m.Topic); err != nil {
		return err
	}
	if len(m.Body) == 0 {
		return &message.IllegalError{Field: "body", Reason: "is empty"}
	}
	if len(m.Body) > maxBody {
		return &message.LimitError{Field: "body", Limit: int64(maxBody), Value: int64(len(m.Body))}
	}
	if len(m.Properties) > MaxPropertiesLength {
		return &message.LimitError{Field: "properties", Limit: int64(MaxPropertiesLength), Value: int64(len(m.Properties))}
	}
	return nil
}

func checkGroup(group, reserved string) error {
	if group == reserved {
		return &message.IllegalError{Field: "group", Value: group, Reason: "is the name of those that have none: choose another"}
	}
	return protocol.CheckGroup(group)
}

// checkBatch wants what RocketMQ wants of a batch: messages of one topic that
// is no retry topic, with one value of WAIT, and none of them delayed or timed.
//
// Source: RocketMQ common/message/MessageBatch.java, generateFromList.
func checkBatch(ms []*message.Message, maxBody int) error {
	if len(ms) == 0 {
		return &message.IllegalError{Field: "batch", Reason: "is empty"}
	}
	for i, m := range ms {
		if err := checkMessage(m, maxBody); err != nil {
			return batchError(i, err)
		}
		if err := checkElement(ms[0], m); err != nil {
			return batchError(i, err)
		}
	}
	return nil
}

func checkElement(first, m *message.Message) error {
	delay, _ := m.Properties.Get(message.PropertyDelayLevel)
	_, timed, _ := m.Properties.TimerDue(0) // whatever it says
	switch {
	case m.Topic != first.Topic:
		return &message.IllegalError{Field: "topic", Value: m.Topic, Reason: "is not the batch's, which is " + first.Topic}
	case strings.HasPrefix(m.Topic, protocol.RetryPrefix):
		return &message.IllegalError{Field: "topic", Value: m.Topic, Reason: "is a retry topic: it takes no batch"}
	case delayed(delay):
		return &message.IllegalError{Field: "property DELAY", Value: delay, Reason: "does not go with a batch"}
	case timed:
		return &message.IllegalError{Field: "property TIMER_…", Reason: "a time of delivery does not go with a batch"}
	case waits(m.Properties) != waits(first.Properties):
		return &message.IllegalError{Field: "property WAIT", Reason: "differs within the batch"}
	}
	return nil
}

// delayed takes what is no number for a delay as well: it is refused either way.
func delayed(level string) bool {
	if level == "" {
		return false
	}
	n, err := strconv.Atoi(level)
	return err != nil || n > 0
}

// waits is the property WAIT: false only when it says so.
func waits(p message.Properties) bool {
	v, _ := p.Get(message.PropertyWait)
	return !strings.EqualFold(v, "false")
}

func batchError(i int, err error) error { return fmt.Errorf("message %d of the batch: %w", i, err) }
