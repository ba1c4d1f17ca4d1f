package mq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// heartbeatInterval is how often a producer makes itself known again.
const heartbeatInterval = 30 * time.Second

// register makes the producer known to brokers, so that they can ask it.
func (t *TransactionProducer) register(ctx context.Context, cfg *ProducerConfig) {
	id := uniqueIDs().Next().String()
	t.clientID = id
	t.presence = presence{
		names: cfg.NameService, connect: cfg.Connect, interval: heartbeatInterval, log: cfg.Logger,
		request: func() protocol.RegisterClientRequest {
			return protocol.RegisterClientRequest{ClientID: id, ProducerGroups: []string{cfg.Group}, Client: transactionClient{t}}
		},
	}
	t.presence.start(ctx)
}

// transactionClient is what a broker sees of a TransactionProducer.
type transactionClient struct{ t *TransactionProducer }

var (
	errManyChecks = errors.New("too many checks wait for an answer")
	errNoReplies  = errors.New("the client makes no requests")
)

// CheckTransactionState has the checker called.
func (c transactionClient) CheckTransactionState(_ context.Context, req protocol.CheckTransactionStateRequest) error {
	select {
	case c.t.checks <- req:
		return nil
	default:
		return &protocol.Error{Code: protocol.SystemBusy, Err: errManyChecks}
	}
}

// PushReplyMessage refuses: nobody waits for a reply.
func (c transactionClient) PushReplyMessage(context.Context, protocol.PushReplyMessageRequest) error {
	return &protocol.Error{Code: protocol.RequestCodeNotSupported, Err: errNoReplies}
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
	c := EndTransactionContext{Group: req.Group, Broker: req.Broker, MsgID: m.UniqueKey(), FromCheck: true}
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
