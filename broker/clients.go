package broker

import (
	"context"
	"slices"
	"sync"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// clientTable is who is connected. The zero value is empty; its methods may be
// called concurrently.
//
// Source: RocketMQ broker/client/ProducerManager.java.
type clientTable struct {
	mu   sync.Mutex
	byID map[string]protocol.RegisterClientRequest
	turn uint // of the member of a group that is asked next
}

// client returns a client by its id.
func (t *clientTable) client(id string) (protocol.Client, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.byID[id]
	return c.Client, ok
}

// producers returns the clients that have a producer of the group, a different
// one first each time.
func (t *clientTable) producers(group string) []protocol.RegisterClientRequest {
	members := t.producersOf(group)
	if len(members) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn++
	first := int(t.turn % uint(len(members)))
	return slices.Concat(members[first:], members[:first])
}

// RegisterClient makes a client known, or replaces what is known about it.
func (b *Broker) RegisterClient(_ context.Context, req protocol.RegisterClientRequest) error {
	if err := b.open(); err != nil {
		return err
	}
	if req.ClientID == "" {
		return refuse(protocol.SystemError, "", &message.IllegalError{Field: "client id", Reason: "is empty"})
	}
	if req.Client == nil {
		return refuse(protocol.SystemError, "", &message.IllegalError{Field: "client", Value: req.ClientID, Reason: "is missing"})
	}
	for _, group := range slices.Concat(req.ProducerGroups, req.ConsumerGroups) {
		if err := protocol.CheckGroup(group); err != nil {
			return refuse(protocol.SystemError, "client "+req.ClientID, err)
		}
	}
	b.clients.add(req)
	if b.transactions != nil { // not under the table's lock: transactions look into it under theirs
		b.transactions.joined(req.ProducerGroups)
	}
	return nil
}

func (t *clientTable) add(req protocol.RegisterClientRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID = map[string]protocol.RegisterClientRequest{}
	}
	t.byID[req.ClientID] = req
}

// UnregisterClient forgets a client.
func (b *Broker) UnregisterClient(_ context.Context, clientID string) error {
	b.clients.mu.Lock()
	defer b.clients.mu.Unlock()
	delete(b.clients.byID, clientID)
	return nil
}
