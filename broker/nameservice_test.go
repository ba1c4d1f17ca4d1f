package broker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

func TestNameService(t *testing.T) {
	var names NameService
	changed := make(chan struct{}, 1)
	stop := names.WatchRoutes(changed)
	defer stop()
	_, err := names.RouteOfTopic(t.Context(), "orders")
	require.ErrorIs(t, err, protocol.TopicNotExist)

	b := openBroker(t, Config{Name: "b", NameService: &names})
	a := openBroker(t, Config{Name: "a", NameService: &names, NoAutoCreateTopic: true})
	<-changed
	createTopic(t, a, "orders", 2)
	<-changed
	createTopic(t, b, "orders", 3)

	route, err := names.RouteOfTopic(t.Context(), "orders")
	require.NoError(t, err)
	require.Equal(t, protocol.TopicRoute{
		Queues: []protocol.QueueData{
			{BrokerName: "a", ReadQueueNums: 2, WriteQueueNums: 2, Perm: protocol.PermReadWrite},
			{BrokerName: "b", ReadQueueNums: 3, WriteQueueNums: 3, Perm: protocol.PermReadWrite},
		},
		Brokers: []protocol.BrokerData{
			{Cluster: DefaultCluster, Name: "a", Addrs: map[int64]string{0: a.host.String()}},
			{Cluster: DefaultCluster, Name: "b", Addrs: map[int64]string{0: b.host.String()}},
		},
	}, route)
	require.Len(t, route.WriteQueues("orders"), 5)
	require.Equal(t, protocol.MessageQueue{Topic: "orders", BrokerName: "b", QueueID: 0}, route.ReadQueues("orders")[2])

	template, err := names.RouteOfTopic(t.Context(), protocol.TemplateTopic)
	require.NoError(t, err)
	require.Len(t, template.Queues, 1, "only b makes topics on first use")

	got, err := names.Connect(t.Context(), route.Brokers[1])
	require.NoError(t, err)
	require.Same(t, b, got)

	require.NoError(t, b.Close())
	_, err = names.Connect(t.Context(), route.Brokers[1])
	require.ErrorIs(t, err, protocol.ServiceNotAvailable)
	_, err = names.RouteOfTopic(t.Context(), protocol.TemplateTopic)
	require.ErrorIs(t, err, protocol.TopicNotExist)
}

func TestBrokerNamesDiffer(t *testing.T) {
	var names NameService
	openBroker(t, Config{Name: "a", NameService: &names})
	_, err := New(t.Context(), Config{Name: "a", NameService: &names, Store: openStore(t, t.TempDir())})
	require.ErrorIs(t, err, message.ErrIllegal)

	one, two := openBroker(t, Config{NameService: &names}), openBroker(t, Config{NameService: &names})
	require.NotEqual(t, one.Name(), two.Name(), "names are made of the stores' hosts")
	require.NoError(t, protocol.CheckTopic(one.Name()))
}

func TestConfigRefuses(t *testing.T) {
	_, err := New(t.Context(), Config{Cluster: "a b", TopicQueueNums: -1, OffsetPersistInterval: -1,
		TransactionTimeout: -1, TransactionCheckInterval: -1, TransactionCheckMax: -1, TransactionCheckRate: -1, TransactionMaxAge: -1,
	})
	for _, text := range []string{
		"Config.Store", "Config.Cluster", "Config.TopicQueueNums", "Config.OffsetPersistInterval",
		"Config.TransactionTimeout", "Config.TransactionCheckInterval", "Config.TransactionCheckMax (negative): -1",
		"Config.TransactionCheckRate", "Config.TransactionMaxAge",
	} {
		require.ErrorContains(t, err, text)
	}
}
