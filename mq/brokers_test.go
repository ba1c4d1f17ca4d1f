package mq

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/broker"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// town is several houses with one name service, each on a store of its own. A
// test may put something before a broker.
type town struct {
	names  broker.NameService
	stores map[string]*store.DefaultMessageStore
	before map[string]func(protocol.Broker) protocol.Broker
}

// openTown has a broker for each configuration, and topic t with two queues on
// each.
func openTown(t *testing.T, configs map[string]store.Config) *town {
	t.Helper()
	w := &town{stores: map[string]*store.DefaultMessageStore{}, before: map[string]func(protocol.Broker) protocol.Broker{}}
	for name, cfg := range configs {
		cfg.Flush, cfg.SegmentSize, cfg.ConsumeQueueFileSize, cfg.MaxBodySize = store.FlushAsync, 1<<20, 1000*20, 64<<10
		s, err := store.Open(t.Context(), t.TempDir(), cfg)
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		b, err := broker.New(t.Context(), broker.Config{Name: name, Store: s, NameService: &w.names})
		require.NoError(t, err)
		t.Cleanup(func() { b.Close() })
		require.NoError(t, b.CreateTopic(t.Context(), protocol.TopicConfig{Name: "t", ReadQueueNums: 2, WriteQueueNums: 2}))
		w.stores[name] = s
	}
	return w
}

func (w *town) connect(ctx context.Context, data protocol.BrokerData) (protocol.Broker, error) {
	b, err := w.names.Connect(ctx, data)
	if before := w.before[data.Name]; err == nil && before != nil {
		return before(b), nil
	}
	return b, err
}

func (w *town) producer(t *testing.T, cfg ProducerConfig) *Producer {
	t.Helper()
	cfg.Group, cfg.NameService, cfg.Connect, cfg.MaxMessageSize = "senders", &w.names, w.connect, 64<<10
	p, err := NewProducer(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// TestFullAndSlowBrokers sends through a broker without room, a slow one and a
// healthy one. Every message is kept, and but for the first ones all go to the
// healthy broker. The clock is the test's own: only the slow one is slow by it.
func TestFullAndSlowBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openTown(t, map[string]store.Config{"full": {MaxBytes: 4 << 20}, "slow": {}, "well": {}})
		slow := &flaky{refuses: errors.New("slow"), fail: func(ctx context.Context) error {
			select { // longer than any attempt may take
			case <-ctx.Done():
				return &protocol.Error{Code: protocol.SystemError, Err: ctx.Err()}
			case <-time.After(time.Minute):
				return errors.New("nobody stopped waiting")
			}
		}}
		w.before["slow"] = func(b protocol.Broker) protocol.Broker { slow.Broker = b; return slow }
		p := w.producer(t, ProducerConfig{AttemptTimeout: time.Second, Faults: FaultPolicy{
			LatencyMax: []time.Duration{time.Hour}, NotAvailable: []time.Duration{time.Hour},
			Isolation: time.Hour, MaxNotAvailable: time.Hour, ProbeInterval: time.Millisecond,
		}})

		fill := protocol.MessageQueue{Topic: "t", BrokerName: "full"}
		var err error
		for err == nil {
			_, err = p.SendToQueue(t.Context(), text(t, "t", string(make([]byte, 60_000))), fill)
		}
		require.ErrorIs(t, err, message.ErrDiskFull)
		require.Equal(t, protocol.ServiceNotAvailable, CodeOf(err))
		full, err := w.names.Connect(t.Context(), protocol.BrokerData{Name: "full"})
		require.NoError(t, err)
		err = full.Writable(t.Context())
		require.ErrorIs(t, err, message.ErrDiskFull)
		require.ErrorIs(t, err, protocol.ServiceNotAvailable)

		attempts := 0
		const messages = 200
		for range messages {
			r, err := p.Send(t.Context(), text(t, "t", string(make([]byte, 30_000))))
			require.NoError(t, err)
			require.Equal(t, "well", r.Queue.BrokerName)
			attempts += r.Attempts
		}
		require.LessOrEqual(t, attempts, messages+1, "the slow one was met once, the full one was known")
		require.EqualValues(t, 1, slow.sends.Load())
		require.NoError(t, w.stores["well"].WaitDispatched(t.Context(), w.stores["well"].MaxOffset()))
		var stored int64
		for _, q := range w.stores["well"].Queues() {
			stored += int64(q.MaxOffset)
		}
		require.EqualValues(t, messages, stored, "each once")
	})
}

