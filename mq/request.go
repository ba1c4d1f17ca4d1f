package mq

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// DefaultRequestTimeout is how long a request waits for its reply when its context
// has no deadline.
const DefaultRequestTimeout = 3 * time.Second

// RequestError says why a request got no reply. It wraps the *SendError of a
// message that could not be sent; what ended the wait for a reply, which matches
// protocol.RequestTimeout when its time was over; or message.ErrClosed, when the
// producer was closed meanwhile. In the last two cases somebody may have received
// the request, or may yet.
type RequestError struct {
	Topic         string
	CorrelationID string
	Err           error
}

func (e *RequestError) Error() string {
	return fmt.Sprintf("request %s to topic %s: %v", e.CorrelationID, e.Topic, e.Err)
}

// Unwrap returns why.
func (e *RequestError) Unwrap() error { return e.Err }

// Request sends a message and returns the reply to it: what a consumer of the
// topic makes of the message by Producer.Reply, with the same correlation id. The
// reply is the caller's; it is in no queue, so that it has no offsets.
//
// It waits until ctx ends, or for DefaultRequestTimeout when ctx has no deadline:
// then the error, a *RequestError, has the code protocol.RequestTimeout. A reply
// that comes later is dropped, and who sent it gets an error. What Send would
// refuse without asking a broker has Send's errors.
//
// Source: RocketMQ client/impl/producer/DefaultMQProducerImpl.java, request.
func (p *Producer) Request(ctx context.Context, m *message.Message) (*message.MessageExt, error) {
	if err := p.check(m); err != nil {
		return nil, err
	}
	return p.exchange(ctx, m, nil)
}

// RequestToQueue is Request by a message to a given queue, like SendToQueue.
func (p *Producer) RequestToQueue(ctx context.Context, m *message.Message, q protocol.MessageQueue) (*message.MessageExt, error) {
	if err := p.checkFor(m, q); err != nil {
		return nil, err
	}
	return p.exchange(ctx, m, &q)
}

// RequestSelected is Request by a message to the queue that the selector chooses
// for the key, like SendSelected.
func (p *Producer) RequestSelected(ctx context.Context, m *message.Message, selector QueueSelector, key string) (*message.MessageExt, error) {
	q, err := p.checkAndChoose(ctx, m, selector, key)
	if err != nil {
		return nil, err
	}
	return p.exchange(ctx, m, &q)
}

// RequestAsync is Request with a callback: done gets what Request would return,
// exactly once. It takes room among the asynchronous sends until its message is
// sent, as SendAsync does; while it waits for the reply it has no goroutine.
//
// done is called before RequestAsync returns for what Send would refuse without
// asking a broker, else in a goroutine of its own. A panic in it is caught and
// logged. Close ends requests that wait, with message.ErrClosed, and waits for all
// calls of done, so done must not call it.
func (p *Producer) RequestAsync(ctx context.Context, m *message.Message, done func(*message.MessageExt, error)) {
	if err := p.check(m); err != nil {
		p.contain(func() { done(nil, err) })
		return
	}
	p.requestAsync(ctx, m, nil, done)
}

// RequestToQueueAsync is to RequestToQueue what RequestAsync is to Request.
func (p *Producer) RequestToQueueAsync(ctx context.Context, m *message.Message, q protocol.MessageQueue,
	done func(*message.MessageExt, error),
) {
	if err := p.checkFor(m, q); err != nil {
		p.contain(func() { done(nil, err) })
		return
	}
	p.requestAsync(ctx, m, &q, done)
}

// RequestSelectedAsync is to RequestSelected what RequestAsync is to Request. The
// selector is asked before it returns.
func (p *Producer) RequestSelectedAsync(ctx context.Context, m *message.Message, selector QueueSelector, key string,
	done func(*message.MessageExt, error),
) {
	q, err := p.checkAndChoose(ctx, m, selector, key)
	if err != nil {
		p.contain(func() { done(nil, err) })
		return
	}
	p.requestAsync(ctx, m, &q, done)
}

// question is a request on its way.
type question struct {
	message *message.Message // the producer's own, with the properties of a request
	id      string           // the correlation id
	began   time.Time
}

