package mq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// minAttempt is the least part of a send's time that an attempt gets.
const minAttempt = 500 * time.Millisecond

// attempts goes through the attempts of one send:
//
//	for a.next(ctx) {
//		… ask a.broker, with a.ctx, to store in a.queue …
//		if a.done(ctx, code, err) {
//			… stored, if perhaps not as promised: keep the result …
//		}
//	}
//	return …, a.err()
//
// Source: RocketMQ client/impl/producer/DefaultMQProducerImpl.java, sendDefaultImpl.
type attempts struct {
	p       *Producer
	mode    SendMode
	message message.Message        // of a batch, the first
	batch   []*message.Message     // nil for a single message
	given   *protocol.MessageQueue // the only choice, if not nil
	reply   bool                   // a broker hands it to who asked
	now     time.Time              // when the attempt began

	ctx    context.Context // of the attempt
	cancel context.CancelFunc
	queue  protocol.MessageQueue
	broker protocol.Broker
	health *brokerHealth // nil when it does not matter
	trial  bool          // it finds out whether the broker is well again
	route  *publishRoute
	seen   *SendContext // what hooks were told; nil without hooks

	retries int
	made    int
	tried   []string // broker of each attempt; nil when the first one did it
	busy    bool     // the last broker needs a pause before it is asked again
	last    error
	stored  *SendError // of an attempt that stored the message without its promise
	end     bool
}

func (p *Producer) attempts(m *message.Message, given *protocol.MessageQueue, now time.Time) attempts {
	a := attempts{p: p, message: *m, given: given, now: now, retries: p.retries}
	a.message.Topic = p.ns.unwrap(m.Topic)
	return a
}

// as says how the message is sent, and so how often that may be tried.
func (a *attempts) as(mode SendMode) {
	a.mode = mode
	switch mode {
	case ModeSync:
		a.retries = a.p.retries
	case ModeAsync:
		a.retries = a.p.retriesAsync
	case ModeOneway:
		a.retries = 0
	}
}

// next chooses a queue, or returns false when there is nothing left to try.
func (a *attempts) next(ctx context.Context) bool {
	if a.end {
		return false
	}
	if err := ctx.Err(); err != nil && a.made == 0 { // nothing was sent, and no topic made
		return a.stop(err)
	}
	if a.made > 0 {
		a.now = a.p.now()
	}
	r, err := a.p.routes.get(ctx, a.message.Topic, a.now)
	if err != nil {
		return a.stop(err)
	}
	i, err := a.choose(r)
	if err != nil {
		return a.stop(err)
	}
	a.route, a.broker, a.health = r, r.brokers[i], nil
	if r.health != nil {
		a.health = r.health[i]
	}
	if a.busy && a.queue.BrokerName == last(a.tried) && !a.pause(ctx) {
		return a.stop(a.last)
	}
	if a.seen, err = a.begin(ctx); err != nil {
		return a.stop(err)
	}
	a.made++
	a.trial = a.health != nil && a.health.tryOut(a.p.faults.at(a.now))
	a.share(ctx)
	return true
}

func (a *attempts) stop(err error) bool {
	a.last, a.end = err, true
	return false
}

// choose finds the position of the queue to send to.
func (a *attempts) choose(r *publishRoute) (int, error) {
	if a.given == nil {
		var now int64
		if r.health != nil {
			now = a.p.faults.at(a.now)
		}
		i := r.pick(a.tried, now)
		a.queue = r.queues[i]
		return i, nil
	}
	a.queue = a.p.ns.queue(*a.given)
	i := slices.IndexFunc(r.queues, func(q protocol.MessageQueue) bool { return q.BrokerName == a.given.BrokerName })
	if i < 0 {
		err := fmt.Errorf("%w: broker %s has no queue to write to", ErrNoRoute, a.given.BrokerName)
		return i, &protocol.Error{Code: protocol.BrokerNotExist, Err: err}
	}
	return i, nil
}

// pause waits before a broker is asked again that has too much to do, longer
// each time. It reports whether there is time left.
func (a *attempts) pause(ctx context.Context) bool {
	d := min(50*time.Millisecond<<min(a.made-1, 3), 400*time.Millisecond)
	timer := time.NewTimer(d*4/5 + rand.N(d*2/5))
	defer timer.Stop()
	select {
	case <-timer.C:
		a.now = a.p.now()
		return true
	case <-ctx.Done():
		return false
	}
}

// share gives the attempt its part of the time: what one broker that hangs
// leaves is for the others.
func (a *attempts) share(ctx context.Context) {
	a.ctx = ctx
	left := a.retries + 1 - (a.made - 1) // attempts, with this one
	if a.given != nil || left <= 1 || !a.route.several {
		return
	}
	part := a.p.attemptTimeout
	if deadline, ok := ctx.Deadline(); ok && part == 0 {
		part = max(minAttempt, time.Until(deadline)/time.Duration(left))
	}
	if part > 0 {
		a.ctx, a.cancel = context.WithTimeout(ctx, part)
	}
}

