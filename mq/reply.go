package mq

import (
	"context"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// Reply answers a request that a consumer received, by CreateReply. It returns
// nil when who asked has taken the reply, and else a *SendError whose cause the
// broker gives: it waits no longer, or is gone, or the broker could not be asked.
func (p *Producer) Reply(ctx context.Context, request *message.MessageExt, body []byte) (SendResult, error) {
	if err := p.running(); err != nil {
		return SendResult{}, err
	}
	m, err := CreateReply(request, body)
	if err != nil {
		return SendResult{}, err
	}
	return p.Send(ctx, m)
}

// CreateReply makes the reply to a request that a consumer received, for any
// producer to send; more properties may be added. The body is not copied. The
// error has the code protocol.CreateReplyMessage when the message is no request,
// and wraps a *message.IllegalError that names what is missing.
//
// Source: RocketMQ client/utils/MessageUtil.java, createReplyMessage.
func CreateReply(request *message.MessageExt, body []byte) (*message.Message, error) {
	if request == nil {
		return nil, noReply(&message.IllegalError{Field: "request", Reason: "is nil"})
	}
	cluster, ok := request.Properties.Get(protocol.PropertyCluster)
	if !ok {
		return nil, noReply(missing(protocol.PropertyCluster, "which the broker adds that stored a request"))
	}
	p, err := message.NewProperties(protocol.PropertyMessageType, protocol.MessageTypeReply)
	if err != nil {
		return nil, noReply(err)
	}
	for _, name := range []string{protocol.PropertyCorrelationID, protocol.PropertyReplyToClient, protocol.PropertyTTL} {
		value, ok := request.Properties.Get(name)
		if !ok && name != protocol.PropertyTTL {
			return nil, noReply(missing(name, "which a request has"))
		}
		if !ok {
			continue
		}
		if p, err = p.With(name, value); err != nil {
			return nil, noReply(err)
		}
	}
	return &message.Message{Topic: protocol.ReplyTopic(cluster), Body: body, Properties: p}, nil
}

func missing(property, who string) error {
	return &message.IllegalError{Field: "property " + property, Reason: "is missing, " + who}
}

func noReply(err error) error { return &protocol.Error{Code: protocol.CreateReplyMessage, Err: err} }

// isReply reports whether a message is a reply, which a broker hands over.
func isReply(m *message.Message) bool {
	kind, _ := m.Properties.Get(protocol.PropertyMessageType)
	return kind == protocol.MessageTypeReply
}

// sendMessage makes the attempt. A reply goes to who asked.
func (a *attempts) sendMessage(req protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
	if a.reply {
		return a.broker.SendReplyMessage(a.ctx, req)
	}
	return a.broker.SendMessage(a.ctx, req)
}

// refusedReply reports whether the answer says that who asked does not take the
// reply: it tells nothing about the broker, and others would say the same.
func (a *attempts) refusedReply(code protocol.ResponseCode, err error) bool {
	return a.reply && code == protocol.SystemError && !protocol.Overloaded(err)
}
