package mq

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// sendN sends messages "from" to "to-1" to a queue.
func (h *house) sendN(t *testing.T, p *Producer, q protocol.MessageQueue, from, to int, properties ...string) {
	t.Helper()
	for i := from; i < to; i++ {
		_, err := p.SendToQueue(t.Context(), text(t, q.Topic, fmt.Sprint(i), properties...), q)
		require.NoError(t, err)
	}
	require.NoError(t, h.store.WaitDispatched(t.Context(), h.store.MaxOffset()))
}

func receiveN(t *testing.T, c *Consumer, n int) []string {
	t.Helper()
	ctx := soon(t)
	var bodies []string
	for range n {
		m, err := c.Receive(ctx)
		require.NoError(t, err, "after %v", bodies)
		bodies = append(bodies, string(m.Body))
	}
	return bodies
}

func requireNothing(t *testing.T, c *Consumer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	m, err := c.Receive(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Nil(t, m)
}

func numbers(from, to int) []string {
	var s []string
	for i := from; i < to; i++ {
		s = append(s, fmt.Sprint(i))
	}
	return s
}

// TestCommitAndGoOn commits in the middle; the rest comes again, to the next
// consumer and after another one that committed nothing.
func TestCommitAndGoOn(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	p := h.producer(t)
	h.sendN(t, p, queue("orders", 0), 0, 300)

	c := h.consumer(t, ConsumerConfig{Topic: "orders"})
	require.Equal(t, numbers(0, 100), receiveN(t, c, 100))
	require.NoError(t, c.Commit(t.Context()))
	require.NoError(t, c.Commit(t.Context()), "nothing new is no error")
	require.Equal(t, numbers(100, 150), receiveN(t, c, 50))
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	_, err := c.Receive(t.Context())
	require.ErrorIs(t, err, message.ErrClosed)

	c = h.consumer(t, ConsumerConfig{Topic: "orders"})
	require.Equal(t, numbers(100, 300), receiveN(t, c, 200))
	requireNothing(t, c)
	require.NoError(t, c.CommitSync(t.Context()))
	require.NoError(t, c.Close())

	c = h.consumer(t, ConsumerConfig{Topic: "orders"})
	requireNothing(t, c)
	h.sendN(t, p, queue("orders", 0), 300, 301)
	require.Equal(t, numbers(300, 301), receiveN(t, c, 1), "woken by the arrival")
	other := h.consumer(t, ConsumerConfig{Topic: "orders", Group: "others"})
	require.Equal(t, numbers(0, 301), receiveN(t, other, 301), "groups know nothing of each other")
}

func TestOrderPerQueue(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 4)
	p := h.producer(t)
	c := h.consumer(t, ConsumerConfig{Topic: "orders", PrefetchMessages: 3})
	var wg sync.WaitGroup
	for q := range int32(4) {
		wg.Go(func() { h.sendN(t, p, queue("orders", q), 0, 100) })
	}
	next := map[int32]int{}
	for range 400 {
		m, err := c.Receive(soon(t))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(next[m.QueueID]), string(m.Body))
		require.EqualValues(t, next[m.QueueID], m.QueueOffset)
		require.Equal(t, "house", m.BrokerName)
		next[m.QueueID]++
	}
	wg.Wait()
}

// TestStart begins at the end of the queues that are there, and at the
// beginning of one that appears later.
func TestStart(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	p := h.producer(t)
	h.sendN(t, p, queue("orders", 0), 0, 5)
	c := h.consumer(t, ConsumerConfig{Topic: "orders", Start: End})
	requireNothing(t, c)
	h.createTopic(t, "orders", 2)
	h.sendN(t, p, queue("orders", 1), 5, 6)
	require.Equal(t, numbers(5, 6), receiveN(t, c, 1))
	h.sendN(t, p, queue("orders", 0), 6, 7)
	require.Equal(t, numbers(6, 7), receiveN(t, c, 1))

	at := h.consumer(t, ConsumerConfig{Topic: "orders", Group: "at", Start: AtOffset(3)})
	got := receiveN(t, at, 3)
	slices.Sort(got)
	require.Equal(t, []string{"3", "4", "6"}, got, "queue 1 has no offset 3")
}

