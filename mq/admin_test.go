package mq

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

func (w *town) admin(t *testing.T) *Admin {
	t.Helper()
	a, err := NewAdmin(AdminConfig{NameService: &w.names, Connect: w.connect})
	require.NoError(t, err)
	return a
}

// settle waits until everything that was sent can be read and found by key.
func (w *town) settle(t *testing.T) {
	t.Helper()
	for _, s := range w.stores {
		require.NoError(t, s.WaitDispatched(soon(t), s.MaxOffset()))
		require.NoError(t, s.WaitIndexed(soon(t), s.MaxOffset()))
	}
}

func on(broker, topic string, id int32) protocol.MessageQueue {
	return protocol.MessageQueue{Topic: topic, BrokerName: broker, QueueID: id}
}

func TestAdminTopics(t *testing.T) {
	w := openTown(t, map[string]store.Config{"a": {}, "b": {}})
	a, ctx := w.admin(t), t.Context()
	require.NoError(t, a.CreateTopic(ctx, protocol.TopicConfig{Name: "orders", ReadQueueNums: 3, WriteQueueNums: 3, Order: true, MaxDepth: 7}))
	require.NoError(t, a.UpdateTopic(ctx, "orders", func(c *protocol.TopicConfig) { c.WriteQueueNums = 2 }))
	topics, err := a.Topics(ctx)
	require.NoError(t, err)
	orders := protocol.TopicConfig{Name: "orders", ReadQueueNums: 3, WriteQueueNums: 2, Perm: protocol.PermReadWrite, Order: true, MaxDepth: 7}
	plain := protocol.TopicConfig{Name: "t", ReadQueueNums: 2, WriteQueueNums: 2, Perm: protocol.PermReadWrite}
	require.Equal(t, []Topic{{"a", orders}, {"b", orders}, {"a", plain}, {"b", plain}}, topics)

	p := w.producer(t, ProducerConfig{})
	for range 4 { // in turn
		_, err := p.Send(ctx, text(t, "t", "x"))
		require.NoError(t, err)
	}
	w.settle(t)
	stats, err := a.TopicStats(ctx, "t")
	require.NoError(t, err)
	require.Len(t, stats, 4)
	for i, q := range []protocol.MessageQueue{on("a", "t", 0), on("a", "t", 1), on("b", "t", 0), on("b", "t", 1)} {
		require.Equal(t, q, stats[i].Queue)
		require.EqualValues(t, 1, stats[i].MaxOffset)
		require.Positive(t, stats[i].LastUpdate)
	}
	off, err := a.SearchOffset(ctx, on("b", "t", 1), stats[3].LastUpdate+1)
	require.NoError(t, err)
	require.EqualValues(t, 1, off)

	require.NoError(t, a.DeleteTopic(ctx, "t"))
	require.ErrorIs(t, a.DeleteTopic(ctx, "t"), protocol.TopicNotExist)
	_, err = a.TopicStats(ctx, "t")
	require.ErrorIs(t, err, protocol.TopicNotExist)
	require.ErrorIs(t, a.UpdateTopic(ctx, "t", func(*protocol.TopicConfig) {}), protocol.TopicNotExist)
	require.ErrorIs(t, a.DeleteTopic(ctx, "a b"), message.ErrIllegal)

	info, err := a.RuntimeInfo(ctx)
	require.NoError(t, err)
	require.Len(t, info, 2)
	require.NotEmpty(t, info["b"][protocol.InfoVersion])
}

