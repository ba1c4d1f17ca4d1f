package broker

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

const (
	// rollLeast is how many bytes of the log lie behind a half message at least when
	// it is rolled forward.
	rollLeast = 256 << 10
	// questionTimeout bounds how long a client may take to take a question.
	questionTimeout = 3 * time.Second
	// transactionRetry is the pause after something failed, longer each time up to
	// delayMaxBackoff.
	transactionRetry = time.Second
)

// round does all that is to be done and returns how long there is nothing to do.
// What fails keeps nothing else from being done, and is done again.
func (t *transactions) round(ctx context.Context) time.Duration {
	errs := []error{t.writeOps(ctx)}
	if t.now().UnixMilli() >= t.when(&t.readAt) {
		errs = append(errs, t.read(ctx))
	}
	errs = append(errs, t.lookAtDue(ctx), t.rollOld(ctx), t.saveWhenDue(ctx))
	err := errors.Join(errs...)
	if err != nil && ctx.Err() == nil {
		t.log.Error("transactions: something is not done; will try again", "err", err)
	}
	if err == nil {
		t.backoff = 0
		return t.rest()
	}
	t.backoff = min(max(2*t.backoff, transactionRetry), delayMaxBackoff)
	return t.backoff
}

func (t *transactions) when(at *int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return *at
}

// rest is how long there is nothing to do.
func (t *transactions) rest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := t.readAt
	if t.dirty {
		next = min(next, t.saveAt)
	}
	if len(t.due) > 0 {
		next = min(next, t.due[0].next)
	}
	switch {
	case len(t.noOp) > 0:
		return 0
	case next == never:
		return never
	}
	longest := delayLookAgain // the clock may be set, and machines sleep
	return time.Duration(max(0, min(next-t.now().UnixMilli(), longest.Milliseconds()))) * time.Millisecond
}

// writeOps writes the op messages that could not be written before.
func (t *transactions) writeOps(ctx context.Context) error {
	t.mu.Lock()
	todo := t.noOp
	t.noOp = nil
	t.mu.Unlock()
	for i, h := range todo {
		became, err := t.putOp(ctx, h)
		t.mu.Lock()
		if became == ended {
			delete(t.ending, h)
			t.changed()
		} else {
			t.noOp = append(t.noOp, todo[i:]...)
		}
		t.mu.Unlock()
		if became != ended {
			return err
		}
	}
	return nil
}

// lookAtDue looks at each half message whose time has come.
func (t *transactions) lookAtDue(ctx context.Context) error {
	var errs []error
	for ctx.Err() == nil {
		h, ok := t.takeDue()
		if !ok {
			break
		}
		if err := t.lookAt(ctx, &h); err != nil && len(errs) < 10 {
			errs = append(errs, fmt.Errorf("half message at %d: %w", h.offset, err))
		}
	}
	return errors.Join(errs...)
}

// takeDue returns a copy of the half message that is due, and has it wait a while,
// so that it is never forgotten.
func (t *transactions) takeDue() (half, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if len(t.due) == 0 || t.due[0].next > now.UnixMilli() {
		return half{}, false
	}
	h := t.due[0]
	c := *h
	h.next = now.Add(t.rules.pause(0)).UnixMilli()
	heap.Fix(&t.due, 0)
	return c, true
}

// lookAt asks a client about a half message, or gives it up. h is a copy.
func (t *transactions) lookAt(ctx context.Context, h *half) error {
	if h.ending != nil {
		return nil // somebody has an answer
	}
	age := t.now().UnixMilli() - max(h.since, t.started)
	if h.checks >= t.rules.max || age > t.rules.maxAge.Milliseconds() {
		return t.giveUp(ctx, h)
	}
	answer, err := t.ask(ctx, h)
	if errors.Is(err, message.ErrCorrupt) || errors.Is(err, message.ErrOffsetNotFound) {
		t.lost(h, err)
		return nil
	}
	t.waitFor(h, answer)
	return err
}

// question is what became of one.
type question uint8

