package mq

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// ErrForbidden is wrapped by the error of a send that one of
// ProducerConfig.CheckForbidden refused, beside its own error.
var ErrForbidden = errors.New("forbidden")

// SendMode is how a message is sent. Its text is RocketMQ's name.
type SendMode uint8

// The modes.
const (
	ModeSync   SendMode = iota // the caller waits
	ModeAsync                  // a callback or a future gets the result
	ModeOneway                 // nobody waits for a sync
)

func (m SendMode) String() string {
	if names := []string{"SYNC", "ASYNC", "ONEWAY"}; int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("SendMode(%d)", uint8(m))
}

// MessageType is what a message is to RocketMQ's traces, by these numbers.
type MessageType uint8

// The types. Producers send no MessageCommit.
const (
	MessageNormal MessageType = iota
	MessageHalf               // the first half of a transaction
	MessageCommit
	MessageDelay
)

// SendContext is one attempt to send a message, as hooks see it.
type SendContext struct {
	Group   string
	Mode    SendMode
	Message message.Message    // before it is compressed; of a batch, the first. Its body must not change
	Batch   []*message.Message // not nil for a batch: all of its messages
	Type    MessageType
	Queue   protocol.MessageQueue
	Attempt int // counts from 1
	Began   time.Time

	// For After: the result, of the first message of a batch, and the broker's
	// error as it came. Result is zero for what was not stored.
	Result  SendResult
	Results []SendResult // of a batch: one for each message of Batch, if they were stored
	Err     error
}

// SendMessageHook is called around each attempt. Either function may be nil. A
// panic in one is caught and logged; neither can change what is sent.
//
// Source: RocketMQ client/hook/SendMessageHook.java.
type SendMessageHook struct {
	Before func(context.Context, SendContext)
	After  func(context.Context, SendContext)
}

// typeOf is the type of a message with these properties. A delay counts most.
func typeOf(p message.Properties) MessageType {
	t := MessageNormal
	for name, value := range p.All() {
		switch name {
		case message.PropertyDelayLevel, propertyStartDeliverTime, message.PropertyTimerDeliverMillis,
			message.PropertyTimerDelayMillis, message.PropertyTimerDelaySeconds:
			return MessageDelay
		case propertyTransaction:
			if strings.EqualFold(value, "true") {
				t = MessageHalf
			}
		}
	}
	return t
}

const (
	propertyStartDeliverTime = "__STARTDELIVERTIME"
	propertyTransaction      = "TRAN_MSG"
)

// hooks are what a producer calls for each attempt.
type hooks struct {
	forbidden []func(context.Context, SendContext) error
	around    []SendMessageHook
}

func (h *hooks) none() bool { return len(h.forbidden) == 0 && len(h.around) == 0 }

// check asks whether the attempt may be made.
func (h *hooks) check(ctx context.Context, c *SendContext) error {
	for _, forbidden := range h.forbidden {
		if err := checkOne(ctx, forbidden, *c); err != nil {
			return fmt.Errorf("%w: %w", ErrForbidden, err)
		}
	}
	return nil
}

// checkOne makes a refusal of a panic: nobody knows what it would have said.
func checkOne(ctx context.Context, forbidden func(context.Context, SendContext) error, c SendContext) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError(errHookPanicked, v)
		}
	}()
	return forbidden(ctx, c)
}

var errHookPanicked = errors.New("the hook panicked")

// begin is the attempt that is about to be made, or the error of a hook that
// forbids it. It is nil where nobody wants to know.
func (a *attempts) begin(ctx context.Context) (*SendContext, error) {
	h := &a.p.hooks
	if h.none() {
		return nil, nil
	}
	c := &SendContext{
		Group: a.p.group, Mode: a.mode, Message: a.message, Batch: a.batch, Type: typeOf(a.message.Properties),
		Queue: a.queue, Attempt: a.made + 1, Began: a.now,
	}
	if err := h.check(ctx, c); err != nil {
		return nil, err
	}
	for _, hook := range h.around {
		a.p.callHook(ctx, hook.Before, *c)
	}
	return c, nil
}

// observe tells hooks what became of the attempt.
func (a *attempts) observe(ctx context.Context, r SendResult, err error) {
	if a.seen == nil {
		return
	}
	a.seen.Result, a.seen.Err = r, err
	for _, hook := range a.p.hooks.around {
		a.p.callHook(ctx, hook.After, *a.seen)
	}
}

// observeBatch is observe for a batch that was stored.
func (a *attempts) observeBatch(ctx context.Context, results []SendResult, err error) {
	if a.seen == nil {
		return
	}
	a.seen.Results = slices.Clone(results)
	a.observe(ctx, results[0], err)
}

// callHook calls a hook, and survives it.
func (p *Producer) callHook(ctx context.Context, hook func(context.Context, SendContext), c SendContext) {
	if hook == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			p.log.Error("a hook of a send panicked", "queue", c.Queue.String(),
				"panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	hook(ctx, c)
}
