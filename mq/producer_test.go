package mq

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

func TestSend(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	m := text(t, "orders", "body", "TAGS", "red")
	before := *m
	seen := map[string]bool{}
	for i := range 8 {
		r, err := p.Send(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, SendOK, r.Status)
		require.EqualValues(t, i/4, r.QueueOffset, "four queues in turn")
		require.False(t, seen[r.MsgID])
		seen[r.MsgID] = true
		stored, err := h.store.LookMessageByOffset(t.Context(), r.OffsetMsgID.Offset)
		require.NoError(t, err)
		require.Equal(t, r.MsgID, stored.UniqueKey())
		require.Equal(t, r.Queue.QueueID, stored.QueueID)
		require.Equal(t, r.OffsetMsgID, stored.OffsetMessageID())
	}
	require.Equal(t, before, *m, "the caller's message is not modified")
	queues, err := p.Queues(t.Context(), "orders")
	require.NoError(t, err)
	require.Len(t, queues, 4)

	h.createTopic(t, "orders", 6)
	queues, err = p.Queues(t.Context(), "orders")
	require.NoError(t, err)
	require.Len(t, queues, 6, "a change counts at once")
}

func TestSendToQueue(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	h.createTopic(t, "orders", 3)
	for i := range 3 {
		r, err := p.SendToQueue(t.Context(), text(t, "orders", "x"), queue("orders", 2))
		require.NoError(t, err)
		require.Equal(t, queue("orders", 2), r.Queue)
		require.EqualValues(t, i, r.QueueOffset)
	}
	var sendErr *SendError
	for name, test := range map[string]struct {
		q    protocol.MessageQueue
		want error
		text string
	}{
		"other topic": {queue("letters", 0), message.ErrIllegal, "letters"},
		"too high":    {queue("orders", 3), message.ErrLimit, "queue id: 3 (counted from 0), limit is 2"},
		"no broker":   {protocol.MessageQueue{Topic: "orders", BrokerName: "elsewhere"}, ErrNoRoute, "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := p.SendToQueue(t.Context(), text(t, "orders", "x"), test.q)
			require.ErrorIs(t, err, test.want)
			require.ErrorContains(t, err, test.text)
			require.Zero(t, r)
		})
	}
	_, err := p.SendToQueue(t.Context(), text(t, "orders", "x"), queue("orders", 3))
	require.ErrorAs(t, err, &sendErr)
	require.Equal(t, 1, sendErr.Attempts)
	require.ErrorIs(t, err, protocol.SystemError)
}

func TestProducerClosed(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	<-p.Done()
	m := text(t, "orders", "x")
	_, err := p.Send(t.Context(), m)
	require.ErrorIs(t, err, message.ErrClosed)
	_, err = p.SendToQueue(t.Context(), m, queue("orders", 0))
	require.ErrorIs(t, err, message.ErrClosed)
	_, err = p.SendBatch(t.Context(), []*message.Message{m})
	require.ErrorIs(t, err, message.ErrClosed)
	_, err = p.Queues(t.Context(), "orders")
	require.ErrorIs(t, err, message.ErrClosed)
}

func TestProducerConfigRefuses(t *testing.T) {
	_, err := NewProducer(ProducerConfig{Group: "DEFAULT_PRODUCER", MaxMessageSize: -1, TopicQueueNums: -1, RouteInterval: -1,
		AttemptTimeout: -1, MaxAsyncSends: -1, MaxAsyncBytes: -1})
	for _, text := range []string{"DEFAULT_PRODUCER", "NameService", "MaxMessageSize", "TopicQueueNums", "RouteInterval", "AttemptTimeout", "MaxAsyncSends", "MaxAsyncBytes"} {
		require.ErrorContains(t, err, text)
	}
}

// twoBrokers is a producer of brokers a and b that answer with these codes.
func twoBrokers(t *testing.T, codeA, codeB protocol.ResponseCode) (p *Producer, a, b *fakeBroker) {
	t.Helper()
	answer := func(code protocol.ResponseCode) func(protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
		return func(req protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
			resp := protocol.SendMessageResponse{Code: code, QueueOffset: 7}
			if code == protocol.Success {
				return resp, nil
			}
			return resp, &protocol.Error{Code: code, Err: message.ErrFlushTimeout}
		}
	}
	a, b = &fakeBroker{send: answer(codeA)}, &fakeBroker{send: answer(codeB)}
	n := &fakeNames{brokers: map[string]protocol.Broker{"a": a, "b": b}}
	n.route = func(string) (protocol.TopicRoute, error) { return routeOf(2, "a", "b"), nil }
	p, err := NewProducer(ProducerConfig{Group: "g", NameService: n, Connect: n.connect})
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p, a, b
}

