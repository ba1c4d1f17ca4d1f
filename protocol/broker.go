package protocol

import (
	"context"
	"time"

	"github.com/pocketmq/pocketmq/message"
)

// Broker is what clients ask of a broker. All methods may be called
// concurrently. Refusals are a *Error.
type Broker interface {
	// SendMessage stores one message. The error is nil exactly when the
	// broker's flush promise was kept. Code.Stored() says whether the message
	// is in the log, also beside an error.
	SendMessage(ctx context.Context, req SendMessageRequest) (SendMessageResponse, error)
	// SendMessageBatch stores the messages of a batch with consecutive queue
	// offsets, all of them or none.
	SendMessageBatch(ctx context.Context, req SendMessageBatchRequest) (SendMessageBatchResponse, error)
	// Writable returns nil when the broker would store a message now, as far as
	// it knows without trying, and else why not. It is cheap: clients ask it
	// about brokers that refused a message, to learn when to come back.
	Writable(ctx context.Context) error
	// PullMessage reads messages of one queue from an offset on. When there is
	// none it waits until one arrives, req.Suspend has passed or ctx ended.
	// The answer must be released.
	PullMessage(ctx context.Context, req PullMessageRequest) (PullMessageResponse, error)

	// QueryConsumerOffset returns where a group goes on in a queue, within the
	// queue's bounds, or an error that matches QueryNotFound.
	QueryConsumerOffset(ctx context.Context, req QueryConsumerOffsetRequest) (message.QueueOffset, error)
	// UpdateConsumerOffset stores where a group goes on; a lower offset than
	// before is accepted.
	UpdateConsumerOffset(ctx context.Context, req UpdateConsumerOffsetRequest) error
	// GetMinOffset is the offset of the oldest message of a queue.
	GetMinOffset(ctx context.Context, topic string, queueID int32) (message.QueueOffset, error)
	// GetMaxOffset is the offset after the newest message that can be read.
	GetMaxOffset(ctx context.Context, topic string, queueID int32) (message.QueueOffset, error)

	// CreateTopic makes a topic or replaces its configuration. It returns when
	// the configuration is on disk.
	CreateTopic(ctx context.Context, topic TopicConfig) error
	// GetTopic returns a topic's configuration, or an error that matches
	// TopicNotExist.
	GetTopic(ctx context.Context, topic string) (TopicConfig, error)
	// ListTopics returns all topics but the broker's own, sorted by name.
	ListTopics(ctx context.Context) ([]TopicConfig, error)

	Retries
	Clients
	Timers
	Replies
	Admin
}

// SendMessageRequest is one message on its way to a queue.
type SendMessageRequest struct {
	Group         string
	Message       message.Message // the body is not kept beyond the call
	QueueID       int32           // negative: one of the broker's choice
	SysFlag       message.SysFlag
	BornTimestamp int64 // ms since the Unix epoch
	BornHost      message.Host

	// DefaultTopic is the template and DefaultTopicQueueNums the number of
	// queues wanted when the topic is made by this request.
	DefaultTopic          string
	DefaultTopicQueueNums int32
	UnitMode              bool // such a topic is one of a unit: see TopicConfig.SysFlag

	// ReconsumeTimes is how often the message came again so far. In a retry topic,
	// more than MaxReconsumeTimes make it a dead letter; 0 is the group's maximum.
	ReconsumeTimes    int32
	MaxReconsumeTimes int32
}

// SendMessageResponse says where the message is. The rest is set when
// Code.Stored().
type SendMessageResponse struct {
	Code           ResponseCode
	MessageID      message.OffsetMessageID
	QueueID        int32
	QueueOffset    message.QueueOffset
	StoreTimestamp int64  // ms since the Unix epoch
	RecallHandle   string // of a message that waits for its time: see RecallHandle
}

// SendMessageBatchRequest is a batch on its way to a queue: Message.Body holds
// elements by message.AppendBatchElement, Message.Properties what they have in
// common.
type SendMessageBatchRequest struct {
	SendMessageRequest
}

// SendMessageBatchResponse says where the messages are; they follow each other
// in the queue. The rest is set when Code.Stored().
type SendMessageBatchResponse struct {
	Code           ResponseCode
	StoreHost      message.Host
	Offsets        []message.LogOffset // one per message; the receiver's
	QueueID        int32
	QueueOffset    message.QueueOffset // of the first message
	StoreTimestamp int64               // ms since the Unix epoch
}

// PullMessageRequest asks for messages of a queue.
type PullMessageRequest struct {
	Group         string
	Topic         string
	QueueID       int32
	Offset        message.QueueOffset
	MaxMessages   int    // 0: the broker's choice
	MaxBytes      int    // 0: the broker's choice; one message always fits
	TagExpression string // as in message.ParseTagFilter; hashes are compared, so more may match

	// Suspend is how long to wait for a message when there is none; 0 answers
	// at once.
	Suspend time.Duration
}

// PullMessageResponse has the messages that were found, and where to go on.
type PullMessageResponse struct {
	Code            ResponseCode // Success, PullNotFound, PullRetryImmediately or PullOffsetMoved
	Status          string       // RocketMQ's name of the store's status, for logs
	NextBeginOffset message.QueueOffset
	MinOffset       message.QueueOffset
	MaxOffset       message.QueueOffset

	// Lost, if not nil, says why there are records between the request's offset
	// and NextBeginOffset that nobody can read. Then there are no messages.
	Lost error

	// Messages are valid until Release. Reading them may fault when a file was
	// truncated from outside or its medium failed: copy under a guard.
	Messages []message.View
	// Release gives the memory back; nil when there is nothing to give back.
	Release func()
}

// QueryConsumerOffsetRequest names a group and a queue.
type QueryConsumerOffsetRequest struct {
	Group   string
	Topic   string
	QueueID int32
}

// UpdateConsumerOffsetRequest says where a group goes on in queues of a topic.
type UpdateConsumerOffsetRequest struct {
	Group   string
	Topic   string
	Offsets []QueuePosition

	// Sync asks to answer when the offsets are on disk; else they are within
	// the broker's interval.
	Sync bool
}

// QueuePosition says where a group goes on in a queue.
type QueuePosition struct {
	QueueID int32
	Offset  message.QueueOffset // of the next message to consume: one more than the last one consumed
}
