package protocol

import (
	"context"

	"github.com/pocketmq/pocketmq/message"
)

// Client is what a broker asks of a client, the reverse of Broker. A broker knows
// it by RegisterClient. All methods may be called concurrently, and must not call
// back into the broker before they return.
type Client interface {
	// CheckTransactionState asks what became of the transaction of a half message.
	// It returns as soon as the question is accepted; the answer is an
	// EndTransaction with FromCheck. An error says that this client will not
	// answer, so that the broker asks another one of the group.
	CheckTransactionState(ctx context.Context, req CheckTransactionStateRequest) error
	// PushReplyMessage hands over the reply to a request of this client. An error
	// says that nobody takes it any more.
	PushReplyMessage(ctx context.Context, req PushReplyMessageRequest) error
	// ResetConsumerOffset says that a group goes on elsewhere in some queues. When it
	// returns, this client's consumer hands out nothing from before any more, and
	// commits nothing. What was handed out already is with the application.
	ResetConsumerOffset(ctx context.Context, req ResetConsumerOffsetRequest) error
}

// Clients is what clients tell a broker about themselves. It is a part of Broker.
type Clients interface {
	// RegisterClient makes a client known, so that the broker can ask it things,
	// or replaces all that is known about it (RocketMQ's heartbeat). It is forgotten
	// by UnregisterClient and when the broker ends.
	RegisterClient(ctx context.Context, req RegisterClientRequest) error
	// UnregisterClient forgets a client. An unknown one is no error.
	UnregisterClient(ctx context.Context, clientID string) error
}

// RegisterClientRequest says who a client is.
//
// Source: RocketMQ common/protocol/heartbeat/HeartbeatData.java.
type RegisterClientRequest struct {
	ClientID       string   // unique among the clients of the brokers
	ProducerGroups []string // the receiver's from now on, like the next
	ConsumerGroups []string
	Client         Client
}

// CheckTransactionStateRequest is a half message whose end the broker has not
// heard of.
//
// Source: RocketMQ common/protocol/header/CheckTransactionStateRequestHeader.java.
type CheckTransactionStateRequest struct {
	Broker string // the name of the broker that asks, which gets the answer
	Group  string // the producer group that sent it
	// Message is the message as it was sent, with its topic and queue; the
	// receiver's. LogOffset, QueueOffset and OffsetMsgID are those of the half
	// message, which the answer repeats.
	Message *message.MessageExt
}

// ResetConsumerOffsetRequest says where a consumer goes on.
//
// Source: RocketMQ common/protocol/header/ResetOffsetRequestHeader.java, and
// body/ResetOffsetBody.java.
type ResetConsumerOffsetRequest struct {
	Broker    string // the name of the broker that has the queues
	Group     string
	Topic     string
	Positions []QueuePosition // the receiver's
}

// PushReplyMessageRequest is the reply to a request.
//
// Source: RocketMQ common/protocol/header/ReplyMessageRequestHeader.java.
type PushReplyMessageRequest struct {
	Message *message.MessageExt // the receiver's; its properties have the correlation id
}