func TestAdminGroups(t *testing.T) {
	w := openTown(t, map[string]store.Config{"a": {}, "b": {}})
	a, ctx := w.admin(t), t.Context()
	p := w.producer(t, ProducerConfig{})
	for range 8 {
		_, err := p.Send(ctx, text(t, "t", "x"))
		require.NoError(t, err)
	}
	w.settle(t)
	_, err := a.ConsumeStats(ctx, "g", "t")
	require.ErrorIs(t, err, protocol.SubscriptionGroupNotExist)
	_, err = a.ResetOffset(ctx, "g", "t", 0, false)
	require.ErrorContains(t, err, "broker a: ")
	require.ErrorContains(t, err, "broker b: ")

	now, err := a.ResetOffset(ctx, "g", "t", protocol.EndOfQueue, true)
	require.NoError(t, err)
	require.Equal(t, map[protocol.MessageQueue]message.QueueOffset{on("a", "t", 0): 2, on("a", "t", 1): 2, on("b", "t", 0): 2, on("b", "t", 1): 2}, now)
	require.NoError(t, a.SetOffset(ctx, "g", on("b", "t", 1), 1))
	for _, topic := range []string{"", "t"} {
		stats, err := a.ConsumeStats(ctx, "g", topic)
		require.NoError(t, err)
		require.Len(t, stats, 4)
		require.Equal(t, on("b", "t", 1), stats[3].Queue)
		require.EqualValues(t, 1, stats[3].Lag())
		require.Zero(t, stats[0].Lag())
	}
	require.NoError(t, a.CloneOffsets(ctx, protocol.CloneOffsetsRequest{From: "g", To: "h"}))
	require.NoError(t, a.CloneOffsets(ctx, protocol.CloneOffsetsRequest{From: "g", To: "i", Topic: "t"}))
	groups, err := a.Groups(ctx)
	require.NoError(t, err)
	require.Equal(t, []protocol.SubscriptionGroupConfig{protocol.DefaultSubscriptionGroup("g"), protocol.DefaultSubscriptionGroup("h"), protocol.DefaultSubscriptionGroup("i")}, groups)
	require.NoError(t, a.DeleteGroup(ctx, "g"))
	require.ErrorIs(t, a.DeleteGroup(ctx, "g"), protocol.SubscriptionGroupNotExist)
	require.ErrorIs(t, a.SetOffset(ctx, "h", on("c", "t", 0), 1), protocol.BrokerNotExist)
	require.ErrorIs(t, a.SetOffset(ctx, "h", on("a", "t", 0), 9), message.ErrLimit)
}

// TestAdminQuery has one message on two brokers, as after a send that was tried
// again, and others that are compressed.
func TestAdminQuery(t *testing.T) {
	w := openTown(t, map[string]store.Config{"a": {}, "b": {}})
	a, ctx := w.admin(t), t.Context()
	p := w.producer(t, ProducerConfig{CompressOver: 100})
	long := strings.Repeat("long ", 100)
	const unique = "0A0000010001000000010000000A0000"
	ids := map[string]string{}
	for i, q := range []protocol.MessageQueue{on("b", "t", 0), on("a", "t", 1), on("b", "t", 1)} {
		r, err := p.SendToQueue(ctx, text(t, "t", long+string(rune('0'+i)), "KEYS", "k", "UNIQ_KEY", unique), q)
		require.NoError(t, err)
		ids[r.OffsetMsgID.String()] = q.BrokerName
	}
	w.settle(t)
	found, err := a.QueryMessage(ctx, protocol.QueryMessageRequest{Topic: "t", Key: "k"})
	require.NoError(t, err)
	require.Len(t, found, 3)
	for _, m := range found {
		require.True(t, strings.HasPrefix(string(m.Body), long), "inflated")
	}
	found, err = a.QueryMessage(ctx, protocol.QueryMessageRequest{Topic: "t", Key: "k", MaxNum: 2})
	require.NoError(t, err)
	require.Len(t, found, 2)
	found, err = a.QueryMessage(ctx, protocol.QueryMessageRequest{Topic: "t", Key: unique, Unique: true})
	require.NoError(t, err)
	require.Len(t, found, 1)
	_, err = a.QueryMessage(ctx, protocol.QueryMessageRequest{Topic: "t", Key: "other"})
	require.ErrorIs(t, err, protocol.QueryNotFound)
	for id, broker := range ids {
		m, err := a.ViewMessage(ctx, id)
		require.NoError(t, err)
		require.Equal(t, broker, m.BrokerName)
		require.True(t, strings.HasPrefix(string(m.Body), long))
	}
	for id, want := range map[string]string{
		"":                                 "has 0 characters, not 32 or 56",
		"xyz":                              "has 3 characters",
		strings.Repeat("z", 32):            "is not hexadecimal",
		"0A0000010000A9F80000000000000000": "is of no broker there is: its address is 10.0.0.1:43512",
	} {
		_, err := a.ViewMessage(ctx, id)
		require.ErrorIs(t, err, protocol.NoMessage)
		require.ErrorIs(t, err, message.ErrIllegal)
		require.ErrorContains(t, err, want)
	}
}

