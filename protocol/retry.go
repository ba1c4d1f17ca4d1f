package protocol

import (
	"context"

	"github.com/pocketmq/pocketmq/message"
)

// Retries is what clients ask of a broker about messages that a group could not
// consume, and about groups. It is a part of Broker.
type Retries interface {
	// SendMessageBack has a message delivered to the group again, later: as a
	// message of the group's retry topic with a delay level, or of its dead letter
	// topic when it was tried often enough. The error is nil when that message is
	// stored. It matches SubscriptionGroupNotExist for an unknown group.
	SendMessageBack(ctx context.Context, req SendMessageBackRequest) error
	// UpdateSubscriptionGroup makes a group or replaces its configuration. It
	// returns when the configuration is on disk.
	UpdateSubscriptionGroup(ctx context.Context, group SubscriptionGroupConfig) error
	// GetSubscriptionGroup returns a group's configuration, or an error that
	// matches SubscriptionGroupNotExist.
	GetSubscriptionGroup(ctx context.Context, group string) (SubscriptionGroupConfig, error)
}

// SendMessageBackRequest names a message that a group could not consume.
//
// Source: RocketMQ common/protocol/header/ConsumerSendMsgBackRequestHeader.java.
type SendMessageBackRequest struct {
	Group  string
	Offset message.LogOffset // of the message's record

	// DelayLevel says when it comes again. 0 is for the broker to choose: three
	// more than how often it came again so far. Less than 0 makes it a dead letter
	// at once.
	DelayLevel int
	// MaxReconsumeTimes is how often it may come again; 0 is the group's
	// RetryMaxTimes.
	MaxReconsumeTimes int32
}

// SubscriptionGroupConfig is what a broker knows about a consumer group.
type SubscriptionGroupConfig struct {
	Name           string
	ConsumeEnable  bool  // pulls are served
	RetryQueueNums int32 // of the retry topic; what is sent back is dropped when it is not positive
	RetryMaxTimes  int32 // how often a message comes again before it is a dead letter

	// Without a meaning in one process; kept for RocketMQ.
	ConsumeFromMinEnable           bool
	ConsumeBroadcastEnable         bool
	NotifyConsumerIDsChangedEnable bool
	BrokerID                       int64
	WhichBrokerWhenConsumeSlowly   int64
}

// DefaultSubscriptionGroup is the configuration of a group that has none.
func DefaultSubscriptionGroup(name string) SubscriptionGroupConfig {
	return SubscriptionGroupConfig{
		Name: name, ConsumeEnable: true, RetryQueueNums: 1, RetryMaxTimes: 16,
		ConsumeFromMinEnable: true, ConsumeBroadcastEnable: true, NotifyConsumerIDsChangedEnable: true, WhichBrokerWhenConsumeSlowly: 1,
	}
}

// Properties of messages that were sent back.
const (
	PropertyRetryTopic         = "RETRY_TOPIC"       // where it was first consumed from
	PropertyOriginMessageID    = "ORIGIN_MESSAGE_ID" // the offset message id that it had there
	PropertyReconsumeTime      = "RECONSUME_TIME"    // ReconsumeTimes of what is sent to a retry topic; not stored
	PropertyMaxReconsumeTimes  = "MAX_RECONSUME_TIMES"
	PropertyDLQOriginTopic     = "DLQ_ORIGIN_TOPIC"
	PropertyDLQOriginMessageID = "DLQ_ORIGIN_MESSAGE_ID"
)

// MaxRetryGroupLength limits the names of groups that have a retry topic.
const MaxRetryGroupLength = message.MaxTopicLength - len(RetryPrefix)

// CheckRetryGroup is CheckGroup for groups that have a retry topic.
func CheckRetryGroup(group string) error { return checkName("group", group, MaxRetryGroupLength) }
