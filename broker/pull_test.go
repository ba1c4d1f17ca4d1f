package broker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

func TestPullWithoutWaiting(t *testing.T) {
	b := openBroker(t, Config{})
	createTopic(t, b, "orders", 2)
	for _, tag := range []string{"red", "green", "red"} {
		send(t, b, "orders", 0, tag, "TAGS", tag)
	}
	for _, test := range []struct {
		name   string
		req    protocol.PullMessageRequest
		code   protocol.ResponseCode
		next   message.QueueOffset
		bodies []string
	}{
		{"all", protocol.PullMessageRequest{}, protocol.Success, 3, []string{"red", "green", "red"}},
		{"one", protocol.PullMessageRequest{Offset: 1, MaxMessages: 1}, protocol.Success, 2, []string{"green"}},
		{"few bytes", protocol.PullMessageRequest{MaxBytes: 1}, protocol.Success, 1, []string{"red"}},
		{"tag", protocol.PullMessageRequest{TagExpression: "red || blue"}, protocol.Success, 3, []string{"red", "red"}},
		{"other tag", protocol.PullMessageRequest{TagExpression: "blue"}, protocol.PullRetryImmediately, 3, nil},
		{"end", protocol.PullMessageRequest{Offset: 3}, protocol.PullNotFound, 3, nil},
		{"beyond the end", protocol.PullMessageRequest{Offset: 9}, protocol.PullOffsetMoved, 3, nil},
		{"before the beginning", protocol.PullMessageRequest{Offset: -1}, protocol.PullOffsetMoved, 0, nil},
		{"empty queue", protocol.PullMessageRequest{QueueID: 1}, protocol.PullNotFound, 0, nil},
		{"empty queue, moved", protocol.PullMessageRequest{QueueID: 1, Offset: 4}, protocol.PullOffsetMoved, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.req.Topic = "orders"
			resp, ms := pull(t, b, test.req)
			require.Equal(t, test.code, resp.Code)
			require.Equal(t, test.next, resp.NextBeginOffset)
			require.NoError(t, resp.Lost)
			var bodies []string
			for _, m := range ms {
				bodies = append(bodies, string(m.Body))
			}
			require.Equal(t, test.bodies, bodies)
		})
	}
}

func TestPullRefuses(t *testing.T) {
	b := openBroker(t, Config{})
	require.NoError(t, b.CreateTopic(t.Context(), protocol.TopicConfig{Name: "secret", ReadQueueNums: 1, WriteQueueNums: 1, Perm: protocol.PermWrite}))
	createTopic(t, b, "orders", 2)
	for _, test := range []struct {
		req  protocol.PullMessageRequest
		want error
	}{
		{protocol.PullMessageRequest{Topic: "none"}, protocol.TopicNotExist},
		{protocol.PullMessageRequest{Topic: "secret"}, protocol.NoPermission},
		{protocol.PullMessageRequest{Topic: "orders", QueueID: 2}, message.ErrLimit},
		{protocol.PullMessageRequest{Topic: "orders", QueueID: -1}, message.ErrLimit},
	} {
		_, err := b.PullMessage(t.Context(), test.req)
		require.ErrorIs(t, err, test.want)
	}
}

// pulled is what a pull in another goroutine returned.
type pulled struct {
	resp   protocol.PullMessageResponse
	bodies []string
	err    error
}

// pullWaiting begins a pull of queue 0 that waits.
func pullWaiting(ctx context.Context, b *Broker, req protocol.PullMessageRequest) <-chan pulled {
	result := make(chan pulled, 1)
	req.Topic = "orders"
	go func() {
		resp, err := b.PullMessage(ctx, req)
		var bodies []string
		for _, v := range resp.Messages {
			bodies = append(bodies, string(v.Body()))
		}
		if resp.Release != nil {
			resp.Release()
		}
		result <- pulled{resp, bodies, err}
	}()
	return result
}

// TestPullWaits begins a pull before there is anything, and sends what it must
// pass over first.
func TestPullWaits(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, b *Broker) {
		createTopic(t, b, "orders", 2)
		waiting := pullWaiting(t.Context(), b, protocol.PullMessageRequest{TagExpression: "red", Suspend: time.Hour})
		synctest.Wait()
		send(t, b, "orders", 1, "other queue", "TAGS", "red")
		send(t, b, "orders", 0, "other tag", "TAGS", "green")
		after(time.Minute)
		require.Empty(t, waiting)
		send(t, b, "orders", 0, "it", "TAGS", "red")
		synctest.Wait()
		require.Len(t, waiting, 1)
		p := <-waiting
		require.NoError(t, p.err)
		require.Equal(t, protocol.Success, p.resp.Code)
		require.Equal(t, []string{"it"}, p.bodies)
		require.EqualValues(t, 2, p.resp.NextBeginOffset)
	})
}

// TestPullEnds with the time that it may take, its context, and the broker.
func TestPullEnds(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, b *Broker) {
		began := time.Now()
		p := <-pullWaiting(t.Context(), b, protocol.PullMessageRequest{Suspend: 10 * time.Second})
		require.NoError(t, p.err)
		require.Equal(t, protocol.PullNotFound, p.resp.Code)
		require.Equal(t, 10*time.Second, time.Since(began))

		send(t, b, "orders", 0, "x", "TAGS", "green")
		began = time.Now()
		p = <-pullWaiting(t.Context(), b, protocol.PullMessageRequest{TagExpression: "red", Suspend: 10 * time.Second})
		require.NoError(t, p.err)
		require.Equal(t, protocol.PullRetryImmediately, p.resp.Code)
		require.EqualValues(t, 1, p.resp.NextBeginOffset, "what the filter refuses is not looked at again")
		require.Equal(t, 10*time.Second, time.Since(began))

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		p = <-pullWaiting(ctx, b, protocol.PullMessageRequest{Offset: 1, Suspend: time.Minute})
		require.ErrorIs(t, p.err, context.DeadlineExceeded)
		require.Equal(t, 20*time.Second, time.Since(began))

		waiting := pullWaiting(t.Context(), b, protocol.PullMessageRequest{Offset: 1, Suspend: time.Hour})
		after(time.Minute)
		require.Empty(t, waiting)
		require.NoError(t, b.Close())
		p = <-waiting
		require.ErrorIs(t, p.err, message.ErrClosed)
		require.ErrorIs(t, p.err, protocol.ServiceNotAvailable)
	})
}
