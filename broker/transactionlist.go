package broker

import (
	"cmp"
	"context"
	"slices"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// OpenTransactions returns the half messages whose end is not known, the oldest
// first. It reads each of them.
func (b *Broker) OpenTransactions(ctx context.Context) ([]protocol.OpenTransaction, error) {
	if err := b.open(); err != nil {
		return nil, err
	}
	t := b.transactions
	if err := t.await(ctx); err != nil {
		return nil, b.notEnded(err)
	}
	if err := t.read(ctx); err != nil {
		return nil, readError(err)
	}
	var open []protocol.OpenTransaction
	for _, h := range t.copyOpen() {
		m, err := t.lookOpen(ctx, &h)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil { // the goroutine says so when it looks at it
			continue
		}
		topic, _ := m.Properties.Get(message.PropertyRealTopic)
		open = append(open, protocol.OpenTransaction{
			Topic: topic, Group: h.group, UniqueKey: m.UniqueKey(),
			LogOffset: h.log, QueueOffset: h.offset, BornTimestamp: m.BornTimestamp, StoreTimestamp: m.StoreTimestamp,
			Checks: h.checks, NextCheck: h.next,
		})
	}
	return open, nil
}

// copyOpen is what is open now, by offset, also what was just rolled forward and not
// read again.
func (t *transactions) copyOpen() []half {
	t.mu.Lock()
	defer t.mu.Unlock()
	halves := make([]half, 0, t.order.Len())
	for off, h := range t.open {
		read := h.place != nil || len(h.old) > 0
		if off == h.offset && !h.done && read {
			halves = append(halves, *h)
		}
	}
	slices.SortFunc(halves, func(a, b half) int { return cmp.Compare(a.offset, b.offset) })
	return halves
}

// lookOpen reads an open half message, of which h is a copy that may be older: where
// it was rolled forward since, and retention has removed it, the copy is renewed.
func (t *transactions) lookOpen(ctx context.Context, h *half) (message.MessageExt, error) {
	for {
		m, err := t.store.LookMessageByOffset(ctx, h.log)
		if err == nil {
			return m, nil
		}
		t.mu.Lock()
		now := t.open[h.offset]
		moved := now != nil && !now.done && now.log != h.log
		if moved {
			*h = *now
		}
		t.mu.Unlock()
		if !moved {
			return m, err
		}
	}
}

// ResumeTransaction puts a message that was given up back into the half topic. It
// is refused while a half message with the same unique key is open. The one that
// was given up stays where it is.
//
// Source: RocketMQ broker/processor/AdminBrokerProcessor.java, resumeCheckHalfMessage.
func (b *Broker) ResumeTransaction(ctx context.Context, off message.LogOffset) error {
	open, err := b.OpenTransactions(ctx)
	if err != nil {
		return err
	}
	m, err := b.store.LookMessageByOffset(ctx, off)
	if err == nil && m.Topic != protocol.TransactionCheckMaxTopic {
		err = &message.IllegalError{Field: "topic", Value: m.Topic, Reason: "is that of the message at this log offset, and has none that were given up"}
	}
	if err != nil {
		return refuse(protocol.SystemError, "", err)
	}
	for _, o := range open {
		if o.UniqueKey != "" && o.UniqueKey == m.UniqueKey() {
			return refuse(protocol.SystemError, "the transaction is open", &message.IllegalError{
				Field: "unique key", Value: o.UniqueKey, Reason: "is that of an open half message",
			})
		}
	}
	inner, err := resumed(m)
	if err != nil {
		return refuse(protocol.MessageIllegal, "", err)
	}
	res, err := b.store.PutMessage(ctx, &inner)
	if code, err := answerPut(&res, err); err != nil || !code.Stored() {
		return err
	}
	b.noteStored(&inner, &res, "")
	return nil
}
