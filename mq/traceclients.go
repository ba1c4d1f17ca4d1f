package mq

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/pocketmq/pocketmq/message"
)

// sent is a hook that traces what was stored.
//
// Source: RocketMQ client/trace/hook/SendMessageTraceHookImpl.java.
func (t *tracer) sent(_ context.Context, c SendContext) {
	if c.Message.Topic == t.topic || c.Result.Status == SendNotStored {
		return
	}
	now := t.producer.now()
	if c.Batch == nil {
		t.pub(&c, &c.Message, &c.Result, now)
		return
	}
	for i := range c.Results {
		t.pub(&c, c.Batch[i], &c.Results[i], now)
	}
}

func (t *tracer) pub(c *SendContext, m *message.Message, r *SendResult, now time.Time) {
	tags, _ := m.Properties.Get(message.PropertyTags)
	keys, _ := m.Properties.Get(message.PropertyKeys)
	t.add(TraceRecord{
		Type: TracePub, Timestamp: c.Began.UnixMilli(), Region: traceRegion, Group: c.Group,
		Topic: m.Topic, MsgID: r.MsgID, Tags: tags, Keys: keys,
		StoreHost: r.OffsetMsgID.Host.String(), BodyLength: len(m.Body), CostTime: now.Sub(c.Began).Milliseconds(),
		MessageType: typeOf(m.Properties), OffsetMsgID: r.OffsetMsgID.String(), Success: r.Status == SendOK,
	})
}

// transactionEnded is a hook that traces how a transaction ends, or that nobody knows it yet.
//
// Source: RocketMQ client/trace/hook/EndTransactionTraceHookImpl.java.
func (t *tracer) transactionEnded(_ context.Context, c EndTransactionContext) {
	m := &c.Message
	if m.Topic == t.topic {
		return
	}
	tags, _ := m.Properties.Get(message.PropertyTags)
	keys, _ := m.Properties.Get(message.PropertyKeys)
	t.add(TraceRecord{
		Type: TraceEndTransaction, Timestamp: t.producer.now().UnixMilli(), Region: regionOf(m.Properties), Group: c.Group,
		Topic: m.Topic, MsgID: cmp.Or(c.MsgID, c.OffsetMsgID.String()), Tags: tags, Keys: keys,
		StoreHost: c.OffsetMsgID.Host.String(), MessageType: MessageCommit,
		TransactionID: c.MsgID, TransactionState: c.State.String(), FromCheck: c.FromCheck,
	})
}

// regionOf is the region that a message came from, as far as it says so.
func regionOf(p message.Properties) string {
	region, _ := p.Get(propertyRegion)
	return cmp.Or(region, traceRegion)
}

// consumerTrace traces what a consumer hands out, and that it was committed or sent
// back. A nil one traces nothing.
//
// Source: RocketMQ client/trace/hook/ConsumeMessageTraceHookImpl.java.
type consumerTrace struct {
	t     *tracer
	group string

	mu   sync.Mutex
	open []openTrace // in the order in which they were handed out
}

// openTrace is a message that was handed out.
type openTrace struct {
	requestID, msgID, keys string
	broker                 string
	offset                 message.LogOffset
	began                  time.Time
}

// maxOpenTraces limits the messages that are remembered until they are committed.
// What goes beyond has no TraceSubAfter, and counts as a record that was dropped.
const maxOpenTraces = 4 * traceQueue

// received traces a message that is about to be handed out.
func (c *consumerTrace) received(m *message.MessageExt) {
	if c == nil || m == nil || m.Topic == c.t.topic {
		return
	}
	if on, _ := m.Properties.Get(propertyTraceOn); on == "false" {
		return
	}
	o := openTrace{
		requestID: uniqueIDs().Next().String(), msgID: m.UniqueKey(), broker: m.BrokerName, offset: m.LogOffset, began: time.Now(),
	}
	if o.msgID == "" {
		o.msgID = m.OffsetMessageID().String()
	}
	o.keys, _ = m.Properties.Get(message.PropertyKeys)
	c.t.add(TraceRecord{
		Type: TraceSubBefore, Timestamp: o.began.UnixMilli(), Region: regionOf(m.Properties), Group: c.group,
		RequestID: o.requestID, MsgID: o.msgID, RetryTimes: m.ReconsumeTimes, Keys: o.keys,
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) == maxOpenTraces {
		c.open = c.open[1:]
		c.t.drop(1, errTracesWait)
	}
	c.open = append(c.open, o)
}

// Properties by which a broker says what to trace.
const (
	propertyTraceOn = "TRACE_ON"
	propertyRegion  = "MSG_REGION"
)

// taken returns what was handed out and not ended, and forgets it.
func (c *consumerTrace) taken() []openTrace {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	open := c.open
	c.open = nil
	return open
}

// committed traces the end of what was taken, but for the brokers that did not
// accept the commit: their messages are remembered further.
func (c *consumerTrace) committed(taken []openTrace, failed map[string]bool) {
	var again []openTrace
	for i := range taken {
		if failed[taken[i].broker] {
			again = append(again, taken[i])
			continue
		}
		c.ended(&taken[i], true)
	}
	if len(again) > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open = append(again, c.open...)
	}
}

// retried traces that a message was sent back.
func (c *consumerTrace) retried(m *message.MessageExt) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.open {
		if o := c.open[i]; o.offset == m.LogOffset && o.broker == m.BrokerName {
			c.open = append(c.open[:i], c.open[i+1:]...)
			c.ended(&o, false)
			return
		}
	}
}

func (c *consumerTrace) ended(o *openTrace, success bool) {
	now := time.Now()
	r := TraceRecord{
		Type: TraceSubAfter, Timestamp: now.UnixMilli(), Group: c.group,
		RequestID: o.requestID, MsgID: o.msgID, Keys: o.keys, CostTime: now.Sub(o.began).Milliseconds(), Success: success,
	}
	if !success {
		r.ContextCode = TraceFailed
	}
	c.t.add(r)
}