func (q *question) failed(err error) error {
	return &RequestError{Topic: q.message.Topic, CorrelationID: q.id, Err: err}
}

// over is why a request ends that was sent and whose context has ended.
func (q *question) over(ctx context.Context) error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		waited := time.Since(q.began).Round(time.Millisecond)
		return &protocol.Error{Code: protocol.RequestTimeout, Remark: "no reply within " + waited.String(), Err: err}
	}
	return err
}

// ask makes a request of a message that was checked. ctx has a deadline.
func (p *Producer) ask(ctx context.Context, m *message.Message) (*question, error) {
	own := *m
	q := &question{message: &own, id: newCorrelationID(), began: time.Now()}
	deadline, _ := ctx.Deadline()
	ttl := max(time.Until(deadline).Milliseconds(), 1)
	var err error
	for _, nv := range [...][2]string{
		{protocol.PropertyCorrelationID, q.id},
		{protocol.PropertyReplyToClient, p.instance.key.id},
		{protocol.PropertyTTL, strconv.FormatInt(ttl, 10)},
	} {
		if own.Properties, err = own.Properties.With(nv[0], nv[1]); err != nil {
			return nil, err
		}
	}
	if err := p.check(&own); err != nil { // there is more of it now
		return nil, err
	}
	if p.routes.known(p.ns.unwrap(own.Topic)) == nil {
		p.instance.presence.announce(ctx) // whoever has the topic must know where the reply goes
	}
	return q, nil
}

// exchange sends a message that was checked and waits for the reply.
func (p *Producer) exchange(ctx context.Context, m *message.Message, queue *protocol.MessageQueue) (*message.MessageExt, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	q, err := p.ask(ctx, m)
	if err != nil {
		return nil, err
	}
	type outcome struct {
		reply *message.MessageExt
		err   error
	}
	ended := make(chan outcome, 1)
	err = p.instance.requests.add(q.id, &pendingRequest{
		owner: p, end: func(reply *message.MessageExt, err error) {
			defer p.requests.Done()
			ended <- outcome{reply, err}
		},
	})
	if err != nil {
		return nil, err
	}
	sent, err := p.send(ctx, q.message, queue)
	p.await(ctx, cancel, q, sent, err)
	r := <-ended
	if r.err != nil {
		return nil, q.failed(r.err)
	}
	return r.reply, nil
}

// requestAsync is exchange with a callback.
func (p *Producer) requestAsync(ctx context.Context, m *message.Message, queue *protocol.MessageQueue, done func(*message.MessageExt, error)) {
	ctx, cancel := withDeadline(ctx)
	q, err := p.ask(ctx, m)
	if err == nil {
		err = p.callBack(q, done)
	}
	if err != nil {
		cancel()
		p.contain(func() { done(nil, err) })
		return
	}
	p.sendAsync(ctx, q.message, queue, func(sent SendResult, err error) { p.await(ctx, cancel, q, sent, err) })
}

// await has a request that was sent, or could not be, wait until ctx ends, and
// cancels it then.
func (p *Producer) await(ctx context.Context, cancel context.CancelFunc, q *question, sent SendResult, err error) {
	if sent.Status == SendNotStored {
		p.instance.requests.fail(q.id, err)
		cancel()
		return
	}
	p.instance.requests.until(ctx, cancel, q)
}

// callBack has done called, in a goroutine, when the request ends.
func (p *Producer) callBack(q *question, done func(*message.MessageExt, error)) error {
	return p.instance.requests.add(q.id, &pendingRequest{owner: p, end: func(reply *message.MessageExt, err error) {
		go func() {
			defer p.requests.Done()
			if err != nil {
				err = q.failed(err)
			}
			p.contain(func() { done(reply, err) })
		}()
	}})
}

// withDeadline gives ctx the default deadline where it has none.
func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, DefaultRequestTimeout)
}

// newCorrelationID is a random UUID, as text.
func newCorrelationID() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], rand.Uint64())
	binary.BigEndian.PutUint64(b[8:], rand.Uint64())
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
