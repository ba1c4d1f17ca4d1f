package mq

import (
	"context"
	"errors"
	"fmt"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

var errManyChecks = errors.New("too many checks wait for an answer")

// accept has the checker called.
func (t *TransactionProducer) accept(_ context.Context, req protocol.CheckTransactionStateRequest) error {
	select {
	case t.checks <- req:
		return nil
	default:
		return &protocol.Error{Code: protocol.SystemBusy, Err: errManyChecks}
	}
}

// work answers questions.
//
// Source: RocketMQ client/impl/producer/DefaultMQProducerImpl.java, checkTransactionState.
func (t *TransactionProducer) work(ctx context.Context) {
	for {
		select {
		case req := <-t.checks:
			if ctx.Err() != nil {
				return
			}
			t.answer(ctx, &req)
		case <-ctx.Done():
			return
		}
	}
}

func (t *TransactionProducer) answer(ctx context.Context, req *protocol.CheckTransactionStateRequest) {
	m := req.Message
	at, off := m.LogOffset, m.QueueOffset // the checker gets the message, and may change it
	c := EndTransactionContext{Group: t.group, Broker: req.Broker, MsgID: m.UniqueKey(), FromCheck: true}
	c.State, c.Err = t.callCheck(ctx, m)
	c.Message = m.Message
	if c.Err != nil {
		t.log.Warn("state of a transaction could not be found out", "key", c.MsgID, "err", c.Err)
	}
	if ctx.Err() != nil && c.State == TransactionUnknown {
		return // the broker asks another one
	}
	_ = t.end(ctx, c, at, off) // it is logged, and the broker asks again
}

var errCheckFailed = errors.New("check of a transaction failed")

// callCheck calls the checker, and survives it.
func (t *TransactionProducer) callCheck(ctx context.Context, m *message.MessageExt) (state TransactionState, err error) {
	defer func() {
		if v := recover(); v != nil {
			state, err = TransactionUnknown, panicError(errCheckFailed, v)
		}
	}()
	m.Topic = t.ns.unwrap(m.Topic)
	if m.Body, err = message.Inflate(m.SysFlag, m.Body, t.maxBody); err != nil {
		return TransactionUnknown, err
	}
	state, err = t.check(ctx, m)
	if err == nil {
		err = checkState(state)
	}
	if err != nil {
		return TransactionUnknown, fmt.Errorf("%w: %w", errCheckFailed, err)
	}
	return state, nil
}
