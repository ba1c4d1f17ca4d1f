package protocol

import (
	"cmp"
	"strconv"
)

// MessageQueue names one queue of a topic on one broker. It is a value and may
// be a map key.
type MessageQueue struct {
	Topic      string
	BrokerName string
	QueueID    int32
}

// String gives "topic@broker:queue".
func (q MessageQueue) String() string {
	return q.Topic + "@" + q.BrokerName + ":" + strconv.Itoa(int(q.QueueID))
}

// Compare orders queues by topic, broker name and queue id.
func (q MessageQueue) Compare(other MessageQueue) int {
	return cmp.Or(
		cmp.Compare(q.Topic, other.Topic),
		cmp.Compare(q.BrokerName, other.BrokerName),
		cmp.Compare(q.QueueID, other.QueueID),
	)
}
