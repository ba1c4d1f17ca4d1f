package broker

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

func limitTopic(t *testing.T, b *Broker, name string, queues int32, most int64) {
	t.Helper()
	require.NoError(t, b.CreateTopic(t.Context(), protocol.TopicConfig{Name: name, ReadQueueNums: queues, WriteQueueNums: queues, MaxDepth: most}))
}

func trySend(t *testing.T, b *Broker, topic string, queueID int32) error {
	t.Helper()
	_, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{Message: message.Message{Topic: topic, Body: []byte("x")}, QueueID: queueID})
	return err
}

// full wants the refusal of a full topic.
func full(t *testing.T, err error, limit, value int64) {
	t.Helper()
	require.ErrorIs(t, err, protocol.FlowControl)
	require.True(t, protocol.Overloaded(err))
	var l *message.LimitError
	require.ErrorAs(t, err, &l)
	require.Equal(t, message.LimitError{Field: "depth of topic orders", Limit: limit, Value: value, Unit: "messages"}, *l)
}

func TestMaxDepth(t *testing.T) {
	b := openBroker(t, Config{})
	limitTopic(t, b, "orders", 2, 3)
	createTopic(t, b, "other", 1)
	end := func() int64 { return b.store.Stats().PutMessages }
	for i := range 3 {
		require.NoError(t, trySend(t, b, "orders", int32(i%2)))
	}
	full(t, trySend(t, b, "orders", 0), 3, 4)
	full(t, trySend(t, b, "orders", 1), 3, 4)
	require.EqualValues(t, 3, end(), "nothing was stored")
	require.NoError(t, trySend(t, b, "other", 0))

	// The slowest group counts, from its first commit on.
	commit := func(group string, queueID int32, off message.QueueOffset) {
		t.Helper()
		require.NoError(t, b.store.WaitDispatched(t.Context(), b.store.MaxOffset()))
		require.NoError(t, b.UpdateConsumerOffset(t.Context(), protocol.UpdateConsumerOffsetRequest{
			Group: group, Topic: "orders", Offsets: []protocol.QueuePosition{{QueueID: queueID, Offset: off}},
		}))
	}
	commit("fast", 0, 2)
	require.NoError(t, trySend(t, b, "orders", 1))
	require.NoError(t, trySend(t, b, "orders", 1))
	full(t, trySend(t, b, "orders", 1), 3, 4)
	commit("slow", 0, 1)
	full(t, trySend(t, b, "orders", 1), 3, 5)
	commit("slow", 0, 2)
	commit("slow", 1, 1)
	commit("fast", 1, 3)
	require.NoError(t, trySend(t, b, "orders", 0))
	full(t, trySend(t, b, "orders", 0), 3, 4)

	// More, less, none.
	limitTopic(t, b, "orders", 2, 4)
	require.NoError(t, trySend(t, b, "orders", 0))
	full(t, trySend(t, b, "orders", 0), 4, 5)
	limitTopic(t, b, "orders", 2, 2)
	full(t, trySend(t, b, "orders", 0), 2, 5)
	limitTopic(t, b, "orders", 2, 0)
	require.NoError(t, trySend(t, b, "orders", 0))

	err := b.CreateTopic(t.Context(), protocol.TopicConfig{Name: "orders", ReadQueueNums: 1, WriteQueueNums: 1, MaxDepth: -1})
	require.ErrorIs(t, err, protocol.SystemError)
	require.ErrorContains(t, err, "maxDepth (negative): -1 messages")
}

// TestMaxDepthOfBatches counts the messages of a batch, which is stored as a whole.
func TestMaxDepthOfBatches(t *testing.T) {
	b := openBroker(t, Config{})
	limitTopic(t, b, "orders", 1, 5)
	batch := func(n int) error {
		var body []byte
		for range n {
			var err error
			body, err = message.AppendBatchElement(body, &message.Message{Body: []byte("x")})
			require.NoError(t, err)
		}
		_, err := b.SendMessageBatch(t.Context(), protocol.SendMessageBatchRequest{SendMessageRequest: protocol.SendMessageRequest{Message: message.Message{Topic: "orders", Body: body}}})
		return err
	}
	full(t, batch(6), 5, 6)
	require.NoError(t, batch(4))
	full(t, batch(2), 5, 6)
	require.NoError(t, batch(1))
	full(t, batch(1), 5, 6)
}

// TestMaxDepthOfWaitingMessages: a delayed message needs room when it is sent, and
// counts as soon as it is in its queue.
func TestMaxDepthOfWaitingMessages(t *testing.T) {
	b := openBroker(t, Config{})
	limitTopic(t, b, "orders", 1, 1)
	p, err := message.NewProperties(message.PropertyDelayLevel, "18")
	require.NoError(t, err)
	delayed := protocol.SendMessageRequest{Message: message.Message{Topic: "orders", Body: []byte("x"), Properties: p}}
	_, err = b.SendMessage(t.Context(), delayed)
	require.NoError(t, err)
	require.NoError(t, trySend(t, b, "orders", 0))
	_, err = b.SendMessage(t.Context(), delayed)
	full(t, err, 1, 2)
}

