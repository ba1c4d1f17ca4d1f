package mq

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// TestRetry: what a consumer sends back comes again, with its topic, whatever its
// tag; committed, it does not come once more. What came too often is a dead letter.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t)
		h.createTopic(t, "orders", 2)
		p := h.producer(t)
		config := ConsumerConfig{
			Group: "g", Topic: "orders", TagExpression: "red", MaxReconsumeTimes: 2, NameService: h.names, Connect: h.names.Connect,
		}
		c, err := NewConsumer(t.Context(), config)
		require.NoError(t, err)
		_, err = p.Send(t.Context(), text(t, "orders", "m", "TAGS", "red"))
		require.NoError(t, err)
		first, err := c.Receive(t.Context())
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, c.Retry(t.Context(), first, RetryLater))
		require.NoError(t, c.CommitSync(t.Context()))
		again, err := c.Receive(t.Context())
		require.NoError(t, err)
		require.WithinRange(t, time.Now(), began.Add(10*time.Second), began.Add(10*time.Second+100*time.Millisecond))
		require.Equal(t, "orders", again.Topic)
		require.Equal(t, first.Body, again.Body)
		require.Equal(t, first.UniqueKey(), again.UniqueKey())
		require.EqualValues(t, 1, again.ReconsumeTimes)

		require.NoError(t, c.Retry(t.Context(), again, 1))
		require.NoError(t, c.CommitSync(t.Context()))
		require.NoError(t, c.Close())
		require.ErrorIs(t, c.Retry(t.Context(), again, 1), message.ErrClosed)
		time.Sleep(2 * time.Second) // it is delivered while nobody reads
		config.Start = End
		c, err = NewConsumer(t.Context(), config)
		require.NoError(t, err)
		last, err := c.Receive(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 2, last.ReconsumeTimes)
		require.NoError(t, c.Retry(t.Context(), last, RetryLater))
		require.NoError(t, c.CommitSync(t.Context()))
		require.ErrorIs(t, c.Retry(t.Context(), &message.MessageExt{BrokerName: "elsewhere"}, 0), ErrNoRoute)

		require.NoError(t, h.store.WaitDispatched(t.Context(), h.store.MaxOffset()))
		dead, err := NewReader(t.Context(), ReaderConfig{Topic: "%DLQ%g", NameService: h.names, Connect: h.names.Connect})
		require.NoError(t, err)
		letter, err := dead.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, first.UniqueKey(), letter.UniqueKey())
		require.NoError(t, dead.Close())
		require.NoError(t, c.Close())
		require.NoError(t, p.Close())
		require.NoError(t, h.broker.Close())
		require.NoError(t, h.store.Close())
	})
}

// TestRetryGroups: a group whose retry topic would have too long a name is refused
// when it begins, not when its first message fails.
func TestRetryGroups(t *testing.T) {
	h := openHouse(t)
	for n, want := range map[int]error{protocol.MaxRetryGroupLength: nil, protocol.MaxRetryGroupLength + 1: message.ErrLimit} {
		c, err := NewConsumer(t.Context(), ConsumerConfig{Group: strings.Repeat("g", n), Topic: "orders", NameService: h.names, Connect: h.names.Connect})
		require.ErrorIs(t, err, want)
		if err == nil {
			require.NoError(t, c.Close())
		}
	}
	_, err := NewConsumer(t.Context(), ConsumerConfig{Group: "g", Topic: "orders", MaxReconsumeTimes: -1, NameService: h.names, Connect: h.names.Connect})
	require.ErrorIs(t, err, message.ErrLimit)
}