// TestAdminBrokerDown says which broker failed, and gives what the others have.
func TestAdminBrokerDown(t *testing.T) {
	w := openTown(t, map[string]store.Config{"a": {}, "b": {}})
	down := errors.New("down")
	a, err := NewAdmin(AdminConfig{NameService: &w.names, Connect: func(ctx context.Context, b protocol.BrokerData) (protocol.Broker, error) {
		if b.Name == "a" {
			return nil, down
		}
		return w.connect(ctx, b)
	}})
	require.NoError(t, err)
	topics, err := a.Topics(t.Context())
	require.ErrorIs(t, err, down)
	require.ErrorContains(t, err, "broker a: ")
	require.Len(t, topics, 1)
	err = a.DeleteTopic(t.Context(), "t")
	require.ErrorIs(t, err, down)
	topics, err = a.Topics(t.Context())
	require.ErrorIs(t, err, down)
	require.Empty(t, topics, "deleted where it could be")

	_, err = NewAdmin(AdminConfig{})
	require.ErrorIs(t, err, message.ErrIllegal)
	_, err = NewAdmin(AdminConfig{NameService: &w.names, Connect: w.connect, MaxInflatedBody: -1})
	require.ErrorIs(t, err, message.ErrLimit)
	nobody := &town{}
	_, err = nobody.admin(t).Topics(t.Context())
	require.ErrorIs(t, err, protocol.BrokerNotExist)
}

// TestFullTopicIsNoFault has a topic that is full on one broker: the producer goes to
// the other one, and does not keep away from the first for other topics.
func TestFullTopicIsNoFault(t *testing.T) {
	w := openTown(t, map[string]store.Config{"a": {}, "b": {}})
	ctx := t.Context()
	require.NoError(t, w.admin(t).CreateTopic(ctx, protocol.TopicConfig{Name: "orders", ReadQueueNums: 1, WriteQueueNums: 1}))
	b, err := w.names.Connect(ctx, protocol.BrokerData{Name: "a"})
	require.NoError(t, err)
	require.NoError(t, b.CreateTopic(ctx, protocol.TopicConfig{Name: "orders", ReadQueueNums: 1, WriteQueueNums: 1, MaxDepth: 1}))
	p := w.producer(t, ProducerConfig{})
	for range 10 {
		r, err := p.Send(ctx, text(t, "orders", "x"))
		require.NoError(t, err)
		require.LessOrEqual(t, r.Attempts, 2)
	}
	w.settle(t)
	require.EqualValues(t, 1, w.stores["a"].MaxOffsetInQueue("orders", 0))
	require.EqualValues(t, 9, w.stores["b"].MaxOffsetInQueue("orders", 0))
	for range 12 {
		_, err := p.Send(ctx, text(t, "t", "x"))
		require.NoError(t, err)
	}
	w.settle(t)
	require.EqualValues(t, 6, w.stores["a"].MaxOffsetInQueue("t", 0)+w.stores["a"].MaxOffsetInQueue("t", 1), "in turn")
}

// TestConsumerOutlivesItsTopic has a topic deleted and made again under a consumer,
// which goes on with the messages of the new one and gets none of the old one twice.
func TestConsumerOutlivesItsTopic(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 2)
	a, err := NewAdmin(AdminConfig{NameService: h.names, Connect: h.names.Connect})
	require.NoError(t, err)
	p, c := h.producer(t), h.consumer(t, ConsumerConfig{Topic: "orders"})
	ctx := soon(t)
	receive := func() string {
		t.Helper()
		for {
			m, err := c.Receive(ctx)
			if errors.Is(err, protocol.TopicNotExist) {
				continue // while there was none
			}
			require.NoError(t, err)
			return string(m.Body)
		}
	}
	for _, body := range []string{"a", "b", "c"} {
		_, err := p.SendToQueue(ctx, text(t, "orders", body), queue("orders", 1))
		require.NoError(t, err)
		require.Equal(t, body, receive())
		require.NoError(t, c.CommitSync(ctx))
		require.NoError(t, a.DeleteTopic(ctx, "orders"))
		h.createTopic(t, "orders", 2)
	}
}
