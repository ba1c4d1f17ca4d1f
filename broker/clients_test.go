package broker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// namedClient is a client that only has a name.
type namedClient struct {
	protocol.Client

	name string
}

func TestClientsOfAGroupTakeTurns(t *testing.T) {
	ctx := context.Background()
	b := &Broker{}
	for _, name := range []string{"a", "b", "c"} {
		groups := []string{"orders"}
		if name == "c" {
			groups = []string{"other"}
		}
		require.NoError(t, b.RegisterClient(ctx, protocol.RegisterClientRequest{ClientID: name, ProducerGroups: groups, Client: &namedClient{name: name}}))
	}
	first := map[string]int{}
	for range 10 {
		members := b.clients.producers("orders")
		require.Len(t, members, 2)
		first[members[0].Client.(*namedClient).name]++
	}
	require.Equal(t, map[string]int{"a": 5, "b": 5}, first)
	require.Nil(t, b.clients.producers("nobody"))

	c, ok := b.clients.client("c")
	require.True(t, ok)
	require.Equal(t, "c", c.(*namedClient).name)

	require.NoError(t, b.UnregisterClient(ctx, "a"))
	require.NoError(t, b.UnregisterClient(ctx, "a"))
	require.Len(t, b.clients.producers("orders"), 1)
}

func TestRegisterClientRefuses(t *testing.T) {
	ctx := context.Background()
	b := &Broker{name: "b"}
	for name, req := range map[string]protocol.RegisterClientRequest{
		"no id":     {Client: &namedClient{}},
		"no client": {ClientID: "a"},
		"bad group": {ClientID: "a", Client: &namedClient{}, ProducerGroups: []string{"no group"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := b.RegisterClient(ctx, req)
			require.ErrorIs(t, err, protocol.SystemError)
			require.ErrorIs(t, err, message.ErrIllegal)
		})
	}
	require.Empty(t, b.clients.byID)
	b.closed.Store(true)
	require.ErrorIs(t, b.RegisterClient(ctx, protocol.RegisterClientRequest{ClientID: "a", Client: &namedClient{}}), message.ErrClosed)
}