// TestRetries sends often enough to meet broker a first.
func TestRetries(t *testing.T) {
	for _, test := range []struct {
		a, b   protocol.ResponseCode
		status SendStatus
		tries  int // of a send that met a first; 0: not retried
	}{
		{protocol.Success, protocol.Success, SendOK, 0},
		{protocol.SystemError, protocol.Success, SendOK, 2},
		{protocol.SystemBusy, protocol.Success, SendOK, 2},
		{protocol.ServiceNotAvailable, protocol.Success, SendOK, 2},
		{protocol.NoPermission, protocol.Success, SendOK, 2},
		{protocol.TopicNotExist, protocol.Success, SendOK, 2},
		{protocol.ServiceNotAvailable, protocol.ServiceNotAvailable, SendNotStored, 3},
		{protocol.MessageIllegal, protocol.MessageIllegal, SendNotStored, 0},
		{protocol.RequestCodeNotSupported, protocol.RequestCodeNotSupported, SendNotStored, 0},
		{protocol.FlushDiskTimeout, protocol.FlushDiskTimeout, SendFlushDiskTimeout, 0},
		{protocol.FlushSlaveTimeout, protocol.FlushSlaveTimeout, SendFlushSlaveTimeout, 0},
		{protocol.SlaveNotAvailable, protocol.SlaveNotAvailable, SendSlaveNotAvailable, 0},
	} {
		t.Run(test.a.String()+" "+test.b.String(), func(t *testing.T) {
			p, a, b := twoBrokers(t, test.a, test.b)
			for range 8 {
				a.sends, b.sends = 0, 0
				r, err := p.Send(t.Context(), text(t, "t", "x"))
				require.Equal(t, test.status, r.Status)
				require.Equal(t, test.status == SendOK, err == nil)
				if test.status != SendNotStored {
					require.EqualValues(t, 7, r.QueueOffset)
					require.NotEmpty(t, r.MsgID)
				}
				if err != nil {
					require.ErrorIs(t, err, test.b)
					require.ErrorIs(t, err, message.ErrFlushTimeout)
				}
				if a.sends > 0 && b.sends <= 1 && test.tries > 0 {
					require.Equal(t, test.tries, max(a.sends+b.sends, test.tries-1+b.sends), "attempts")
				}
				if test.tries == 0 {
					require.Equal(t, 1, a.sends+b.sends)
				}
			}
		})
	}
}

func TestNoRetryWhenContextEnds(t *testing.T) {
	p, a, b := twoBrokers(t, protocol.SystemError, protocol.SystemError)
	ctx, cancel := context.WithCancel(t.Context())
	answer := a.send
	a.send = func(req protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
		cancel()
		return answer(req)
	}
	b.send = a.send
	_, err := p.Send(ctx, text(t, "t", "x"))
	require.ErrorIs(t, err, protocol.SystemError)
	require.Equal(t, 1, a.sends+b.sends)
}

// TestContextEndedBefore wants an error that says so, and nothing done.
func TestContextEndedBefore(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := text(t, "orders", "x")
	want := SendError{Topic: "orders", Err: context.Canceled}
	for name, send := range map[string]func() error{
		"send":          func() error { _, err := p.Send(ctx, m); return err },
		"send to queue": func() error { _, err := p.SendToQueue(ctx, m, queue("orders", 0)); return err },
		"batch":         func() error { _, err := p.SendBatch(ctx, []*message.Message{m, m}); return err },
		"batch of one":  func() error { _, err := p.SendBatch(ctx, []*message.Message{m}); return err },
	} {
		err := send()
		require.Equal(t, &want, err, name)
		require.EqualError(t, err, "send to topic orders: context canceled")
	}
	_, err := h.broker.GetTopic(t.Context(), "orders")
	require.ErrorIs(t, err, protocol.TopicNotExist)
}

// TestSendAllocations counts what the producer allocates: the properties with
// the unique key in them.
func TestSendAllocations(t *testing.T) {
	p, _, _ := twoBrokers(t, protocol.Success, protocol.Success)
	m := text(t, "t", "x", "TAGS", "red")
	ctx := t.Context()
	n := testing.AllocsPerRun(100, func() {
		if _, err := p.Send(ctx, m); err != nil {
			t.Fatal(err)
		}
	})
	require.LessOrEqual(t, n, 1.0)
}

// TestSendConcurrently has goroutines share a message and a producer.
func TestSendConcurrently(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	m := text(t, "orders", "body")
	var mu sync.Mutex
	places := map[string]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				r, err := p.Send(t.Context(), m)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				places[fmt.Sprint(r.Queue.QueueID, r.QueueOffset)] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, places, 400)
}
