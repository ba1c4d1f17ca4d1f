package mq

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

func TestNamespaceNames(t *testing.T) {
	for _, test := range []struct {
		ns            namespace
		name, wrapped string
		unwrapped     string // of wrapped; name when empty
	}{
		{"", "orders", "orders", ""},
		{"", "a%orders", "a%orders", ""},
		{"a", "", "", ""},
		{"a", "orders", "a%orders", ""},
		{"a", "a%orders", "a%orders", "orders"},
		{"a", "b%orders", "a%b%orders", ""},
		{"a", "ab%orders", "a%ab%orders", ""},
		{"a", "a", "a%a", ""},
		{"a", "%RETRY%readers", "%RETRY%a%readers", ""},
		{"a", "%DLQ%readers", "%DLQ%a%readers", ""},
		{"a", "%RETRY%a%readers", "%RETRY%a%readers", "%RETRY%readers"},
		{"a", "%DLQ%a%readers", "%DLQ%a%readers", "%DLQ%readers"},
		{"a", "%LMQ%x", "a%%LMQ%x", ""},
		{"a", "TBW102", "TBW102", ""},
		{"a", "SCHEDULE_TOPIC_XXXX", "SCHEDULE_TOPIC_XXXX", ""},
		{"a", "RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRACE_TOPIC", ""},
		{"a", "rmq_sys_wheel_timer", "rmq_sys_wheel_timer", ""},
		{"a", "DefaultCluster_REPLY_TOPIC", "DefaultCluster_REPLY_TOPIC", ""},
		{"a", "CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS", ""},
		{"a", "CID_mine", "a%CID_mine", ""},
	} {
		require.Equal(t, test.wrapped, test.ns.wrap(test.name), "%q in %q", test.name, test.ns)
		require.Equal(t, test.wrapped, test.ns.wrap(test.wrapped), "wrapping once is enough")
		want := test.unwrapped
		if want == "" {
			want = test.name
		}
		require.Equal(t, want, test.ns.unwrap(test.wrapped), "%q in %q", test.wrapped, test.ns)
		require.Equal(t, len(test.wrapped)-len(test.name), test.ns.adds(test.name))
	}
	for _, other := range []string{"b%orders", "%RETRY%b%readers", "orders", "ab%orders", "%RETRY%readers"} {
		require.Equal(t, other, namespace("a").unwrap(other), "what is not of this namespace stays")
	}
}

func TestNamespaceMisuse(t *testing.T) {
	h := openHouse(t)
	for name, test := range map[string]struct {
		namespace, group string
		want             error
		text             string
	}{
		"percent":             {"a%b", "g", message.ErrIllegal, "Config.Namespace"},
		"character":           {"a b", "g", message.ErrIllegal, "Config.Namespace"},
		"blank":               {" ", "g", message.ErrIllegal, "blank"},
		"long":                {strings.Repeat("n", 128), "g", message.ErrLimit, "Config.Namespace"},
		"long with the group": {"n", strings.Repeat("g", 254), message.ErrLimit, "with namespace n: group: 256 bytes, limit is 255"},
		"reserved group":      {"n", "DEFAULT_PRODUCER", message.ErrIllegal, "choose another"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewProducer(ProducerConfig{Group: test.group, Namespace: test.namespace, NameService: h.names, Connect: h.names.Connect})
			require.ErrorIs(t, err, test.want)
			require.ErrorContains(t, err, test.text)
			require.Equal(t, protocol.NoCode, CodeOf(err))
		})
	}
	base := ConsumerConfig{Topic: "t", Group: "g", NameService: h.names, Connect: h.names.Connect}
	for text, change := range map[string]func(*ConsumerConfig){
		"Config.Namespace": func(c *ConsumerConfig) { c.Namespace = "a%b" },
		"group: 121 bytes, limit is 120": func(c *ConsumerConfig) {
			c.Namespace, c.Group = "n", strings.Repeat("g", 119)
		},
		"topic: 128 bytes": func(c *ConsumerConfig) { c.Namespace, c.Topic = "n", strings.Repeat("t", 126) },
	} {
		cfg := base
		change(&cfg)
		_, err := NewConsumer(t.Context(), cfg)
		require.ErrorContains(t, err, text)
	}
	_, err := NewReader(t.Context(), ReaderConfig{Topic: "t", Namespace: "%", NameService: h.names, Connect: h.names.Connect})
	require.ErrorIs(t, err, message.ErrIllegal)

	p := h.producerIn(t, "ns")
	long := text(t, strings.Repeat("t", 125), "x")
	full := &message.Message{Topic: "t", Body: []byte("x"), Properties: propertiesOf(MaxPropertiesLength - len("\x02INSTANCE_ID\x01ns") + 1)}
	for _, test := range []struct {
		m    *message.Message
		text string
	}{{long, "with namespace ns: topic: 128 bytes, limit is 127"}, {full, "properties with the namespace: 32590 bytes, limit is 32589"}} {
		_, err := p.Send(t.Context(), test.m)
		require.ErrorIs(t, err, message.ErrLimit)
		require.ErrorContains(t, err, test.text)
		_, err = p.SendBatch(t.Context(), []*message.Message{test.m})
		require.ErrorContains(t, err, "message 0 of the batch: "+test.text)
	}
	full.Properties = propertiesOf(MaxPropertiesLength - len("\x02INSTANCE_ID\x01ns"))
	_, err = p.Send(t.Context(), full)
	require.NoError(t, err)
	topics, err := h.broker.ListTopics(t.Context())
	require.NoError(t, err)
	require.Len(t, topics, 1, "what was refused made no topic")
}

