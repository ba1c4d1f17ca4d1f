package mq

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// pendingRequests are the requests of an instance that wait for their replies. The
// zero value has none; log must be set.
//
// Source: RocketMQ client/producer/RequestFutureHolder.java, which is looked
// through every second; here each request ends with its own context.
type pendingRequests struct {
	log *slog.Logger

	mu   sync.Mutex
	byID map[string]*pendingRequest // by correlation id
}

// pendingRequest is one of them. Whoever takes it out of the table calls end, once.
// That does not block, and counts the owner's requests down, which add counted up.
type pendingRequest struct {
	owner *Producer
	end   func(*message.MessageExt, error)
	stop  func() // ends the wait for the context; nil while the message is being sent
}

// add has the request wait. It is refused when its producer is closed, which
// after that calls abandon.
func (t *pendingRequests) add(id string, r *pendingRequest) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := r.owner.running(); err != nil {
		return err
	}
	r.owner.requests.Add(1)
	if t.byID == nil {
		t.byID = map[string]*pendingRequest{}
	}
	t.byID[id] = r
	return nil
}

// take removes the request; nil when it waits no more.
func (t *pendingRequests) take(id string) *pendingRequest {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.byID[id]
	delete(t.byID, id)
	if r != nil && r.stop != nil {
		r.stop()
	}
	return r
}

// fail ends the request with an error, unless it has ended.
func (t *pendingRequests) fail(id string, err error) {
	if r := t.take(id); r != nil {
		r.end(nil, err)
	}
}

// until has the request, whose message was sent, end with ctx, which is canceled
// when the request is over.
func (t *pendingRequests) until(ctx context.Context, cancel context.CancelFunc, q *question) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.byID[q.id]
	if r == nil {
		cancel()
		return
	}
	stop := context.AfterFunc(ctx, func() { t.fail(q.id, q.over(ctx)) })
	r.stop = func() {
		stop()
		cancel()
	}
}

// answer hands a reply to its request. The error says that nobody waits for it.
func (t *pendingRequests) answer(m *message.MessageExt) error {
	id, _ := m.Properties.Get(protocol.PropertyCorrelationID)
	r := t.take(id)
	if r == nil {
		t.log.Warn("reply that nobody waits for dropped", "correlation id", id, "from", m.BornHost.String())
		return fmt.Errorf("request %q: nobody waits for the reply", id)
	}
	var err error
	m.Properties, err = m.Properties.With(protocol.PropertyArriveTime, strconv.FormatInt(r.owner.now().UnixMilli(), 10))
	if err == nil {
		m.Body, err = message.Inflate(m.SysFlag, m.Body, DefaultMaxInflatedBody)
	}
	if err != nil {
		r.end(nil, fmt.Errorf("the reply can not be read: %w", err))
		return nil
	}
	r.end(m, nil)
	return nil
}

// abandon ends the requests of a producer that is closed.
func (t *pendingRequests) abandon(owner *Producer) {
	for _, id := range t.of(owner) {
		t.fail(id, owner.running())
	}
}

func (t *pendingRequests) of(owner *Producer) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ids []string
	for id, r := range t.byID {
		if r.owner == owner {
			ids = append(ids, id)
		}
	}
	return ids
}
