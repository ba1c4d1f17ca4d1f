package mq

import (
	"context"
	"fmt"
	"time"

	"github.com/pocketmq/pocketmq/protocol"
)

// attempts goes through the attempts of one send:
//
//	for a.next(ctx) {
//		… ask a.broker to store in a.queue …
//		if a.done(ctx, code, err) {
//			return …, a.err() // stored, if not as promised
//		}
//	}
//	return …, a.err() // not stored
type attempts struct {
	p     *Producer
	topic string
	given *protocol.MessageQueue // the only choice, if not nil
	now   time.Time

	queue  protocol.MessageQueue
	broker protocol.Broker

	made   int
	failed string // broker of the last attempt
	last   error
	end    bool
}

func (p *Producer) attempts(topic string, given *protocol.MessageQueue, now time.Time) attempts {
	return attempts{p: p, topic: topic, given: given, now: now}
}

// next chooses a queue, or returns false when there is nothing left to try.
func (a *attempts) next(ctx context.Context) bool {
	if a.end {
		return false
	}
	if err := ctx.Err(); err != nil && a.made == 0 { // nothing was sent, and no topic made
		a.last, a.end = err, true
		return false
	}
	r, err := a.p.routes.get(ctx, a.topic, a.now)
	if err != nil {
		a.last, a.end = err, true
		return false
	}
	i := 0
	if a.given == nil {
		i = r.pick(a.failed)
		a.queue = r.queues[i]
	} else {
		a.queue = *a.given
		for i < len(r.queues) && r.queues[i].BrokerName != a.given.BrokerName {
			i++
		}
		if i == len(r.queues) {
			a.last, a.end = fmt.Errorf("%w: broker %s has no queue to write to", ErrNoRoute, a.given.BrokerName), true
			return false
		}
	}
	a.broker = r.brokers[i]
	a.made++
	return true
}

// done takes the broker's answer and reports whether the message is stored.
func (a *attempts) done(ctx context.Context, code protocol.ResponseCode, err error) bool {
	a.last = err
	if code.Stored() {
		return true
	}
	a.failed = a.queue.BrokerName
	a.end = a.given != nil || a.made > a.p.retries || ctx.Err() != nil || !a.worthRetry(code)
	return false
}

// worthRetry reports whether another attempt may end differently. What a broker
// has stored, its promise kept or not, is not sent again. ServiceNotAvailable
// may also be the answer to a sync that failed: the bytes may be in that log,
// but nobody sees them before the store is opened again, so going elsewhere is
// what keeps the message. Then a duplicate with the same unique key is possible.
//
// Source: RocketMQ client/producer/DefaultMQProducer.java, retryResponseCodes.
func (a *attempts) worthRetry(code protocol.ResponseCode) bool {
	switch code {
	case protocol.TopicNotExist:
		a.p.routes.outdated()
		return true
	case protocol.SystemError, protocol.SystemBusy, protocol.ServiceNotAvailable, protocol.NoPermission:
		r := (*a.p.routes.routes.Load())[a.topic]
		return r != nil && r.others(a.failed)
	}
	return false
}

// err is nil when the last attempt kept its promise.
func (a *attempts) err() error {
	if a.last == nil {
		return nil
	}
	return &SendError{Topic: a.topic, Queue: a.queue, Attempts: a.made, Err: a.last}
}
