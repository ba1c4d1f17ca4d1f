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
	if t.run.Err() != nil {
		return &protocol.Error{Code: protocol.ServiceNotAvailable, Err: message.ErrClosed}
	}
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
func (t *TransactionProducer) work() {
	for {
		select {
		case req := <-t.checks:
			if t.run.Err() != nil {
				return
			}
			t.answer(t.run, &req)
		case <-t.run.Done():
			return
		}
	}
}

func (t *TransactionProducer) answer(ctx context.Context, req *protocol.CheckTransactionStateRequest) {
	m := req.Message
	c := EndTransactionContext{
		Group: t.group, Broker: req.Broker, MsgID: m.UniqueKey(), OffsetMsgID: m.OffsetMessageID(), QueueOffset: m.QueueOffset, FromCheck: true,
	}
	m.Topic = t.ns.unwrap(m.Topic)
	m.Body, c.Err = message.Inflate(m.SysFlag, m.Body, t.maxBody)
	c.Message = m.Message // the checker gets m, and may change it
	if c.Err == nil {
		c.State, c.Err = t.callCheck(ctx, m)
	}
	if c.Err != nil {
		t.log.Warn("state of a transaction could not be found out", "key", c.MsgID, "err", c.Err)
	}
	if ctx.Err() != nil && c.State == TransactionUnknown {
		return // the broker asks another one
	}
	_ = t.end(ctx, c) // it is logged, and the broker asks again
}

var errCheckFailed = errors.New("check of a transaction failed")

// callCheck calls the checker, and survives it.
func (t *TransactionProducer) callCheck(ctx context.Context, m *message.MessageExt) (state TransactionState, err error) {
	defer func() {
		if v := recover(); v != nil {
			state, err = TransactionUnknown, panicError(errCheckFailed, v)
		}
	}()
	state, err = t.check(ctx, m)
	if err == nil {
		err = checkState(state)
	}
	if err != nil {
		return TransactionUnknown, fmt.Errorf("%w: %w", errCheckFailed, err)
	}
	return state, nil
}
