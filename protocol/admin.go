package protocol

import (
	"context"

	"github.com/pocketmq/pocketmq/message"
)

// Admin is what people and tools ask of a broker. It is a part of Broker. What it
// returns is the caller's.
//
// Source: RocketMQ broker/processor/AdminBrokerProcessor.java.
type Admin interface {
	// DeleteTopic removes a topic with its messages and the groups' offsets in it.
	// It returns when that is on disk. Sends and pulls then match TopicNotExist; a
	// topic that is made again with the name begins empty, and goes on with the
	// numbers of its queues. The log's space comes back by retention only. An
	// unknown topic is an error that matches TopicNotExist.
	DeleteTopic(ctx context.Context, topic string) error
	// TopicStats tells of each queue of a topic, in order.
	TopicStats(ctx context.Context, topic string) ([]QueueStats, error)
	// SearchOffset is the offset of a queue's first message that was stored at or
	// after a time, in ms since the Unix epoch; the queue's end when there is none.
	SearchOffset(ctx context.Context, topic string, queueID int32, time int64) (message.QueueOffset, error)

	// ListGroups returns the groups that have a configuration or offsets, sorted by
	// name; those without a configuration with the default one.
	ListGroups(ctx context.Context) ([]SubscriptionGroupConfig, error)
	// DeleteGroup removes a group's configuration and all its offsets; its retry
	// and dead letter topics stay. It returns when that is on disk. An unknown
	// group is an error that matches SubscriptionGroupNotExist.
	DeleteGroup(ctx context.Context, group string) error
	// ConsumeStats tells how far a group is, by topic and queue, in a topic or,
	// where that is empty, in all in which it has offsets. The error matches
	// SubscriptionGroupNotExist when nothing is known of the group, and
	// TopicNotExist for an unknown topic.
	ConsumeStats(ctx context.Context, group, topic string) ([]ConsumeStats, error)
	// ResetOffset says where a group goes on in a topic, and returns what it now
	// has there. It returns when that is on disk. Consumers that run and have
	// registered go on there as well; what they have handed out stays handed out. An
	// error with a result says which of them does not.
	ResetOffset(ctx context.Context, req ResetOffsetRequest) ([]QueuePosition, error)
	// CloneOffsets gives a group the offsets that another one has. It returns when
	// they are on disk.
	CloneOffsets(ctx context.Context, req CloneOffsetsRequest) error

	// ProducerConnections lists the ids of the clients that have a producer of a
	// group, sorted; SystemError when there is none.
	ProducerConnections(ctx context.Context, group string) ([]string, error)
	// ConsumerConnections lists the ids of the clients that have a consumer of a
	// group, sorted; ConsumerNotOnline when there is none.
	ConsumerConnections(ctx context.Context, group string) ([]string, error)
	// ConsumeTimeSpans tells, for each queue of a topic that can be read, from when
	// its messages are and how far in time a group is.
	ConsumeTimeSpans(ctx context.Context, group, topic string) ([]ConsumeTimeSpan, error)

	// QueryMessage finds messages by key, oldest first. They are as stored: a body
	// is compressed if the message's SysFlag says so. An error matches QueryNotFound
	// when there is none. What was sent a moment ago may not be indexed yet.
	QueryMessage(ctx context.Context, req QueryMessageRequest) ([]message.MessageExt, error)
	// ViewMessage returns the message that begins at the offset of an id, if it has
	// the id's store host. The error matches SystemError, and message.ErrOffsetNotFound when
	// no message begins there, message.ErrCorrupt when it is damaged, or
	// message.ErrIllegal when the id is of another store.
	ViewMessage(ctx context.Context, id message.OffsetMessageID) (message.MessageExt, error)

	// RuntimeInfo is how the broker is, under RocketMQ's keys.
	RuntimeInfo(ctx context.Context) (map[string]string, error)
}

// QueueStats is a queue of a topic.
//
// Source: RocketMQ common/admin/TopicOffset.java.
type QueueStats struct {
	QueueID    int32
	MinOffset  message.QueueOffset // of the first message
	MaxOffset  message.QueueOffset // of the next message
	LastUpdate int64               // store time of the last message, in ms since the Unix epoch; 0 when there is none
}

// ConsumeStats is how far a group is in a queue.
//
// Source: RocketMQ common/admin/OffsetWrapper.java.
type ConsumeStats struct {
	Topic          string
	QueueID        int32
	BrokerOffset   message.QueueOffset // of the next message to be sent
	ConsumerOffset message.QueueOffset // of the next message to be consumed, within the queue's bounds; of the first one without an offset
	LastTimestamp  int64               // store time of the message consumed last, in ms since the Unix epoch; 0 when it is gone
}

// ConsumeTimeSpan is from when the messages of a queue are, as a group sees it. All
// is in ms, times since the Unix epoch; 0 where there is nothing.
//
// Source: RocketMQ common/protocol/body/QueueTimeSpan.java.
type ConsumeTimeSpan struct {
	QueueID  int32
	Earliest int64 // store time of the first message
	Latest   int64 // of the last one
	Consumed int64 // of the one that was consumed last, of the first when none was
	Delay    int64 // how long the next message to be consumed has been there
}

// Lag is how many messages the group has still to read.
func (s ConsumeStats) Lag() int64 { return int64(s.BrokerOffset - s.ConsumerOffset) }

// EndOfQueue as ResetOffsetRequest.Time is the end of each queue.
const EndOfQueue int64 = -1

// ResetOffsetRequest says where a group goes on.
//
// Source: RocketMQ common/protocol/header/ResetOffsetRequestHeader.java.
type ResetOffsetRequest struct {
	Group string
	Topic string

	// Positions, if not nil, are the offsets of some queues; the others stay. Else
	// it is, in all queues, the first message stored at or after Time, in ms since
	// the Unix epoch; 0 is the first one, EndOfQueue is behind the last one.
	Positions []QueuePosition
	Time      int64

	// Force also moves a group forward, past what it has not consumed, and gives
	// offsets to one that has none in the topic. Without it a queue that would go
	// forward stays as it is, and a group without offsets is refused with
	// SystemError.
	Force bool
}

// CloneOffsetsRequest names the group that has offsets, and the one that gets
// them: in a topic, or in all where it is empty.
//
// Source: RocketMQ common/protocol/header/CloneGroupOffsetRequestHeader.java.
type CloneOffsetsRequest struct {
	From, To string
	Topic    string
}

// DefaultQueryNum is QueryMessageRequest.MaxNum when that is zero.
const DefaultQueryNum = 32

// QueryMessageRequest says which messages are looked for.
//
// Source: RocketMQ common/protocol/header/QueryMessageRequestHeader.java.
type QueryMessageRequest struct {
	Topic string
	Key   string // a word of the property KEYS, or a unique key

	// Unique says that Key is a unique key. Then the answer is one message, the one
	// stored first, and the other fields do not count: a producer that tried again
	// has sent the same message.
	Unique bool

	// MaxNum is the most messages wanted: the newest that many.
	MaxNum int
	// Begin and End bound the store time, both included, in ms since the Unix epoch.
	// End 0 is no bound.
	Begin, End int64
}

// Keys of RuntimeInfo that tools of RocketMQ read.
const (
	InfoVersion       = "brokerVersionDesc"
	InfoPutTPS        = "putTps"           // messages stored per second, over 10 s, 1 min and 10 min
	InfoTransferedTPS = "getTransferedTps" // messages read per second, likewise
)