// done takes the broker's answer and reports whether the message is stored.
func (a *attempts) done(ctx context.Context, code protocol.ResponseCode, err error) bool {
	late := a.late(ctx, err)
	if a.cancel != nil {
		a.cancel()
		a.cancel = nil
	}
	if a.health != nil {
		took := a.p.now().Sub(a.now)
		o := outcomeOf(ctx, code, err, took)
		if a.refusedReply(code, err) {
			o = answered
		}
		a.p.faults.report(a.health, o, took)
		if a.trial {
			a.health.trial.Store(0)
		}
	}
	a.last = err
	if a.made > 1 || code != protocol.Success {
		a.tried = append(a.tried, a.queue.BrokerName)
	}
	if code == protocol.Success {
		a.stored, a.end = nil, true
		return true
	}
	a.busy = protocol.Overloaded(err) || a.given != nil
	a.end = a.made > a.retries || ctx.Err() != nil || !a.worthRetry(code, err, late)
	if code.Stored() {
		a.stored = a.sendError()
		return true
	}
	return false
}

// late reports whether the attempt's part of the time is over, and not the
// sender's time.
func (a *attempts) late(ctx context.Context, err error) bool {
	return a.cancel != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)
}

// worthRetry reports whether another attempt may end differently. What a broker
// has stored, its promise kept or not, is not sent again unless the producer's
// configuration wants it, or the broker is late: its disk may hang, so going
// elsewhere is what keeps the message. ServiceNotAvailable may also be the answer to a sync
// that failed: the bytes may be in that log, but nobody sees them before the
// store is opened again, so going elsewhere is what keeps the message. Then a
// duplicate with the same unique key is possible.
//
// Source: RocketMQ client/producer/DefaultMQProducer.java, retryResponseCodes.
func (a *attempts) worthRetry(code protocol.ResponseCode, err error, late bool) bool {
	switch {
	case a.given != nil:
		return a.p.retrySameQueue && code == protocol.ConnectBroker
	case a.refusedReply(code, err):
		return false
	}
	others := a.route.others(a.queue.BrokerName)
	switch code {
	case protocol.TopicNotExist:
		a.p.routes.outdated()
		return true
	case protocol.FlushDiskTimeout, protocol.FlushSlaveTimeout, protocol.SlaveNotAvailable:
		return (late || a.p.retryNotStoreOK) && others
	case protocol.SystemError, protocol.ServiceNotAvailable, protocol.NoPermission, protocol.NoBuyerID,
		protocol.NotInCurrentUnit, protocol.GoAway, protocol.ConnectBroker, protocol.AccessBrokerTimeout:
		return others || protocol.Overloaded(err)
	case protocol.SystemBusy, protocol.FlowControl:
		return true
	}
	return others && slices.Contains(a.p.retryCodes, code)
}

// outcomeOf is what an answer tells about the broker. A sender whose own time
// ended early tells nothing.
func outcomeOf(ctx context.Context, code protocol.ResponseCode, err error, took time.Duration) outcome {
	switch {
	case code == protocol.Success:
		return answered
	case errors.Is(ctx.Err(), context.Canceled), ctx.Err() != nil && took < minAttempt:
		return unrelated
	case code == protocol.AccessBrokerTimeout, errors.Is(err, context.DeadlineExceeded):
		return silent
	case code.Stored():
		return answered
	case code == protocol.ConnectBroker:
		return unreached
	case code == protocol.SystemError && (errors.Is(err, message.ErrLimit) || errors.Is(err, message.ErrIllegal)):
		return answered
	case code == protocol.FlowControl && errors.Is(err, message.ErrLimit): // the topic is full, the broker well
		return answered
	}
	switch code {
	case protocol.SystemError, protocol.SystemBusy, protocol.FlowControl, protocol.ServiceNotAvailable, protocol.GoAway:
		return troubled
	}
	return answered
}

// result is that of an attempt that stored the message, without the place.
func (a *attempts) result(key string, code protocol.ResponseCode) SendResult {
	return SendResult{Status: statusOf(code), MsgID: key, Queue: a.queue, Attempts: a.made, Tried: a.brokers()}
}

// err is nil when the last attempt kept its promise. Beside a message that is
// stored it is that of the attempt that stored it.
func (a *attempts) err() error {
	if a.stored != nil {
		return a.stored
	}
	if a.last == nil {
		return nil
	}
	return a.sendError()
}

func (a *attempts) sendError() *SendError {
	return &SendError{Topic: a.message.Topic, Queue: a.queue, Attempts: a.made, Tried: a.brokers(), Err: a.last}
}

// brokers are those tried, where it says more than the queue does.
func (a *attempts) brokers() []string {
	if a.made < 2 {
		return nil
	}
	return a.tried
}
