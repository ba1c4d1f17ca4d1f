package mq

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

func TestSendAsync(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	h.createTopic(t, "orders", 3)
	const messages = 300
	var called atomic.Int64
	var mu sync.Mutex
	places := map[message.LogOffset]bool{}
	for i := range messages {
		m := text(t, "orders", "body")
		done := func(r SendResult, err error) {
			called.Add(1)
			if err != nil || r.Status != SendOK {
				t.Error(r, err)
			}
			mu.Lock()
			defer mu.Unlock()
			places[r.OffsetMsgID.Offset] = true
			if i%3 > 0 && r.Queue != queue("orders", int32(i%3)) {
				t.Error(i, r.Queue)
			}
		}
		switch i % 3 {
		case 0:
			p.SendAsync(t.Context(), m, done)
		case 1:
			p.SendToQueueAsync(t.Context(), m, queue("orders", 1), done)
		case 2:
			p.SendSelectedAsync(t.Context(), m, func(queues []protocol.MessageQueue, _ *message.Message, _ string) protocol.MessageQueue {
				return queues[2]
			}, "", done)
		}
		*m = message.Message{} // the caller's again
	}
	require.NoError(t, p.Close())
	require.EqualValues(t, messages, called.Load(), "Close waits for all")
	require.Len(t, places, messages)
}

// TestSendAsyncErrors calls back once for everything that can go wrong.
func TestSendAsyncErrors(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	h.createTopic(t, "orders", 1)
	m := text(t, "orders", "x")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name string
		send func(done func(SendResult, error))
		want error
	}{
		{"illegal", func(done func(SendResult, error)) { p.SendAsync(t.Context(), text(t, "a!", "x"), done) }, message.ErrIllegal},
		{"nil", func(done func(SendResult, error)) { p.SendToQueueAsync(t.Context(), nil, queue("orders", 0), done) }, message.ErrIllegal},
		{"other topic", func(done func(SendResult, error)) { p.SendToQueueAsync(t.Context(), m, queue("x", 0), done) }, message.ErrIllegal},
		{"no queue", func(done func(SendResult, error)) { p.SendToQueueAsync(t.Context(), m, queue("orders", 7), done) }, message.ErrLimit},
		{"no selector", func(done func(SendResult, error)) { p.SendSelectedAsync(t.Context(), m, nil, "", done) }, message.ErrIllegal},
		{"canceled", func(done func(SendResult, error)) { p.SendAsync(canceled, m, done) }, context.Canceled},
		{"closed", func(done func(SendResult, error)) { p.Close(); p.SendAsync(t.Context(), m, done) }, message.ErrClosed},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := make(chan error, 2)
			test.send(func(r SendResult, err error) {
				if r.Status != SendNotStored {
					t.Error(r)
				}
				got <- err
			})
			require.ErrorIs(t, <-got, test.want)
		})
	}
	require.Empty(t, h.store.Queues())
}

// gated is a producer whose broker answers when the gate is opened, and how many
// sends it has at once.
func gated(t *testing.T, cfg ProducerConfig) (p *Producer, gate chan struct{}, inside *atomic.Int64) {
	t.Helper()
	gate, inside = make(chan struct{}), new(atomic.Int64)
	a := &flaky{fail: func(context.Context) error {
		inside.Add(1)
		<-gate
		inside.Add(-1)
		return nil
	}}
	n := &fakeNames{brokers: map[string]protocol.Broker{"a": a}}
	n.route = func(string) (protocol.TopicRoute, error) { return routeOf(2, "a"), nil }
	cfg.Group, cfg.NameService, cfg.Connect = "g", n, n.connect
	p, err := NewProducer(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p, gate, inside
}

// TestBackPressure fills the room in both ways, gives up waiting, and goes on
// when there is room again.
func TestBackPressure(t *testing.T) {
	for _, test := range []struct {
		name string
		cfg  ProducerConfig
		body int
		fit  int64
	}{
		{"by number", ProducerConfig{MaxAsyncSends: 3}, 10, 3},
		{"by bytes", ProducerConfig{MaxAsyncBytes: 1000}, 400, 2},
		{"too large for all", ProducerConfig{MaxAsyncBytes: 100}, 400, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, gate, inside := gated(t, test.cfg)
				m := text(t, "t", strings.Repeat("x", test.body))
				var called atomic.Int64
				for range test.fit {
					p.SendAsync(t.Context(), m, func(SendResult, error) { called.Add(1) })
				}
				synctest.Wait()
				require.Equal(t, test.fit, inside.Load())

				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := p.SendFuture(ctx, m).Wait(t.Context())
				require.ErrorIs(t, err, ErrTooManySends)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, protocol.NoCode, CodeOf(err))
				require.Equal(t, test.fit, inside.Load())

				go p.SendAsync(t.Context(), m, func(SendResult, error) { called.Add(1) })
				synctest.Wait()
				gate <- struct{}{}
				synctest.Wait()
				require.EqualValues(t, 1, called.Load())
				require.Equal(t, test.fit, inside.Load(), "the next one took its room")
				close(gate)
				require.NoError(t, p.Close())
				require.Equal(t, test.fit+1, called.Load())
			})
		})
	}
}