const (
	questionRefused question = iota // no client took it
	questionTaken
	questionTooMany // the clients have been asked enough
	questionToNobody
)

// waitFor says when to look at a half message again.
func (t *transactions) waitFor(c *half, q question) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.open[c.offset]
	if h == nil || h.done || h.index < 0 {
		return
	}
	pause := t.rules.pause(0)
	if q == questionToNobody && len(t.clients.producers(h.group)) > 0 { // one has joined since
		h.next = t.now().UnixMilli()
		heap.Fix(&t.due, h.index)
		return
	}
	h.alone = q == questionToNobody
	switch q {
	case questionTaken:
		h.checks++
		pause = t.rules.pause(h.checks)
	case questionTooMany:
		pause = time.Second
	case questionToNobody:
		pause = t.rules.interval // or until one joins
		t.absent[h.group] = true
	case questionRefused:
	}
	h.next = t.now().Add(pause).UnixMilli()
	heap.Fix(&t.due, h.index)
}

// joined says that there is a client of groups.
func (t *transactions) joined(groups []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	came := slices.DeleteFunc(slices.Clone(groups), func(g string) bool { return !t.absent[g] })
	if len(came) == 0 {
		return
	}
	for _, g := range came {
		delete(t.absent, g)
	}
	now := t.now().UnixMilli()
	for _, h := range t.due {
		if h.alone && slices.Contains(came, h.group) {
			h.alone, h.next = false, min(h.next, now)
		}
	}
	heap.Init(&t.due)
	t.wake()
}

// ask asks a client of the group, if possible the one that sent the message.
func (t *transactions) ask(ctx context.Context, h *half) (question, error) {
	clients := t.clients.producers(h.group)
	if len(clients) == 0 {
		return questionToNobody, nil
	}
	if i := slices.IndexFunc(clients, func(c protocol.RegisterClientRequest) bool { return c.ClientID == h.client }); i > 0 {
		clients = slices.Concat(clients[i:i+1], clients[:i], clients[i+1:])
	}
	answer := questionRefused
	for _, c := range clients {
		if !t.quota.take(c.ClientID, t.now(), t.rules.rate) {
			answer = questionTooMany
			continue
		}
		m, err := t.store.LookMessageByOffset(ctx, h.log)
		if err != nil {
			return questionRefused, err
		}
		err = callClient(ctx, c.Client, t.questionAbout(h.group, &m))
		if err == nil {
			return questionTaken, nil
		}
		t.log.Warn("client takes no question about a transaction", "client", c.ClientID, "group", h.group, "halfOffset", h.offset, "err", err)
	}
	return answer, nil
}

// questionAbout is a half message as it was sent.
//
// Source: RocketMQ broker/transaction/AbstractTransactionalMessageCheckListener.java, sendCheckMessage.
func (t *transactions) questionAbout(group string, m *message.MessageExt) protocol.CheckTransactionStateRequest {
	topic, _ := m.Properties.Get(message.PropertyRealTopic)
	queue, _ := m.Properties.Get(message.PropertyRealQueueID)
	id, _ := strconv.ParseInt(queue, 10, 32)
	m.Topic, m.QueueID, m.BrokerName = topic, int32(id), t.broker
	return protocol.CheckTransactionStateRequest{Broker: t.broker, Group: group, Message: m}
}

// callClient asks a client; a panic of it is an error.
func callClient(ctx context.Context, c protocol.Client, req protocol.CheckTransactionStateRequest) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the client panicked: %v", v)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	return c.CheckTransactionState(ctx, req)
}

// lost forgets a half message that can not be read any more.
func (t *transactions) lost(c *half, why error) {
	t.log.Error("half message passed over: unreadable", "halfOffset", c.offset, "group", c.group, "err", why)
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.open[c.offset]; h != nil && h.ending == nil && h.log == c.log {
		t.drop(h)
	}
}

