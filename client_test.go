package pocketmq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/mq"
)

// TestClientsOfNodes has producers with one name: one client within a node, and
// another client of another node.
func TestClientsOfNodes(t *testing.T) {
	one := open(t, pocketmq.Config{Dir: t.TempDir()})
	two := open(t, pocketmq.Config{Dir: t.TempDir()})
	cfg := mq.ProducerConfig{Group: "shop", InstanceName: "till"}
	p, err := one.NewProducer(cfg)
	require.NoError(t, err)
	_, err = one.NewProducer(cfg)
	require.ErrorIs(t, err, pocketmq.ErrGroupExists)
	_, err = two.NewProducer(cfg)
	require.NoError(t, err)
	for range 2 {
		_, err = one.Producer("shop")
		require.NoError(t, err, "without a name each is a client of its own")
	}
	require.NoError(t, p.Close())
	p, err = one.NewProducer(cfg)
	require.NoError(t, err)
	require.NoError(t, one.Close())
	require.Equal(t, mq.StateShutdownAlready, p.State(), "the node closes its producers")
	_, err = p.Send(t.Context(), &pocketmq.Message{Topic: "t", Body: []byte("x")})
	var state *pocketmq.StateError
	require.ErrorAs(t, err, &state)
	require.ErrorIs(t, err, pocketmq.ErrClosed)
}
