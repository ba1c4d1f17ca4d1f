package protocol

import (
	"strconv"
	"strings"

	"github.com/pocketmq/pocketmq/message"
)

// OrderQueues is how many queues of an ordered topic a broker has. The number
// counts whatever the broker's own configuration says, so that the queues of a
// key stay the same while a broker is away.
type OrderQueues struct {
	BrokerName string
	Queues     int32
}

// ParseOrderConf reads "broker:count;broker:count", the text of RocketMQ's
// key-value namespace ORDER_TOPIC_CONFIG. An empty text has no brokers. The error
// is a *message.IllegalError that names the part.
//
// Source: RocketMQ client/impl/factory/MQClientInstance.java, topicRouteData2TopicPublishInfo.
func ParseOrderConf(text string) ([]OrderQueues, error) {
	if text == "" {
		return nil, nil
	}
	var all []OrderQueues
	for part := range strings.SplitSeq(text, ";") {
		name, count, _ := strings.Cut(part, ":")
		n, err := strconv.ParseInt(count, 10, 32)
		if name == "" || err != nil || n < 0 {
			return nil, &message.IllegalError{Field: "order configuration", Value: part, Reason: "is not broker:count"}
		}
		all = append(all, OrderQueues{name, int32(n)})
	}
	return all, nil
}
