package mq

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// Defaults of ProducerConfig's limits for sends under way.
const (
	DefaultMaxAsyncSends = 1000
	DefaultMaxAsyncBytes = 64 << 20
)

// ErrTooManySends is wrapped, beside the context's error, by the error of an
// asynchronous send for which there was no room in time. Nothing was sent.
var ErrTooManySends = errors.New("too many sends under way")

// SendAsync is Send in a goroutine of its own: done gets what Send would return,
// exactly once, whatever becomes of the message. So many messages can share a
// sync. They may overtake each other; where order matters use Send or SendBatch.
//
// While ProducerConfig.MaxAsyncSends or MaxAsyncBytes are reached, SendAsync
// waits, in turn with others, until ctx ends: then done gets an error that
// matches ErrTooManySends. done is called before SendAsync returns for that and
// for what Send would refuse without asking a broker; else in the goroutine of
// the send, when its room is free again. A panic in it is caught and logged.
//
// The message may be used again on return, but its body must not change before
// done is called. Close waits for all calls of done, so done must not call it.
func (p *Producer) SendAsync(ctx context.Context, m *message.Message, done func(SendResult, error)) {
	if err := p.check(m); err != nil {
		p.call(done, SendResult{}, err)
		return
	}
	p.sendAsync(ctx, m, nil, done)
}

// SendToQueueAsync is to SendToQueue what SendAsync is to Send.
func (p *Producer) SendToQueueAsync(ctx context.Context, m *message.Message, q protocol.MessageQueue, done func(SendResult, error)) {
	if err := p.checkFor(m, q); err != nil {
		p.call(done, SendResult{}, err)
		return
	}
	p.sendAsync(ctx, m, &q, done)
}

// SendSelectedAsync is to SendSelected what SendAsync is to Send. The selector
// is asked before it returns.
func (p *Producer) SendSelectedAsync(ctx context.Context, m *message.Message, selector QueueSelector, key string,
	done func(SendResult, error),
) {
	q, err := p.checkAndChoose(ctx, m, selector, key)
	if err != nil {
		p.call(done, SendResult{}, err)
		return
	}
	p.sendAsync(ctx, m, &q, done)
}

// sendAsync sends a message that was checked.
func (p *Producer) sendAsync(ctx context.Context, m *message.Message, queue *protocol.MessageQueue, done func(SendResult, error)) {
	size := sizeOf(m)
	if err := p.permit(ctx, m.Topic, size); err != nil {
		p.call(done, SendResult{}, err)
		return
	}
	own := *m
	go func() {
		defer p.permits.finish()
		a := p.attempts(&own, queue, p.now())
		a.as(ModeAsync)
		r, err := p.sendBy(ctx, &a)
		p.permits.release(size)
		p.call(done, r, err)
	}()
}

// SendBatchAsync is to SendBatch what SendAsync is to Send. The batch takes room
// as one send, with the bytes of all its messages.
func (p *Producer) SendBatchAsync(ctx context.Context, ms []*message.Message, done func([]SendResult, error)) {
	var size int64
	err := p.checkBatch(ms)
	if err == nil {
		for _, m := range ms {
			size += sizeOf(m)
		}
		err = p.permit(ctx, ms[0].Topic, size)
	}
	if err != nil {
		p.contain(func() { done(nil, err) })
		return
	}
	own := make([]*message.Message, len(ms))
	for i, m := range ms {
		c := *m
		own[i] = &c
	}
	go func() {
		defer p.permits.finish()
		results, err := p.sendParts(ctx, own, nil, ModeAsync)
		p.permits.release(size)
		p.contain(func() { done(results, err) })
	}()
}

func sizeOf(m *message.Message) int64 { return int64(len(m.Body) + len(m.Properties)) }

// permit waits for room.
func (p *Producer) permit(ctx context.Context, topic string, size int64) error {
	err := p.permits.acquire(ctx, size)
	if err == nil || errors.Is(err, message.ErrClosed) {
		return err
	}
	return &SendError{Topic: topic, Err: err}
}

func (p *Producer) call(done func(SendResult, error), r SendResult, err error) {
	p.contain(func() { done(r, err) })
}

// contain calls a callback, and survives it.
func (p *Producer) contain(callback func()) {
	defer func() {
		if v := recover(); v != nil && p.log != nil { // the zero Producer has none
			p.log.Error("a callback of an asynchronous send panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	callback()
}

// Future is the outcome of a send that is under way.
type Future struct {
	done   chan struct{}
	result SendResult
	err    error
}

// SendFuture is SendAsync for those who ask for the outcome later.
func (p *Producer) SendFuture(ctx context.Context, m *message.Message) *Future {
	f := &Future{done: make(chan struct{})}
	p.SendAsync(ctx, m, func(r SendResult, err error) {
		f.result, f.err = r, err
		close(f.done)
	})
	return f
}

// Done is closed when there is an outcome.
func (f *Future) Done() <-chan struct{} { return f.done }

// Wait waits for the outcome, which is Send's, or until ctx ends: that is ctx's
// error, and the send goes on.
func (f *Future) Wait(ctx context.Context) (SendResult, error) {
	select {
	case <-f.done:
		return f.result, f.err
	default:
	}
	select {
	case <-f.done:
		return f.result, f.err
	case <-ctx.Done():
		return SendResult{}, ctx.Err()
	}
}

// SendOneway hands a message to a broker, once, and does not wait for a sync: nil
// says that the broker took it. Under FlushSync it is on disk with the next sync;
// a crash before that loses it. In other respects it is Send.
func (p *Producer) SendOneway(ctx context.Context, m *message.Message) error {
	if err := p.check(m); err != nil {
		return err
	}
	own := *m
	own.Properties = message.JoinProperties(own.Properties.Without(message.PropertyWait), noWait)
	a := p.attempts(&own, nil, p.now())
	a.as(ModeOneway)
	_, err := p.sendBy(ctx, &a)
	return err
}
