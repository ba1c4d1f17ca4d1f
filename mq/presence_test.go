package mq

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/broker"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// register is a broker that only remembers its clients.
type register struct {
	protocol.Broker

	mu      sync.Mutex
	clients map[string][]string // the groups of each
	told    chan struct{}
}

func (r *register) RegisterClient(_ context.Context, req protocol.RegisterClientRequest) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients[req.ClientID] = req.ProducerGroups
	select {
	case r.told <- struct{}{}:
	default:
	}
	return nil
}

func (r *register) UnregisterClient(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.clients, id)
	return nil
}

func (r *register) groups(id string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clients[id]
}

func (r *register) join(t *testing.T, names *broker.NameService, name string) {
	t.Helper()
	r.clients, r.told = map[string][]string{}, make(chan struct{}, 1)
	require.NoError(t, names.RegisterBroker(t.Context(), protocol.RegisterBrokerRequest{
		Cluster: "c", Name: name, Addr: name, Broker: r,
	}))
}

// TestPresenceReachesBrokersThatComeLater registers a client, adds a broker, and
// puts another in the place of the first one.
func TestPresenceReachesBrokersThatComeLater(t *testing.T) {
	var names broker.NameService
	var first, second, third register
	first.join(t, &names, "a")
	groups := []string{"orders"}
	p := presence{
		names: &names, connect: names.Connect, interval: time.Hour, log: slog.New(slog.DiscardHandler),
		request: func() protocol.RegisterClientRequest {
			return protocol.RegisterClientRequest{ClientID: "me", ProducerGroups: groups}
		},
	}
	p.start(t.Context())
	require.Equal(t, groups, first.groups("me"))

	second.join(t, &names, "b")
	<-second.told
	require.NoError(t, names.UnregisterBroker(t.Context(), "a", protocol.MasterID))
	third.join(t, &names, "a")
	<-third.told

	groups = []string{"orders", "invoices"}
	p.update(t.Context())
	require.Equal(t, groups, second.groups("me"))
	require.Equal(t, groups, third.groups("me"))

	require.NoError(t, p.close())
	require.Nil(t, second.groups("me"))
	require.Nil(t, third.groups("me"))
}

// TestPresenceAfterABrokerThatIsClosed tries again when the broker is back.
func TestPresenceAfterABrokerThatIsClosed(t *testing.T) {
	h := openHouse(t)
	require.NoError(t, h.broker.Close())
	p := presence{
		names: h.names, connect: h.names.Connect, interval: time.Millisecond, log: slog.New(slog.DiscardHandler),
		request: func() protocol.RegisterClientRequest { return protocol.RegisterClientRequest{ClientID: "me"} },
	}
	p.start(t.Context())
	data := protocol.BrokerData{Name: "house"}
	require.ErrorIs(t, p.register(t.Context(), data), protocol.ServiceNotAvailable)
	h.openBroker(t)
	require.ErrorIs(t, p.register(t.Context(), data), message.ErrIllegal, "a client without methods")
	require.NoError(t, p.close())
}
