package broker

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// TestConsumedIsTheSmallestOffset of the groups that count.
func TestConsumedIsTheSmallestOffset(t *testing.T) {
	b := openBroker(t, Config{})
	createTopic(t, b, "orders", 2)
	commit := func(group string, queueID int32, off message.QueueOffset) {
		require.NoError(t, b.UpdateConsumerOffset(t.Context(), protocol.UpdateConsumerOffsetRequest{
			Group: group, Topic: "orders", Offsets: []protocol.QueuePosition{{QueueID: queueID, Offset: off}},
		}))
	}
	requireConsumed := func(named []string, queueID int32, want message.QueueOffset, registered bool) {
		t.Helper()
		off, ok := b.offsets.consumed(named)("orders", queueID)
		require.Equal(t, registered, ok)
		require.Equal(t, want, off)
	}
	requireConsumed(nil, 0, 0, false)
	commit("a", 0, 7)
	requireConsumed(nil, 0, 7, true)
	requireConsumed(nil, 1, 0, true)
	commit("b", 0, 5)
	requireConsumed(nil, 0, 5, true)
	requireConsumed([]string{"a"}, 0, 7, true)
	requireConsumed([]string{"c"}, 0, 0, false)
	commit("b", 0, 9)
	requireConsumed(nil, 0, 7, true)
	_, ok := b.offsets.consumed(nil)("invoices", 0)
	require.False(t, ok)

	require.NoError(t, b.Close())
	b = openBroker(t, Config{Store: b.store})
	requireConsumed(nil, 0, 7, true)
}

// TestConsumedMessagesAreRemoved through the broker: what a group has committed
// goes, when it is saved, and what a group without RetentionGroups holds does not
// count.
func TestConsumedMessagesAreRemoved(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), store.Config{
		Flush: store.FlushAsync, SegmentSize: 8 << 10, ConsumeQueueFileSize: 100,
		Retention: store.Retention{Groups: store.RemoveConsumed},
	})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	b := openBroker(t, Config{Store: s, RetentionGroups: []string{"billing"}})
	createTopic(t, b, "orders", 1)
	commit := func(group string, off message.QueueOffset) {
		require.NoError(t, b.UpdateConsumerOffset(t.Context(), protocol.UpdateConsumerOffsetRequest{
			Group: group, Topic: "orders", Offsets: []protocol.QueuePosition{{Offset: off}}, Sync: true,
		}))
		_, err := s.DeleteExpired(t.Context()) // by itself it would be soon
		require.NoError(t, err)
	}
	for range 20 {
		send(t, b, "orders", 0, strings.Repeat("b", 3800)) // two in a file
	}
	commit("others", 20)
	require.Zero(t, s.MinOffset())
	commit("billing", 5)
	require.EqualValues(t, 4, s.MinOffsetInQueue("orders", 0))
	commit("others", 0)
	commit("billing", 20)
	require.EqualValues(t, 18, s.MinOffsetInQueue("orders", 0))
	require.NoError(t, b.Close())
	for range 20 {
		_, err := s.PutMessage(t.Context(), &message.MessageExtBrokerInner{MessageExt: message.MessageExt{Message: message.Message{Topic: "orders", Body: make([]byte, 3800)}}})
		require.NoError(t, err)
	}
	_, err = s.RemoveBefore(t.Context(), s.MaxOffset())
	require.NoError(t, err)
	require.EqualValues(t, 18, s.MinOffsetInQueue("orders", 0), "without a broker nothing is known")
}