// TestWritable is the broker's answer in each state.
func TestWritable(t *testing.T) {
	h := openHouse(t)
	require.NoError(t, h.broker.Writable(t.Context()))
	require.NoError(t, h.store.Close())
	err := h.broker.Writable(t.Context())
	require.ErrorIs(t, err, protocol.ServiceNotAvailable)
	require.ErrorIs(t, err, message.ErrClosed)
	require.NoError(t, h.broker.Close())
	require.ErrorIs(t, h.broker.Writable(t.Context()), message.ErrClosed)
}

// TestCodes has the code of each error that a send may have.
func TestCodes(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	h.createTopic(t, "orders", 1)
	require.NoError(t, h.broker.CreateTopic(t.Context(), protocol.TopicConfig{
		Name: "read", ReadQueueNums: 1, WriteQueueNums: 1, Perm: protocol.PermRead,
	}))
	send := func(m *message.Message) error { _, err := p.Send(t.Context(), m); return err }
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	unnamed := &fakeNames{route: func(string) (protocol.TopicRoute, error) { return protocol.TopicRoute{}, errors.New("down") }}
	noRoute := &fakeNames{route: func(string) (protocol.TopicRoute, error) { return protocol.TopicRoute{}, protocol.TopicNotExist }}
	noConnection := &fakeNames{route: func(string) (protocol.TopicRoute, error) { return routeOf(1, "a"), nil }}
	through := func(n *fakeNames) error {
		p, err := NewProducer(ProducerConfig{Group: "g", NameService: n, Connect: n.connect})
		require.NoError(t, err)
		defer p.Close()
		_, err = p.Send(t.Context(), text(t, "t", "x"))
		return err
	}
	for _, test := range []struct {
		name string
		err  error
		want protocol.ResponseCode
		text string
	}{
		{"none", send(text(t, "orders", "x")), 0, "SUCCESS"},
		{"nil message", send(nil), 13, "MESSAGE_ILLEGAL"},
		{"nil body", send(&message.Message{Topic: "orders"}), 13, "MESSAGE_ILLEGAL"},
		{"empty body", send(&message.Message{Topic: "orders", Body: []byte{}}), 13, "MESSAGE_ILLEGAL"},
		{"long body", send(&message.Message{Topic: "orders", Body: make([]byte, 64<<10+1)}), 13, "MESSAGE_ILLEGAL"},
		{"blank topic", send(text(t, " ", "x")), -1, "response code -1"},
		{"illegal topic", send(text(t, "a!", "x")), -1, "response code -1"},
		{"reserved topic", send(text(t, "SCHEDULE_TOPIC_XXXX", "x")), -1, "response code -1"},
		{"given up", func() error { _, err := p.Send(canceled, text(t, "orders", "x")); return err }(), -1, "response code -1"},
		{"no connection", through(noConnection), 10001, "CONNECT_BROKER_EXCEPTION"},
		{"no such broker", func() error {
			_, err := p.SendToQueue(t.Context(), text(t, "orders", "x"), protocol.MessageQueue{Topic: "orders", BrokerName: "x"})
			return err
		}(), 10003, "BROKER_NOT_EXIST_EXCEPTION"},
		{"no name service", through(unnamed), 10004, "NO_NAME_SERVER_EXCEPTION"},
		{"no route", through(noRoute), 10005, "NOT_FOUND_TOPIC_EXCEPTION"},
		{"no queue to write to", send(text(t, "read", "x")), 10005, "NOT_FOUND_TOPIC_EXCEPTION"},
		{"reply", &protocol.Error{Code: 10006}, protocol.RequestTimeout, "REQUEST_TIMEOUT_EXCEPTION"},
		{"reply", protocol.CreateReplyMessage, 10007, "CREATE_REPLY_MESSAGE_EXCEPTION"},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, CodeOf(test.err))
			require.Equal(t, test.text, test.want.String())
		})
	}
}