// producerIn is a producer with a namespace.
func (h *house) producerIn(t *testing.T, ns string) *Producer {
	t.Helper()
	p, err := NewProducer(ProducerConfig{
		Group: "senders", Namespace: ns, NameService: h.names, Connect: h.names.Connect, MaxMessageSize: 64 << 10,
	})
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// TestNamespacesApart sends in two namespaces and in none to the same topic, in
// all ways, and everybody gets their own.
func TestNamespacesApart(t *testing.T) {
	h := openHouse(t)
	for _, ns := range []string{"", "a", "b"} {
		p := h.producerIn(t, ns)
		m := text(t, "orders", ns+"/one")
		before := *m
		r, err := p.Send(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, before, *m, "the caller's message is not modified")
		require.Equal(t, "orders", r.Queue.Topic)

		wrapped := text(t, namespace(ns).wrap("orders"), ns+"/two")
		r, err = p.SendToQueue(t.Context(), wrapped, queue("orders", 1))
		require.NoError(t, err)
		require.Equal(t, queue("orders", 1), r.Queue, "also of a topic that had its namespace")

		r, err = p.SendSelected(t.Context(), wrapped, func(queues []protocol.MessageQueue, m *message.Message, _ string) protocol.MessageQueue {
			require.Equal(t, "orders", m.Topic)
			require.Equal(t, "orders", queues[0].Topic)
			return queues[2]
		}, "")
		require.NoError(t, err)
		require.Equal(t, queue("orders", 2), r.Queue)

		results, err := p.SendBatch(t.Context(), []*message.Message{text(t, "orders", ns+"/three"), text(t, "orders", ns+"/four")})
		require.NoError(t, err)
		require.Equal(t, "orders", results[1].Queue.Topic)

		queues, err := p.Queues(t.Context(), "orders")
		require.NoError(t, err)
		require.Equal(t, "orders", queues[0].Topic)
	}
	topics, err := h.broker.ListTopics(t.Context())
	require.NoError(t, err)
	var names []string
	for _, topic := range topics {
		names = append(names, topic.Name)
	}
	require.Equal(t, []string{"a%orders", "b%orders", "orders"}, names)

	for _, ns := range []string{"", "a", "b"} {
		c := h.consumer(t, ConsumerConfig{Topic: "orders", Namespace: ns})
		var bodies []string
		for range 5 {
			m, err := c.Receive(soon(t))
			require.NoError(t, err)
			require.Equal(t, "orders", m.Topic)
			id, _ := m.Properties.Get("INSTANCE_ID")
			require.Equal(t, ns, id)
			bodies = append(bodies, string(m.Body))
		}
		require.ElementsMatch(t, []string{ns + "/one", ns + "/two", ns + "/two", ns + "/three", ns + "/four"}, bodies)
		require.NoError(t, c.CommitSync(t.Context()))

		r, err := NewReader(t.Context(), ReaderConfig{Topic: "orders", Namespace: ns, NameService: h.names, Connect: h.names.Connect})
		require.NoError(t, err)
		n := 0
		for m, err := range r.Messages(soon(t)) {
			require.NoError(t, err)
			require.Equal(t, "orders", m.Topic)
			n++
		}
		require.Equal(t, 5, n)
		require.NoError(t, r.Close())
	}
	off, err := h.broker.QueryConsumerOffset(t.Context(), protocol.QueryConsumerOffsetRequest{Group: "a%readers", Topic: "a%orders", QueueID: 1})
	require.NoError(t, err)
	require.Positive(t, off)
}

// TestNamespaceOfRetries sends a message back to a group in a namespace.
func TestNamespaceOfRetries(t *testing.T) {
	h := openHouse(t)
	_, err := h.producerIn(t, "a").Send(t.Context(), text(t, "orders", "x"))
	require.NoError(t, err)
	c := h.consumer(t, ConsumerConfig{Topic: "orders", Namespace: "a"})
	m, err := c.Receive(soon(t))
	require.NoError(t, err)
	require.NoError(t, c.Retry(t.Context(), m, RetryNever))
	_, err = h.broker.GetTopic(t.Context(), "%DLQ%a%readers")
	require.NoError(t, err)
	require.NoError(t, c.Retry(t.Context(), m, 1))
	again, err := c.Receive(soon(t))
	require.NoError(t, err)
	require.Equal(t, "orders", again.Topic)
	require.EqualValues(t, 1, again.ReconsumeTimes)

	dead := h.consumer(t, ConsumerConfig{Topic: "%DLQ%readers", Group: "undertakers", Namespace: "a"})
	m, err = dead.Receive(soon(t))
	require.NoError(t, err)
	require.Equal(t, "%DLQ%readers", m.Topic)
}