// giveUp puts a half message among those of which nobody knows what became.
//
// Source: RocketMQ broker/transaction/queue/DefaultTransactionalMessageCheckListener.java, resolveDiscardMsg.
func (t *transactions) giveUp(ctx context.Context, c *half) error {
	h, _ := t.tryClaim(c.offset)
	if h == nil {
		return nil
	}
	became, err := t.giveUpClaimed(ctx, h)
	t.release(h, became)
	return err
}

func (t *transactions) giveUpClaimed(ctx context.Context, h *half) (outcome, error) {
	m, err := t.store.LookMessageByOffset(ctx, h.log)
	if err != nil {
		return stillOpen, err
	}
	inner, err := givenUp(&m, h.checks)
	if err == nil {
		err = t.giveUpInto(ctx)
	}
	if err != nil {
		return stillOpen, err
	}
	res, err := t.put(ctx, &inner)
	if code, err := answerPut(&res, err); !code.Stored() {
		return stillOpen, err
	}
	t.log.Warn("transaction given up: nobody knows what became of it", "key", m.UniqueKey(), "group", h.group,
		"checks", h.checks, "halfOffset", h.offset, "logOffset", res.LogOffset)
	if became, err := t.putOp(ctx, h); became == ended {
		return ended, err
	}
	return endedWithoutOp, nil
}

// ensureGivenUp makes the topic of the half messages that were given up.
//
// Source: RocketMQ broker/topic/TopicConfigManager.java, createTopicOfTranCheckMaxTime.
func (b *Broker) ensureGivenUp(ctx context.Context) error {
	if _, ok := b.topics.get(protocol.TransactionCheckMaxTopic); ok {
		return nil
	}
	_, _, err := b.topics.putNew(protocol.TopicConfig{
		Name: protocol.TransactionCheckMaxTopic, ReadQueueNums: 1, WriteQueueNums: 1, Perm: protocol.PermReadWrite,
	})
	if err != nil {
		return err
	}
	return b.announce(ctx)
}

// watchFirst says how far the log may grow before the first open half message is
// rolled forward: until it lies in the older half of the log. So it does not keep
// what is behind it from being removed for ever, however slow its transaction is.
func (t *transactions) watchFirst() {
	at := int64(math.MaxInt64)
	if h := t.first(); h != nil {
		at = int64(h.log + max(t.rollLeast, h.log-t.store.MinOffset()))
	}
	t.rollAt.Store(at)
}

// rollOld rolls half messages forward that lie too far back.
func (t *transactions) rollOld(ctx context.Context) error {
	for ctx.Err() == nil {
		t.mu.Lock()
		t.watchFirst()
		h := t.first()
		if h == nil || int64(t.store.MaxOffset()) < t.rollAt.Load() {
			t.mu.Unlock()
			return nil
		}
		off := h.offset
		t.mu.Unlock()
		h, _ = t.tryClaim(off)
		if h == nil { // it has ended, or soon will have
			return nil
		}
		if err := t.roll(ctx, h); err != nil {
			t.release(h, stillOpen)
			return fmt.Errorf("half message at %d not rolled forward: %w", off, err)
		}
	}
	return nil
}

// roll replaces a half message that was claimed by a new one at the end of the
// log, and releases it.
func (t *transactions) roll(ctx context.Context, h *half) error {
	t.readMu.Lock() // the new one is not read before it is known as this one
	defer t.readMu.Unlock()
	m, err := t.store.LookMessageByOffset(ctx, h.log)
	if err != nil {
		return err
	}
	inner, err := rolled(&m, h.checks)
	if err != nil {
		return err
	}
	res, err := t.put(ctx, &inner)
	if code, err := answerPut(&res, err); !code.Stored() {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	close(h.ending)
	h.ending = nil
	delete(t.ending, h)
	t.unlist(h)
	h.old = append(h.old, h.offset)
	h.offset, h.log = res.QueueOffset, res.LogOffset
	t.open[h.offset] = h
	t.placed = max(t.placed, res.LogOffset+message.LogOffset(res.Bytes))
	t.changed()
	now := t.now().UnixMilli()
	t.readAt, t.saveAt = now, now // until that is saved RocketMQ would take the old one for open
	return nil
}
