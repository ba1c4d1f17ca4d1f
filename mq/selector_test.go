package mq

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// queuesOf are queues of topic t on brokers.
func queuesOf(n int32, brokers ...string) []protocol.MessageQueue {
	r := routeOf(n, brokers...)
	return r.WriteQueues("t")
}

// TestSelectorVectors has the choice of each selector for fixed keys: a change
// would tear the order of what applications have sent.
func TestSelectorVectors(t *testing.T) {
	queues := queuesOf(4, "a", "b")
	m := text(t, "t", "x", "__SHARDINGKEY", "order-1")
	for _, test := range []struct {
		name     string
		selector QueueSelector
		key      string
		want     string
	}{
		{"xxhash", SelectByKey, "", "t@a:1"},        // EF46DB3751D8E999
		{"xxhash", SelectByKey, "a", "t@a:3"},       // D24EC4F1A98C6E5B
		{"xxhash", SelectByKey, "abc", "t@a:1"},     // 44BC2CF5AD770999
		{"java", SelectByJavaHash, "TagA", "t@b:3"}, // 2598919
		{"java", SelectByJavaHash, "TagB", "t@a:0"}, // 2598920
		{"java", SelectByJavaHash, "", "t@a:0"},
		{"java, lowest hash", SelectByJavaHash, "polygenelubricants", "t@a:0"},
		{"java, Integer -3", SelectByJavaHashCode(-3), "", "t@a:3"},
		{"java, Integer lowest", SelectByJavaHashCode(-1 << 31), "", "t@a:0"},
		{"fnv", SelectByShardingKey, "", "t@b:1"},
	} {
		t.Run(test.name+" "+test.key, func(t *testing.T) {
			require.Equal(t, test.want, test.selector(queues, m, test.key).String())
		})
	}
	three := queuesOf(3, "a")
	require.Equal(t, "t@a:2", SelectByJavaHash(three, m, "polygenelubricants").String(), "-2147483648 % 3 is -2")
}

// TestSelectRendezvous counts the keys that move when a queue comes or goes.
func TestSelectRendezvous(t *testing.T) {
	const keys = 8000
	before, after := queuesOf(8, "a"), queuesOf(9, "a")
	hits := map[protocol.MessageQueue]int{}
	moved, movedByKey := 0, 0
	for i := range keys {
		key := fmt.Sprint("key-", i)
		was, is := SelectRendezvous(before, nil, key), SelectRendezvous(after, nil, key)
		hits[was]++
		if was != is {
			moved++
			require.Equal(t, after[8], is, "a key moves to the new queue or not at all")
		}
		if SelectByKey(before, nil, key) != SelectByKey(after, nil, key) {
			movedByKey++
		}
	}
	require.InDelta(t, keys/9, moved, keys/50)
	require.Greater(t, movedByKey, keys/2)
	for q, n := range hits {
		require.InDelta(t, keys/8, n, keys/40, "%v", q)
	}
	require.Equal(t, "t@a:3", SelectRendezvous(queuesOf(4, "a", "b"), nil, "abc").String())
}

func TestSelectInTurnAndRandom(t *testing.T) {
	queues := queuesOf(2, "a", "b")
	hits := map[protocol.MessageQueue]int{}
	inTurn := SelectRoundRobin()
	for range 40 {
		hits[inTurn(queues, nil, "same key")]++
	}
	require.Len(t, hits, 4)
	for q, n := range hits {
		require.Equal(t, 10, n, "%v", q)
	}
	hits = map[protocol.MessageQueue]int{}
	for range 400 {
		hits[SelectRandom(queues, nil, "same key")]++
	}
	require.Len(t, hits, 4)
}

func TestSelectRooms(t *testing.T) {
	hits := map[string]int{}
	near := SelectRooms("east", "north")
	for range 30 {
		hits[near(queuesOf(1, "east@a", "east@b", "north@c", "west@d", "east"), nil, "").BrokerName]++
	}
	require.Equal(t, map[string]int{"east@a": 10, "east@b": 10, "north@c": 10}, hits)
	require.Zero(t, SelectRooms("south")(queuesOf(1, "east@a"), nil, ""))
}

