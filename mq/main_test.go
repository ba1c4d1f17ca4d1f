package mq

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pocketmq/pocketmq/broker"
	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

func TestMain(m *testing.M) {
	if err := os.Setenv("TMPDIR", crashfs.Dir()); err != nil { // where files cost least
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// house is a store, its broker and its name service.
type house struct {
	store  *store.DefaultMessageStore
	broker *broker.Broker
	names  *broker.NameService
}

func openHouse(t *testing.T) *house {
	t.Helper()
	h := &house{names: &broker.NameService{}}
	var err error
	h.store, err = store.Open(t.Context(), t.TempDir(), store.Config{
		Flush: store.FlushAsync, SegmentSize: 1 << 20, ConsumeQueueFileSize: 1000 * 20, MaxBodySize: 64 << 10,
	})
	require.NoError(t, err)
	t.Cleanup(func() { h.store.Close() })
	h.openBroker(t)
	return h
}

// openBroker opens a broker, the first or one more after it was closed. The
// name of its cluster is as long as can be, and so in every record.
func (h *house) openBroker(t *testing.T) {
	t.Helper()
	var err error
	h.broker, err = broker.New(t.Context(), broker.Config{
		Name: "house", Cluster: strings.Repeat("c", 127), Store: h.store, NameService: h.names, TraceTopicEnable: true,
	})
	require.NoError(t, err)
	t.Cleanup(func() { h.broker.Close() })
}

func (h *house) createTopic(t *testing.T, name string, queues int32) {
	t.Helper()
	require.NoError(t, h.broker.CreateTopic(t.Context(), protocol.TopicConfig{Name: name, ReadQueueNums: queues, WriteQueueNums: queues}))
}

func (h *house) producer(t *testing.T) *Producer {
	t.Helper()
	p, err := NewProducer(ProducerConfig{Group: "senders", NameService: h.names, Connect: h.names.Connect, MaxMessageSize: 64 << 10})
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

func (h *house) consumer(t *testing.T, cfg ConsumerConfig) *Consumer {
	t.Helper()
	if cfg.Group == "" {
		cfg.Group = "readers"
	}
	cfg.NameService, cfg.Connect = h.names, h.names.Connect
	c, err := NewConsumer(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// text is a message with a body and properties.
func text(t *testing.T, topic, body string, properties ...string) *message.Message {
	t.Helper()
	p, err := message.NewProperties(properties...)
	require.NoError(t, err)
	return &message.Message{Topic: topic, Body: []byte(body), Properties: p}
}

func queue(topic string, id int32) protocol.MessageQueue {
	return protocol.MessageQueue{Topic: topic, BrokerName: "house", QueueID: id}
}

// soon is long enough for everything that is expected, and not for ever.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// fakeBroker answers sends as a test wants; nothing else.
type fakeBroker struct {
	protocol.Broker

	send  func(protocol.SendMessageRequest) (protocol.SendMessageResponse, error)
	batch func(protocol.SendMessageBatchRequest) (protocol.SendMessageBatchResponse, error)
	sends int
}

func (b *fakeBroker) SendMessageBatch(_ context.Context, req protocol.SendMessageBatchRequest) (protocol.SendMessageBatchResponse, error) {
	b.sends++
	return b.batch(req)
}

func (b *fakeBroker) SendMessage(_ context.Context, req protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
	b.sends++
	return b.send(req)
}

// Writable is what a broker says that takes messages.
func (b *fakeBroker) Writable(context.Context) error { return nil }

// fakeNames has one route for every topic, and a broker for every name.
type fakeNames struct {
	protocol.NameService

	route   func(topic string) (protocol.TopicRoute, error)
	list    func() ([]protocol.BrokerData, error) // nil: there are no brokers to register with
	brokers map[string]protocol.Broker
	changed chan<- struct{}
}

func (n *fakeNames) RouteOfTopic(_ context.Context, topic string) (protocol.TopicRoute, error) {
	return n.route(topic)
}

func (n *fakeNames) ListBrokers(context.Context) ([]protocol.BrokerData, error) {
	if n.list == nil {
		return nil, nil
	}
	return n.list()
}

func (n *fakeNames) WatchRoutes(ch chan<- struct{}) (stop func()) {
	n.changed = ch
	return func() {}
}

func (n *fakeNames) connect(_ context.Context, b protocol.BrokerData) (protocol.Broker, error) {
	if n.brokers[b.Name] == nil {
		return nil, &protocol.Error{Code: protocol.ServiceNotAvailable, Remark: "no " + b.Name}
	}
	return n.brokers[b.Name], nil
}

// routeOf is a route over brokers with so many queues each.
func routeOf(queues int32, names ...string) protocol.TopicRoute {
	var r protocol.TopicRoute
	for _, name := range names {
		r.Queues = append(r.Queues, protocol.QueueData{
			BrokerName: name, ReadQueueNums: queues, WriteQueueNums: queues, Perm: protocol.PermReadWrite,
		})
		r.Brokers = append(r.Brokers, protocol.BrokerData{Name: name, Addrs: map[int64]string{0: "x"}})
	}
	return r
}
