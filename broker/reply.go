package broker

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// pushTimeout is how long a client may take to accept a reply.
const pushTimeout = 10 * time.Second

// SendReplyMessage hands a reply to the client that asked. The checks are those
// of SendMessage; what they refuse is neither handed over nor stored. A reply that
// nobody takes is stored all the same, unless Config.NoStoreReply, but the answer
// is SystemError. One that was taken and could not be stored counts as sent.
//
// Source: RocketMQ broker/processor/ReplyMessageProcessor.java.
func (b *Broker) SendReplyMessage(ctx context.Context, req protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
	inner, err := b.admit(ctx, &req)
	if err != nil {
		return protocol.SendMessageResponse{Code: protocol.CodeOf(err)}, err
	}
	pushed := b.pushReply(ctx, &req)
	resp := protocol.SendMessageResponse{QueueID: req.QueueID}
	if b.storeReplies {
		stored, err := b.put(ctx, &req, &inner)
		if stored.Code.Stored() {
			resp = stored
		}
		if err != nil {
			b.log.Warn("reply not stored", "topic", req.Message.Topic, "err", err)
		}
	}
	resp.Code = protocol.CodeOf(pushed)
	return resp, pushed
}

// pushReply finds the client and asks it to take the reply.
func (b *Broker) pushReply(ctx context.Context, req *protocol.SendMessageRequest) error {
	id, ok := req.Message.Properties.Get(protocol.PropertyReplyToClient)
	if !ok {
		return refuse(protocol.SystemError, "", &message.IllegalError{Field: "property " + protocol.PropertyReplyToClient, Reason: "is missing"})
	}
	client, ok := b.clients.client(id)
	if !ok {
		return refuse(protocol.SystemError, "push reply message fail, channel of <"+id+"> not found", nil)
	}
	m, err := b.replyMessage(req)
	if err != nil {
		return refuse(protocol.SystemError, "", err)
	}
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	if err := client.PushReplyMessage(ctx, protocol.PushReplyMessageRequest{Message: m}); err != nil {
		return refuse(protocol.SystemError, "push reply message to "+id+" fail", err)
	}
	return nil
}

// replyMessage is the reply as the client gets it. It is in no log, and so has
// no place.
func (b *Broker) replyMessage(req *protocol.SendMessageRequest) (*message.MessageExt, error) {
	now := b.now().UnixMilli()
	p, err := req.Message.Properties.With(protocol.PropertyPushReplyTime, strconv.FormatInt(now, 10))
	if err != nil {
		return nil, err
	}
	m := &message.MessageExt{
		Message:    req.Message,
		BrokerName: b.name, QueueID: req.QueueID, SysFlag: req.SysFlag,
		BornTimestamp: req.BornTimestamp, BornHost: req.BornHost,
		StoreTimestamp: now, StoreHost: b.host, ReconsumeTimes: req.ReconsumeTimes,
	}
	m.Body, m.Properties = slices.Clone(req.Message.Body), p
	if !m.BornHost.Addr.IsValid() {
		m.BornHost = b.host
	}
	return m, nil
}

// replyTopic is the topic of the cluster's replies. Requests name it, so every
// broker has it, without a place in the file before there is a reply to store.
func (b *Broker) replyTopic() protocol.TopicConfig {
	return protocol.TopicConfig{
		Name: protocol.ReplyTopic(b.cluster), ReadQueueNums: 1, WriteQueueNums: 1, Perm: protocol.PermReadWrite,
	}
}