func TestSendSelected(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	h.createTopic(t, "orders", 5)
	for name, selector := range map[string]QueueSelector{
		"key": SelectByKey, "rendezvous": SelectRendezvous, "java": SelectByJavaHash,
		"custom": func(queues []protocol.MessageQueue, m *message.Message, key string) protocol.MessageQueue {
			chosen := queues[len(key)%len(queues)]
			clear(queues) // its own
			m.Topic = ""  // its own as well
			return chosen
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range 20 {
				key := fmt.Sprint(name, i)
				first, err := p.SendSelected(t.Context(), text(t, "orders", "x"), selector, key)
				require.NoError(t, err)
				second, err := p.SendSelected(t.Context(), text(t, "orders", "x"), selector, key)
				require.NoError(t, err)
				require.Equal(t, first.Queue, second.Queue)
				require.Equal(t, first.QueueOffset+1, second.QueueOffset)
				results, err := p.SendBatchSelected(t.Context(), []*message.Message{text(t, "orders", "x"), text(t, "orders", "y")}, selector, key)
				require.NoError(t, err)
				require.Equal(t, first.Queue, results[1].Queue)
			}
		})
	}
	queues, err := p.Queues(t.Context(), "orders")
	require.NoError(t, err)
	require.Len(t, queues, 5)
	require.NotContains(t, queues, protocol.MessageQueue{}, "what a selector does to its slice concerns nobody")
}

func TestSelectErrors(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	h.createTopic(t, "orders", 2)
	errOwn := errors.New("own")
	always := func(q protocol.MessageQueue) QueueSelector {
		return func([]protocol.MessageQueue, *message.Message, string) protocol.MessageQueue { return q }
	}
	for _, test := range []struct {
		name     string
		selector QueueSelector
		want     error
		text     string
	}{
		{"panic", func([]protocol.MessageQueue, *message.Message, string) protocol.MessageQueue { panic("ouch") }, ErrSelectPanicked, "ouch"},
		{"panic with an error", func([]protocol.MessageQueue, *message.Message, string) protocol.MessageQueue { panic(errOwn) }, errOwn, "panicked"},
		{"none", always(protocol.MessageQueue{}), ErrSelectedNone, "orders"},
		{"other topic", always(queue("letters", 0)), ErrSelectedOther, "letters@house:0"},
		{"too high", always(queue("orders", 2)), ErrSelectedOther, "orders@house:2"},
		{"other broker", always(protocol.MessageQueue{Topic: "orders", BrokerName: "x"}), ErrSelectedOther, "orders@x:0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := p.SendSelected(t.Context(), text(t, "orders", "x"), test.selector, "k")
			var selectErr *SelectError
			require.ErrorAs(t, err, &selectErr)
			require.ErrorIs(t, err, test.want)
			require.ErrorContains(t, err, test.text)
			_, err = p.SendBatchSelected(t.Context(), []*message.Message{text(t, "orders", "x")}, test.selector, "k")
			require.ErrorIs(t, err, test.want)
		})
	}
	_, err := p.SendSelected(t.Context(), text(t, "orders", "x"), nil, "k")
	require.ErrorIs(t, err, message.ErrIllegal)
	_, err = p.SendSelected(t.Context(), text(t, "a!", "x"), SelectByKey, "k")
	require.ErrorIs(t, err, message.ErrIllegal)
	_, err = p.SendBatchSelected(t.Context(), nil, SelectByKey, "k")
	require.ErrorIs(t, err, message.ErrIllegal)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.SendSelected(ended, text(t, "orders", "x"), SelectByKey, "k")
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, h.store.Queues(), "nothing was sent")
	require.NoError(t, p.Close())
	_, err = p.SendSelected(t.Context(), text(t, "orders", "x"), SelectByKey, "k")
	require.ErrorIs(t, err, message.ErrClosed)
	_, err = p.SendBatchSelected(t.Context(), []*message.Message{text(t, "orders", "x")}, SelectByKey, "k")
	require.ErrorIs(t, err, message.ErrClosed)
}
