package golden

import (
	"fmt"

	"github.com/pocketmq/pocketmq/message"
)

// Body is the body as bytes; nil for a null body.
func (p *Payload) Body() []byte {
	switch {
	case p.BodyBase64 != nil:
		return *p.BodyBase64
	case p.BodyZeros > 0:
		return make([]byte, p.BodyZeros)
	}
	return nil
}

// Delayed reports whether RocketMQ rewrites the message for its delay level,
// which the map decides and not the string.
func (p *Put) Delayed() bool {
	return p.DelayLevel > 0 && message.SysFlag(p.SysFlag).Queued()
}

// Batch reports whether the put is a batch.
func (p *Put) Batch() bool { return p.Op == "putBatch" }

// Placed reports whether RocketMQ put records of its own into the log.
func (p *Put) Placed() bool {
	return p.Result.AppendStatus != nil && *p.Result.AppendStatus == "PUT_OK" && p.Result.WroteBytes > 0
}

// Message is the input as PocketMQ's store takes it. A batch has its encoded
// elements as body.
func (p *Put) Message() (message.MessageExtBrokerInner, error) {
	born, err := message.ParseHost(p.BornHost)
	if err != nil {
		return message.MessageExtBrokerInner{}, fmt.Errorf("put %d: %w", p.N, err)
	}
	host, err := message.ParseHost(p.StoreHost)
	if err != nil {
		return message.MessageExtBrokerInner{}, fmt.Errorf("put %d: %w", p.N, err)
	}
	body := p.Body()
	if p.Batch() {
		if body, err = p.EncodedBatch(); err != nil {
			return message.MessageExtBrokerInner{}, fmt.Errorf("put %d: %w", p.N, err)
		}
	}
	return message.MessageExtBrokerInner{
		MessageExt: message.MessageExt{
			Message: message.Message{
				Topic: p.Topic, Flag: p.Flag, Body: body, Properties: message.Properties(p.PropertiesString),
			},
			QueueID:                   p.QueueID,
			SysFlag:                   message.SysFlag(p.SysFlag),
			BornTimestamp:             p.BornTimestamp,
			BornHost:                  born,
			StoreHost:                 host,
			ReconsumeTimes:            p.ReconsumeTimes,
			PreparedTransactionOffset: message.LogOffset(p.PreparedTransactionOffset),
		},
		NoWait: !p.WaitStoreMsgOK,
	}, nil
}

// EncodedBatch encodes the elements of a batch.
func (p *Put) EncodedBatch() ([]byte, error) {
	var b []byte
	for i := range p.Elements {
		e := &p.Elements[i]
		var err error
		b, err = message.AppendBatchElement(b, &message.Message{
			Flag: e.Flag, Body: e.Body(), Properties: message.Properties(e.PropertiesString),
		})
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return b, nil
}