// TestStartIsCommitted commits before anything was received: the position at
// the end is kept for the next time.
func TestStartIsCommitted(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	p := h.producer(t)
	h.sendN(t, p, queue("orders", 0), 0, 5)
	c := h.consumer(t, ConsumerConfig{Topic: "orders", Start: End})
	require.NoError(t, c.Commit(t.Context()))
	require.NoError(t, c.Close())
	h.sendN(t, p, queue("orders", 0), 5, 7)
	c = h.consumer(t, ConsumerConfig{Topic: "orders", Start: End})
	require.Equal(t, numbers(5, 7), receiveN(t, c, 2))
}

// TestTopicMadeLater has a consumer wait for a topic that nobody has made.
func TestTopicMadeLater(t *testing.T) {
	h := openHouse(t)
	c := h.consumer(t, ConsumerConfig{Topic: "orders"})
	requireNothing(t, c)
	_, err := h.producer(t).Send(t.Context(), text(t, "orders", "first"))
	require.NoError(t, err)
	require.Equal(t, []string{"first"}, receiveN(t, c, 1))
}

// TestTags sends tags that share a hash code: the broker can not tell them
// apart, the consumer does, and commits beyond what it did not want.
func TestTags(t *testing.T) {
	require.Equal(t, message.TagsCode("Aa"), message.TagsCode("BB"))
	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	p := h.producer(t)
	h.sendN(t, p, queue("orders", 0), 0, 1, "TAGS", "Aa")
	h.sendN(t, p, queue("orders", 0), 1, 2, "TAGS", "BB")
	h.sendN(t, p, queue("orders", 0), 2, 3, "TAGS", "other")
	h.sendN(t, p, queue("orders", 0), 3, 4, "TAGS", "third")
	h.sendN(t, p, queue("orders", 0), 4, 6)
	c := h.consumer(t, ConsumerConfig{Topic: "orders", TagExpression: " Aa || third "})
	require.Equal(t, []string{"0", "3"}, receiveN(t, c, 2))
	requireNothing(t, c)
	require.NoError(t, c.Commit(t.Context()))
	off, err := OfGroup("readers")(t.Context(), h.broker, queue("orders", 0))
	require.NoError(t, err)
	require.EqualValues(t, 6, off, "nothing is left to do for the group")
	h.sendN(t, p, queue("orders", 0), 6, 8, "TAGS", "BB")
	h.sendN(t, p, queue("orders", 0), 8, 9, "TAGS", "Aa")
	require.Equal(t, []string{"8"}, receiveN(t, c, 1))
}

