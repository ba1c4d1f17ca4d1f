package mq

import (
	"context"
	"sync"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// SendBatch stores messages of one topic in one queue, in their order, and
// returns a result for each that was stored, in that order. A batch that would
// be larger than MaxMessageSize is sent in parts: each part is stored as a
// whole or not at all and its messages have consecutive queue offsets, but
// messages of others may come between parts, and an error may leave the first
// parts stored. All messages are checked before the first is sent; the error
// then says which one is refused.
//
// Errors are those of Send. Messages beyond len(results) are not stored, in the
// sense of SendNotStored; the last results may have a Status that says that the
// promise was not kept.
func (p *Producer) SendBatch(ctx context.Context, ms []*message.Message) ([]SendResult, error) {
	return p.sendBatch(ctx, ms, nil)
}

// SendBatchToQueue is SendBatch to a given queue, without retries.
func (p *Producer) SendBatchToQueue(ctx context.Context, ms []*message.Message, q protocol.MessageQueue) ([]SendResult, error) {
	return p.sendBatch(ctx, ms, &q)
}

// sendBatch sends to queue or to one of its choice.
func (p *Producer) sendBatch(ctx context.Context, ms []*message.Message, queue *protocol.MessageQueue) ([]SendResult, error) {
	if err := p.checkBatch(ms); err != nil {
		return nil, err
	}
	if queue != nil && p.ns.unwrap(queue.Topic) != p.ns.unwrap(ms[0].Topic) {
		return nil, notOfQueue(ms[0].Topic, *queue)
	}
	return p.sendParts(ctx, ms, queue, ModeSync)
}

func (p *Producer) checkBatch(ms []*message.Message) error {
	if err := p.running(); err != nil {
		return err
	}
	if err := checkBatch(ms, p.maxSize); err != nil {
		return err
	}
	for i, m := range ms {
		if err := p.ns.checkMessage(m); err != nil {
			return batchError(i, err)
		}
	}
	return nil
}

// sendParts sends a batch that was checked.
func (p *Producer) sendParts(ctx context.Context, ms []*message.Message, queue *protocol.MessageQueue, mode SendMode) ([]SendResult, error) {
	ms, err := p.batchInContext(ctx, ms)
	if err != nil {
		return nil, err
	}
	results := make([]SendResult, 0, len(ms))
	for len(results) < len(ms) {
		if results, err = p.sendPart(ctx, ms, results, queue, mode); err != nil {
			return results, err
		}
		queue = &results[0].Queue // all parts go where the first went
	}
	return results, nil
}

// batchBuffers hold encoded batches. A broker does not keep them.
var batchBuffers = sync.Pool{New: func() any { return new([]byte) }}

// sendPart sends as many of the messages after the first len(results) as fit
// one batch, and appends their results.
func (p *Producer) sendPart(ctx context.Context, ms []*message.Message, results []SendResult, queue *protocol.MessageQueue,
	mode SendMode,
) ([]SendResult, error) {
	buf := batchBuffers.Get().(*[]byte)
	defer batchBuffers.Put(buf)
	*buf = (*buf)[:0]
	before := len(results)
	size := 0
	for _, m := range ms[before:] {
		part := message.Message{Topic: m.Topic, Flag: m.Flag, Body: m.Body}
		var key string
		part.Properties, key = uniqueIDs().AddTo(p.ns.mark(m.Properties.Without(message.PropertyWait)))
		need := recordSize(&part) + p.ns.adds(part.Topic)
		if size > 0 && size+need > p.maxSize {
			break
		}
		encoded, err := message.AppendBatchElement(*buf, &part)
		if err != nil {
			return results[:before], batchError(len(results), err)
		}
		*buf = encoded
		size += need
		results = append(results, SendResult{MsgID: key})
	}
	if len(results) == before+1 {
		// One message alone is sent as one: it may be as large as a message
		// may be, which as an element of a batch it could not.
		a := p.attempts(withKey(ms[before], results[before].MsgID), queue, p.now())
		a.as(mode)
		r, err := p.sendBy(ctx, &a)
		if r.Status == SendNotStored {
			return results[:before], err
		}
		results[before] = r
		return results, err
	}
	return p.sendEncoded(ctx, ms[before:len(results)], *buf, results, before, queue, mode)
}

// brokerAdds is what a broker may add to a record: wider hosts, and the
// property CLUSTER.
const brokerAdds = 2*(16-4) + clusterLength

// recordSize is what a message takes in the log at most.
func recordSize(m *message.Message) int {
	return message.MinRecordSize + brokerAdds + len(m.Topic) + len(m.Body) + len(m.Properties)
}

// withKey is m with the unique key that was made for it.
func withKey(m *message.Message, key string) *message.Message {
	c := *m
	if c.UniqueKey() == "" {
		if p, err := c.Properties.With(message.PropertyUniqueKey, key); err == nil {
			c.Properties = p
		}
	}
	return &c
}

// sendEncoded sends the batch ms for results[before:] and fills them in.
func (p *Producer) sendEncoded(ctx context.Context, ms []*message.Message, body []byte, results []SendResult, before int,
	queue *protocol.MessageQueue, mode SendMode,
) ([]SendResult, error) {
	first := ms[0]
	now := p.now()
	req := protocol.SendMessageBatchRequest{SendMessageRequest: p.request(first.Topic, now)}
	req.Message.Body = body
	if !waits(first.Properties) {
		req.Message.Properties = noWait
	}
	done := before
	a := p.attempts(first, queue, now)
	a.batch = ms
	a.as(mode)
	for a.next(ctx) {
		req.QueueID = a.queue.QueueID
		resp, err := a.broker.SendMessageBatch(a.ctx, req)
		if !a.done(ctx, resp.Code, err) {
			a.observe(ctx, SendResult{}, err)
			continue
		}
		for i := range results[before:] {
			r := &results[before+i]
			*r = a.result(r.MsgID, resp.Code)
			if a.queue.QueueID < 0 {
				r.Queue.QueueID = resp.QueueID
			}
			r.OffsetMsgID = message.OffsetMessageID{Host: resp.StoreHost, Offset: resp.Offsets[i]}
			r.QueueOffset = resp.QueueOffset + message.QueueOffset(i)
		}
		done = len(results)
		a.observeBatch(ctx, results[before:], err)
	}
	return results[:done], a.err()
}

const noWait message.Properties = message.PropertyWait + "\x01false"
