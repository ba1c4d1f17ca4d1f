package protocol

import (
	"context"
	"strings"
)

// Replies is what clients ask of a broker to answer requests. It is a part of
// Broker.
type Replies interface {
	// SendReplyMessage hands a reply, a message with the properties of a reply, to
	// the client that its property REPLY_TO_CLIENT names, and stores it in the reply
	// topic if the broker is configured to. The error is nil exactly when the client
	// has taken it, whatever became of the copy: without one, MessageID and
	// QueueOffset of the response are zero.
	SendReplyMessage(ctx context.Context, req SendMessageRequest) (SendMessageResponse, error)
}

// Properties of requests and their replies.
const (
	PropertyCluster       = "CLUSTER"         // of the broker that stored the message, which adds it
	PropertyCorrelationID = "CORRELATION_ID"  // of the request; its reply has the same
	PropertyReplyToClient = "REPLY_TO_CLIENT" // the client id of who waits for the reply
	PropertyTTL           = "TTL"             // how long it waits, in milliseconds
	PropertyMessageType   = "MSG_TYPE"        // MessageTypeReply for replies
	PropertyPushReplyTime = "PUSH_REPLY_TIME" // when the broker handed the reply over, ms since the Unix epoch
	PropertyArriveTime    = "ARRIVE_TIME"     // when the client took it
	MessageTypeReply      = "reply"           // the value of PropertyMessageType
	replyTopicSuffix      = "_REPLY_TOPIC"    // after the name of the cluster
)

// ReplyTopic is the topic of the replies to requests that the brokers of a
// cluster stored.
func ReplyTopic(cluster string) string { return cluster + replyTopicSuffix }

// IsReplyTopic reports whether a topic is that of the replies of some cluster.
func IsReplyTopic(topic string) bool { return strings.HasSuffix(topic, replyTopicSuffix) }