func TestReceiveBatch(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	h.sendN(t, h.producer(t), queue("orders", 0), 0, 10)
	c := h.consumer(t, ConsumerConfig{Topic: "orders"})
	var bodies []string
	for _, limit := range []int{3, 0, 100} {
		batch, err := c.ReceiveBatch(soon(t), limit)
		require.NoError(t, err)
		require.NotEmpty(t, batch)
		if limit < 10 {
			require.Len(t, batch, max(limit, 1))
		}
		for _, m := range batch {
			bodies = append(bodies, string(m.Body))
		}
	}
	require.Equal(t, numbers(0, 10), bodies)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := c.ReceiveBatch(ctx, 5)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestAutoCommit(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	p := h.producer(t)
	h.sendN(t, p, queue("orders", 0), 0, 10)
	c := h.consumer(t, ConsumerConfig{Topic: "orders", AutoCommit: true, PrefetchMessages: 4})
	committed := func() message.QueueOffset {
		off, err := OfGroup("readers")(t.Context(), h.broker, queue("orders", 0))
		require.NoError(t, err)
		return off
	}
	receiveN(t, c, 4)
	require.EqualValues(t, 0, committed(), "a message is not done before the next one is asked for")
	receiveN(t, c, 1)
	require.EqualValues(t, 4, committed())
	receiveN(t, c, 5)
	requireNothing(t, c)
	require.EqualValues(t, 10, committed(), "all, because Receive had to wait")
	h.sendN(t, p, queue("orders", 0), 10, 12)
	receiveN(t, c, 1)
	require.NoError(t, c.Close())
	require.EqualValues(t, 11, committed())
}

// TestMessagesLoop closes the consumer in the loop and outside of it.
func TestMessagesLoop(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	h.sendN(t, h.producer(t), queue("orders", 0), 0, 3)
	c := h.consumer(t, ConsumerConfig{Topic: "orders"})
	var bodies []string
	var last error
	for m, err := range c.Messages(t.Context()) {
		if last = err; err != nil {
			continue
		}
		if bodies = append(bodies, string(m.Body)); len(bodies) == 2 {
			require.NoError(t, c.Close())
		}
	}
	require.Equal(t, numbers(0, 2), bodies)
	require.ErrorIs(t, last, message.ErrClosed)

	c = h.consumer(t, ConsumerConfig{Topic: "orders"})
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	for _, err := range c.Messages(ctx) {
		if n++; n == 3 {
			cancel()
		}
		last = err
	}
	require.Equal(t, 4, n)
	require.ErrorIs(t, last, context.Canceled)
	cancel()
	waiting := make(chan error)
	go func() {
		_, err := c.Receive(context.WithoutCancel(ctx))
		waiting <- err
	}()
	require.NoError(t, c.Close())
	require.ErrorIs(t, <-waiting, message.ErrClosed)
}

// TestConsumersConcurrently has consumers of one group print messages and commit
// while they receive. Their positions were taken before anything was committed,
// so each gets everything.
func TestConsumersConcurrently(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 4)
	p := h.producer(t)
	var wg sync.WaitGroup
	for i := range 4 {
		c := h.consumer(t, ConsumerConfig{Topic: "orders"})
		ctx, cancel := context.WithCancel(soon(t))
		defer cancel()
		var got sync.Map
		for range 2 {
			wg.Go(func() {
				for m, err := range c.Messages(ctx) {
					if err != nil {
						return
					}
					fmt.Fprintf(io.Discard, "%v", m)
					key := fmt.Sprint(m.QueueID, " ", m.QueueOffset)
					if _, twice := got.LoadOrStore(key, true); twice {
						t.Errorf("consumer %d: %s twice", i, key)
					}
					n := 0
					got.Range(func(any, any) bool { n++; return true })
					if n == 200 {
						cancel()
					}
				}
			})
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := c.CommitSync(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 200 {
		_, err := p.Send(t.Context(), text(t, "orders", fmt.Sprint(i)))
		require.NoError(t, err)
	}
	wg.Wait()
}

// TestBrokerClosed tells those who wait, and goes on with the next broker.
func TestBrokerClosed(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	c := h.consumer(t, ConsumerConfig{Topic: "orders"})
	requireNothing(t, c)
	require.NoError(t, h.broker.Close())
	_, err := c.Receive(soon(t))
	require.ErrorIs(t, err, message.ErrClosed)
	require.ErrorContains(t, err, "orders@house:0")

	h.openBroker(t)
	h.sendN(t, h.producer(t), queue("orders", 0), 0, 3)
	first, err := c.Receive(soon(t))
	for errors.Is(err, message.ErrClosed) { // another look at the queue, from before
		first, err = c.Receive(soon(t))
	}
	require.NoError(t, err)
	require.Equal(t, "0", string(first.Body))
	require.Equal(t, numbers(1, 3), receiveN(t, c, 2))
	require.NoError(t, c.Commit(t.Context()))
}

func TestCompressedBody(t *testing.T) {
	body := strings.Repeat("squeeze me ", 1000)
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, err := w.Write([]byte(body))
	require.NoError(t, err)
	require.NoError(t, w.Close())

	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	store := func(flag message.SysFlag, body []byte) {
		_, err := h.broker.SendMessage(t.Context(), protocol.SendMessageRequest{
			Message: message.Message{Topic: "orders", Body: body}, SysFlag: flag,
		})
		require.NoError(t, err)
	}
	store(message.FlagCompressed, b.Bytes())
	store(message.FlagCompressed|0x300, b.Bytes())
	store(message.FlagCompressed|0x100, b.Bytes())
	store(message.FlagCompressed, []byte("not a zlib stream"))
	store(message.FlagCompressed, b.Bytes()[:b.Len()/2])
	store(0, b.Bytes())

	c := h.consumer(t, ConsumerConfig{Topic: "orders"})
	for range 2 {
		m, err := c.Receive(soon(t))
		require.NoError(t, err)
		require.Equal(t, body, string(m.Body))
	}
	for i := range message.QueueOffset(3) {
		_, err := c.Receive(soon(t))
		var skipped *SkippedError
		require.ErrorAs(t, err, &skipped)
		require.ErrorIs(t, err, message.ErrCorrupt)
		require.Equal(t, SkippedError{queue("orders", 0), 2 + i, 3 + i, skipped.Err}, *skipped)
	}
	m, err := c.Receive(soon(t))
	require.NoError(t, err)
	require.Equal(t, b.Bytes(), m.Body)

	small := h.consumer(t, ConsumerConfig{Topic: "orders", Group: "small", MaxInflatedBody: 100})
	_, err = small.Receive(soon(t))
	require.ErrorIs(t, err, message.ErrLimit)
}

func TestConsumerConfigRefuses(t *testing.T) {
	_, err := NewConsumer(t.Context(), ConsumerConfig{
		Group: "DEFAULT_CONSUMER", PrefetchMessages: -1, PrefetchBytes: -1, MaxInflatedBody: -1, RouteInterval: time.Millisecond,
	})
	for _, text := range []string{"DEFAULT_CONSUMER", "topic", "NameService", "PrefetchMessages", "PrefetchBytes", "MaxInflatedBody", "RouteInterval"} {
		require.ErrorContains(t, err, text)
	}
}

func TestReader(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 2)
	p := h.producer(t)
	h.sendN(t, p, queue("orders", 0), 0, 10)
	h.sendN(t, p, queue("orders", 1), 10, 15)
	c := h.consumer(t, ConsumerConfig{Topic: "orders"})
	require.NoError(t, c.Commit(t.Context()))
	require.NoError(t, h.broker.UpdateConsumerOffset(t.Context(), protocol.UpdateConsumerOffsetRequest{
		Group: "readers", Topic: "orders", Offsets: []protocol.QueuePosition{{QueueID: 1, Offset: 4}},
	}))
	for _, test := range []struct {
		name string
		cfg  ReaderConfig
		want []string
	}{
		{"everything", ReaderConfig{}, numbers(0, 15)},
		{"one queue", ReaderConfig{QueueIDs: []int32{1}}, numbers(10, 15)},
		{"small batches", ReaderConfig{PrefetchMessages: 1}, numbers(0, 15)},
		{"offset", ReaderConfig{QueueIDs: []int32{0}, From: AtOffset(7)}, numbers(7, 10)},
		{"end", ReaderConfig{From: End}, nil},
		{"group", ReaderConfig{QueueIDs: []int32{1}, From: OfGroup("readers")}, numbers(14, 15)},
		{"tag", ReaderConfig{TagExpression: "none"}, nil},
		{"no such queue", ReaderConfig{QueueIDs: []int32{9}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.cfg.Topic, test.cfg.NameService, test.cfg.Connect = "orders", h.names, h.names.Connect
			r, err := NewReader(t.Context(), test.cfg)
			require.NoError(t, err)
			defer r.Close()
			var got []string
			for m, err := range r.Messages(soon(t)) {
				require.NoError(t, err)
				got = append(got, string(m.Body))
			}
			slices.SortFunc(got, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
			require.Equal(t, test.want, got)
			_, err = r.Next(t.Context())
			require.ErrorIs(t, err, io.EOF)
			require.NoError(t, r.Close())
			_, err = r.Next(t.Context())
			require.ErrorIs(t, err, message.ErrClosed)
		})
	}

	for name, test := range map[string]struct {
		cfg  ReaderConfig
		want error
	}{
		"no topic": {ReaderConfig{Topic: "none"}, protocol.TopicNotExist},
		"no group": {ReaderConfig{Topic: "orders", From: OfGroup("nobody")}, protocol.QueryNotFound},
	} {
		test.cfg.NameService, test.cfg.Connect = h.names, h.names.Connect
		_, err := NewReader(t.Context(), test.cfg)
		require.ErrorIs(t, err, test.want, name)
	}
}

func TestReaderFollows(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	r, err := NewReader(t.Context(), ReaderConfig{Topic: "orders", Follow: true, NameService: h.names, Connect: h.names.Connect})
	require.NoError(t, err)
	defer r.Close()
	for i := range 3 {
		_, err := p.Send(t.Context(), text(t, "orders", fmt.Sprint(i)))
		require.NoError(t, err)
		m, err := r.Next(soon(t))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), string(m.Body))
	}
}