// TestMaxDepthOnDisk keeps the limit over a restart, and what RocketMQ wrote beside it.
func TestMaxDepthOnDisk(t *testing.T) {
	s := openStore(t, t.TempDir())
	b, err := New(t.Context(), Config{Store: s})
	require.NoError(t, err)
	limitTopic(t, b, "orders", 1, 2)
	require.NoError(t, trySend(t, b, "orders", 0))
	require.NoError(t, trySend(t, b, "orders", 0))
	require.NoError(t, b.Close())
	b = openBroker(t, Config{Store: s})
	cfg, err := b.GetTopic(t.Context(), "orders")
	require.NoError(t, err)
	require.EqualValues(t, 2, cfg.MaxDepth)
	full(t, trySend(t, b, "orders", 0), 2, 3)
	require.NoError(t, b.DeleteTopic(t.Context(), "orders"))
	limitTopic(t, b, "orders", 1, 2)
	require.NoError(t, trySend(t, b, "orders", 0), "what was deleted does not count")
	require.NoError(t, trySend(t, b, "orders", 0))
	full(t, trySend(t, b, "orders", 0), 2, 3)
}

// TestMaxDepthConcurrently has writers and a group at work: there are never more
// messages than the limit, and all of the room is used when nobody consumes.
func TestMaxDepthConcurrently(t *testing.T) {
	for _, flush := range []store.FlushMode{store.FlushAsync, store.FlushSync} {
		t.Run(flush.String(), func(t *testing.T) {
			s, err := store.Open(t.Context(), t.TempDir(), store.Config{Flush: flush, FlushTimeout: 10 * time.Minute, SegmentSize: 1 << 20, ConsumeQueueFileSize: 100 * 20, MaxBodySize: 128 << 10})
			require.NoError(t, err)
			t.Cleanup(func() { s.Close() })
			b := openBroker(t, Config{Store: s})
			const limit, writers, rounds = 50, 8, 20
			limitTopic(t, b, "orders", 2, limit)
			var stored, consumed atomic.Int64
			for range rounds {
				var wg sync.WaitGroup
				for w := range writers {
					wg.Go(func() {
						for {
							err := trySend(t, b, "orders", int32(w%2))
							if errors.Is(err, protocol.FlowControl) {
								return
							}
							if err != nil {
								t.Errorf("send: %v", err)
								return
							}
							stored.Add(1)
						}
					})
				}
				wg.Wait()
				require.NoError(t, s.WaitDispatched(t.Context(), s.MaxOffset()))
				depth := stored.Load() - consumed.Load()
				require.LessOrEqual(t, depth, int64(limit))
				require.Greater(t, depth, int64(limit-writers))
				for trySend(t, b, "orders", 0) == nil {
					stored.Add(1)
				}
				require.EqualValues(t, limit, stored.Load()-consumed.Load(), "alone, a writer gets the last place")
				require.NoError(t, s.WaitDispatched(t.Context(), s.MaxOffset()))
				var offsets []protocol.QueuePosition
				total := int64(0)
				for id := range int32(2) {
					end := s.MaxOffsetInQueue("orders", id)
					total += int64(end)
					offsets = append(offsets, protocol.QueuePosition{QueueID: id, Offset: end})
				}
				consumed.Store(total)
				require.NoError(t, b.UpdateConsumerOffset(t.Context(), protocol.UpdateConsumerOffsetRequest{Group: "g", Topic: "orders", Offsets: offsets}))
			}
			require.EqualValues(t, limit*rounds, stored.Load())
		})
	}
}

// TestMaxDepthWhileConsuming measures the depth from outside, while writers and a
// group work: the group's offset is read after the end of the queue, so what is
// seen is no more than what was there.
func TestMaxDepthWhileConsuming(t *testing.T) {
	b := openBroker(t, Config{})
	const limit = 20
	limitTopic(t, b, "orders", 1, limit)
	commit := func(off message.QueueOffset) {
		if err := b.UpdateConsumerOffset(t.Context(), protocol.UpdateConsumerOffsetRequest{Group: "g", Topic: "orders", Offsets: []protocol.QueuePosition{{Offset: off}}}); err != nil {
			t.Errorf("commit: %v", err)
		}
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true) // also when the test has failed
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				if err := trySend(t, b, "orders", 0); err != nil && !errors.Is(err, protocol.FlowControl) {
					t.Errorf("send: %v", err)
				}
			}
		})
	}
	var committed message.QueueOffset
	for committed < 1000 {
		placed := b.store.NextOffsetInQueue("orders", 0)
		require.LessOrEqual(t, int64(placed-committed), int64(limit), fmt.Sprint("committed ", committed))
		if end := b.store.MaxOffsetInQueue("orders", 0); end > committed {
			committed = end
			commit(committed)
		}
	}
}

// TestMaxDepthCostsNothing counts allocations of what each send does for the limit.
func TestMaxDepthCostsNothing(t *testing.T) {
	b := openBroker(t, Config{})
	limitTopic(t, b, "orders", 1, 1<<40)
	createTopic(t, b, "other", 1)
	_, err := b.reserve(t.Context(), "orders", 1)
	require.NoError(t, err)
	for _, topic := range []string{"orders", "other"} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			d, err := b.reserve(t.Context(), topic, 1)
			if err != nil {
				t.Error(err)
			}
			d.done(1)
		}), topic)
	}
}