// TestCloseWhileWaiting refuses who waits for room, and waits for who has it.
func TestCloseWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, gate, _ := gated(t, ProducerConfig{MaxAsyncSends: 1})
		first := p.SendFuture(t.Context(), text(t, "t", "x"))
		var second *Future
		go func() { second = p.SendFuture(t.Context(), text(t, "t", "x")) }()
		synctest.Wait()
		closed := make(chan struct{})
		go func() { p.Close(); close(closed) }()
		synctest.Wait()
		_, err := second.Wait(t.Context())
		require.ErrorIs(t, err, message.ErrClosed)
		select {
		case <-closed:
			t.Fatal("a send is under way")
		default:
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = first.Wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "the wait ends, not the send")
		close(gate)
		<-closed
		r, err := first.Wait(ctx)
		require.NoError(t, err)
		require.Equal(t, SendOK, r.Status)
		<-first.Done()
	})
}

// TestPermitsInOrder has a large send wait before a small one, which then waits
// too, and does not any more when the large one gives up.
func TestPermitsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPermits(10, 100)
		require.NoError(t, p.acquire(t.Context(), 50))
		ctx, cancel := context.WithCancel(t.Context())
		var gaveUp, small atomic.Bool
		go func() { gaveUp.Store(errors.Is(p.acquire(ctx, 80), ErrTooManySends)) }()
		synctest.Wait()
		go func() { small.Store(p.acquire(t.Context(), 10) == nil) }()
		synctest.Wait()
		require.False(t, small.Load(), "there is room, but not its turn")
		cancel()
		synctest.Wait()
		require.True(t, gaveUp.Load())
		require.True(t, small.Load())
		p.release(10)
		p.release(50)
		p.finish()
		p.finish()
		p.close()
		require.EqualValues(t, 10, p.sends)
		require.EqualValues(t, 100, p.bytes)
	})
}

func TestCallbackPanics(t *testing.T) {
	var log bytes.Buffer
	p, gate, _ := gated(t, ProducerConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	close(gate)
	p.SendAsync(t.Context(), text(t, "t", "x"), func(SendResult, error) { panic("ouch") })
	p.SendAsync(t.Context(), text(t, "a!", "x"), func(SendResult, error) { panic("argh") })
	require.NoError(t, p.Close())
	require.Contains(t, log.String(), "ouch")
	require.Contains(t, log.String(), "argh")
}

// TestSendOneway is one attempt that waits for no sync.
func TestSendOneway(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	m := text(t, "orders", "x", "WAIT", "true", "TAGS", "red")
	before := *m
	require.NoError(t, p.SendOneway(t.Context(), m))
	require.Equal(t, before, *m)
	stored, err := h.store.LookMessageByOffset(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, "red", stored.Tags())
	require.NotEmpty(t, stored.UniqueKey())
	_, wait := stored.Properties.Get("WAIT")
	require.False(t, wait)
	require.ErrorIs(t, p.SendOneway(t.Context(), text(t, "a!", "x")), message.ErrIllegal)
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.SendOneway(t.Context(), m), message.ErrClosed)

	q, a, b := flakyProducer(t, ProducerConfig{})
	a.set(failing(protocol.SystemError), nil)
	b.set(failing(protocol.SystemError), nil)
	require.ErrorIs(t, q.SendOneway(t.Context(), m), protocol.SystemError)
	require.EqualValues(t, 1, a.sends.Load()+b.sends.Load())

	c := &fakeBroker{send: func(req protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
		wait, _ := req.Message.Properties.Get("WAIT")
		require.Equal(t, "false", wait)
		return protocol.SendMessageResponse{}, nil
	}}
	n := &fakeNames{brokers: map[string]protocol.Broker{"a": c}}
	n.route = func(string) (protocol.TopicRoute, error) { return routeOf(2, "a"), nil }
	q, err = NewProducer(ProducerConfig{Group: "g", NameService: n, Connect: n.connect})
	require.NoError(t, err)
	defer q.Close()
	require.NoError(t, q.SendOneway(t.Context(), m))
	require.Equal(t, 1, c.sends)
}

func TestSendBatchAsync(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	h.createTopic(t, "orders", 2)
	type answer struct {
		results []SendResult
		err     error
	}
	send := func(ctx context.Context, ms []*message.Message) answer {
		got := make(chan answer, 2)
		p.SendBatchAsync(ctx, ms, func(results []SendResult, err error) { got <- answer{results, err} })
		for _, m := range ms {
			*m = message.Message{} // the caller's again
		}
		return <-got
	}
	var ms []*message.Message
	for range 20 { // several parts, and the last of them alone
		ms = append(ms, text(t, "orders", strings.Repeat("x", 20_000)))
	}
	got := send(t.Context(), ms)
	require.NoError(t, got.err)
	require.Len(t, got.results, 20)
	for i, r := range got.results {
		require.Equal(t, SendOK, r.Status)
		require.Equal(t, got.results[0].Queue, r.Queue)
		require.EqualValues(t, i, r.QueueOffset)
	}
	require.ErrorIs(t, send(t.Context(), nil).err, message.ErrIllegal)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, send(canceled, []*message.Message{text(t, "orders", "x")}).err, context.Canceled)
	p.SendBatchAsync(t.Context(), nil, func([]SendResult, error) { panic("contained") })
	require.NoError(t, p.Close())
	require.ErrorIs(t, send(t.Context(), []*message.Message{text(t, "orders", "x")}).err, message.ErrClosed)
}
