package broker

import (
	"context"
	"errors"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// EndTransaction commits or rolls back the transaction of a half message. The real
// message and the op message, which says that the half message has ended, share a
// sync. Of several calls for one half message, also at the same time and after a
// crash, only the first one that succeeds counts; the others return nil.
//
// Codes: SystemError where there is no such half message, or it is not the one that
// the request describes; IllegalOperation when its immunity is over, see
// protocol.PropertyCheckImmunity, and the request no answer to a question; those of
// SendMessage for the real message.
//
// Source: RocketMQ broker/processor/EndTransactionProcessor.java.
func (b *Broker) EndTransaction(ctx context.Context, req protocol.EndTransactionRequest) error {
	if err := b.open(); err != nil {
		return err
	}
	switch req.State {
	case protocol.TransactionCommit, protocol.TransactionRollback:
	case protocol.TransactionUnknown:
		b.log.Info("state of a transaction is not known", "group", req.Group, "key", req.UniqueKey,
			"halfOffset", req.QueueOffset, "fromCheck", req.FromCheck, "remark", req.Remark)
		return nil
	default:
		return refuse(protocol.SystemError, "", &message.IllegalError{Field: "transaction state", Value: req.State.String(), Reason: "ends no transaction"})
	}
	if req.QueueOffset < 0 {
		return refuse(protocol.SystemError, "", &message.LimitError{Field: "half message's queue offset (negative)", Value: int64(req.QueueOffset), Unit: "messages"})
	}
	t := b.transactions
	if err := t.await(ctx); err != nil {
		return b.notEnded(err)
	}
	h, err := t.claim(ctx, req.QueueOffset)
	if err != nil {
		return b.notEnded(err)
	}
	if h == nil {
		return t.checkEnded(ctx, &req)
	}
	became, err := t.end(ctx, h, &req)
	t.release(h, became)
	return err
}

func (b *Broker) notEnded(err error) error {
	if errors.Is(err, message.ErrClosed) {
		return refuse(protocol.ServiceNotAvailable, "broker "+b.name, err)
	}
	return err
}

// checkEnded refuses to end a transaction once more where that is not what the
// request asks for. What retention has removed had ended.
func (t *transactions) checkEnded(ctx context.Context, req *protocol.EndTransactionRequest) error {
	if req.LogOffset >= 0 && req.LogOffset < t.store.MinOffset() {
		return nil
	}
	m, err := t.lookHalf(ctx, req.LogOffset)
	if err != nil {
		return err
	}
	return check(&m, req, req.QueueOffset)
}

// end does what the request asks for with a half message that was claimed.
func (t *transactions) end(ctx context.Context, h *half, req *protocol.EndTransactionRequest) (outcome, error) {
	at := req.LogOffset
	if h.offset != req.QueueOffset { // it was rolled forward
		at = h.log
	}
	m, err := t.lookHalf(ctx, at)
	if err == nil {
		err = check(&m, req, h.offset)
	}
	if err == nil && !req.FromCheck {
		err = t.rules.checkLate(&m, t.now())
	}
	if err != nil {
		return stillOpen, err
	}
	t.setPlace(h, m.LogOffset)
	if req.State == protocol.TransactionRollback {
		return t.putOp(ctx, h)
	}
	if err := t.real(ctx, &m); err != nil {
		return stillOpen, err
	}
	became, err := t.putOp(ctx, h)
	if became == stillOpen {
		// The real message is in the log: it counts, and the op message comes later.
		t.log.Error("transaction committed, op message not stored; will try again", "halfOffset", h.offset, "err", err)
		became, err = endedWithoutOp, kept(t.store.Flush(ctx))
	}
	return became, err
}

// setPlace notes where a half message lies that may not have been read.
func (t *transactions) setPlace(h *half, at message.LogOffset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h.log = at
}

// lookHalf reads a half message.
func (t *transactions) lookHalf(ctx context.Context, at message.LogOffset) (message.MessageExt, error) {
	m, err := t.store.LookMessageByOffset(ctx, at)
	if err == nil && m.Topic != message.HalfTopic {
		err = &message.IllegalError{Field: "topic", Value: m.Topic, Reason: "is that of the message at this log offset, and not the half topic"}
	}
	if err != nil {
		return m, refuse(protocol.SystemError, "Find prepared transaction message failed", err)
	}
	return m, nil
}

// check holds a half message against what a request says of it.
//
// Source: RocketMQ broker/processor/EndTransactionProcessor.java, checkPrepareMessage.
func check(m *message.MessageExt, req *protocol.EndTransactionRequest, off message.QueueOffset) error {
	var wrong string
	group, ok := m.Properties.Get(protocol.PropertyProducerGroup)
	switch {
	case !ok || group != req.Group:
		wrong = "The producer group wrong"
	case m.QueueOffset != off:
		wrong = "The transaction state table offset wrong"
	case req.UniqueKey != "" && m.UniqueKey() != req.UniqueKey:
		wrong = "The unique key wrong"
	default:
		return nil
	}
	return refuse(protocol.SystemError, wrong, nil)
}

// putOp writes the op message, and waits for its sync.
func (t *transactions) putOp(ctx context.Context, h *half) (outcome, error) {
	op := t.opOf(h.offset)
	res, err := t.put(ctx, &op)
	code, err := answerPut(&res, err)
	if !code.Stored() {
		return stillOpen, err
	}
	return ended, err
}

// kept is the answer to a sync of what is in the log.
func kept(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, message.ErrFlush), errors.Is(err, message.ErrClosed):
		return refuse(protocol.ServiceNotAvailable, "", err)
	}
	return refuse(protocol.FlushDiskTimeout, "", err)
}

// putReal puts the message of a half message where it was sent to, without waiting
// for a sync.
func (b *Broker) putReal(ctx context.Context, m *message.MessageExt) error {
	inner, err := realOf(m)
	if err != nil {
		return refuse(protocol.SystemError, "", err)
	}
	inner, err = b.park(inner) // RocketMQ 5 leaves the delay in half messages
	if err != nil {
		return err
	}
	res, err := b.transactions.put(ctx, &inner)
	if code, err := answerPut(&res, err); !code.Stored() {
		return err
	}
	b.noteStored(&inner, &res, "")
	return nil
}

// noteStored tells those who wait for a message in a topic of the broker's own.
func (b *Broker) noteStored(m *message.MessageExtBrokerInner, res *store.PutMessageResult, client string) {
	b.delays.parkedAt(m, res)
	b.timers.parkedAt(m, res)
	b.transactions.sent(m, res, client)
}
