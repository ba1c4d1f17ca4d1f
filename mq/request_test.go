package mq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// office is a town of one broker where requests are sent to topic t.
func office(t *testing.T) *town {
	t.Helper()
	return openTown(t, map[string]store.Config{"desk": {}})
}

func (w *town) consumer(t *testing.T) *Consumer {
	t.Helper()
	c, err := NewConsumer(t.Context(), ConsumerConfig{Group: "clerks", Topic: "t", NameService: &w.names, Connect: w.connect})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// clerk replies to n requests, each with "re: " and its body.
func (w *town) clerk(t *testing.T, n int) (wait func()) {
	t.Helper()
	c, p := w.consumer(t), w.producerOf(t, ProducerConfig{Group: "clerks"})
	ctx := soon(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range n {
			m, err := c.Receive(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			if r, err := p.Reply(ctx, m, []byte("re: "+string(m.Body))); err != nil || r.Status != SendOK {
				t.Error(r, err)
			}
		}
	})
	return wg.Wait
}

func (w *town) producerOf(t *testing.T, cfg ProducerConfig) *Producer {
	t.Helper()
	cfg.NameService, cfg.Connect = &w.names, w.connect
	p, err := NewProducer(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// TestRequest asks in all ways that wait.
func TestRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := office(t)
		wait := w.clerk(t, 4)
		p := w.producer(t, ProducerConfig{Now: func() time.Time { return time.UnixMilli(1234) }})
		ctx := soon(t)
		q := protocol.MessageQueue{Topic: "t", BrokerName: "desk", QueueID: 1}
		m := text(t, "t", "plain", "TAGS", "red")
		before := *m
		for name, ask := range map[string]func() (*message.MessageExt, error){
			"plain": func() (*message.MessageExt, error) { return p.Request(ctx, m) },
			"queue": func() (*message.MessageExt, error) { return p.RequestToQueue(ctx, text(t, "t", "queue"), q) },
			"selected": func() (*message.MessageExt, error) {
				return p.RequestSelected(ctx, text(t, "t", "selected"), SelectByKey, "k")
			},
			"no deadline": func() (*message.MessageExt, error) {
				return p.Request(context.WithoutCancel(ctx), text(t, "t", "no deadline"))
			},
		} {
			reply, err := ask()
			require.NoError(t, err, name)
			require.Equal(t, "re: "+name, string(reply.Body))
			require.Equal(t, "DefaultCluster_REPLY_TOPIC", reply.Topic)
			require.Equal(t, "desk", reply.BrokerName)
			get := func(name string) string { v, _ := reply.Properties.Get(name); return v }
			require.Equal(t, "reply", get("MSG_TYPE"))
			require.Equal(t, "1234", get("ARRIVE_TIME"))
			require.NotEmpty(t, get("PUSH_REPLY_TIME"))
			require.NotEmpty(t, get("UNIQ_KEY"))
			require.Equal(t, p.instance.key.id, get("REPLY_TO_CLIENT"))
			require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, get("CORRELATION_ID"))
			ttl, err := strconv.Atoi(get("TTL"))
			require.NoError(t, err)
			require.Positive(t, ttl)
			require.LessOrEqual(t, ttl, 60_000, "milliseconds until the deadline")
		}
		wait()
		require.Equal(t, before, *m, "the caller's message is not modified")
		require.Empty(t, p.instance.requests.byID)
	})
}

// TestRequestAsync has many requests wait at once, and each get its own reply.
func TestRequestAsync(t *testing.T) {
	w := office(t)
	const requests = 60
	wait := w.clerk(t, requests)
	p := w.producer(t, ProducerConfig{})
	ctx := soon(t)
	q := protocol.MessageQueue{Topic: "t", BrokerName: "desk", QueueID: 1}
	var replied atomic.Int64
	var wg sync.WaitGroup
	for i := range requests {
		body := fmt.Sprint(i)
		wg.Add(1)
		done := func(reply *message.MessageExt, err error) {
			defer wg.Done()
			if err != nil || string(reply.Body) != "re: "+body {
				t.Error(reply, err)
			}
			replied.Add(1)
			if i == 0 {
				panic("a callback of a user")
			}
		}
		m := text(t, "t", body)
		switch i % 3 {
		case 0:
			p.RequestAsync(ctx, m, done)
		case 1:
			p.RequestToQueueAsync(ctx, m, q, done)
		case 2:
			p.RequestSelectedAsync(ctx, m, SelectByKey, body, done)
		}
	}
	wg.Wait()
	wait()
	require.EqualValues(t, requests, replied.Load())
	require.Empty(t, p.instance.requests.byID)
}

// TestRequestShared has two producers of one client ask at once.
func TestRequestShared(t *testing.T) {
	w := office(t)
	wait := w.clerk(t, 20)
	var wg sync.WaitGroup
	for _, group := range []string{"a", "b"} {
		p := w.producerOf(t, ProducerConfig{Group: group, InstanceName: "shared"})
		ctx := soon(t)
		wg.Go(func() {
			for i := range 10 {
				body := group + strconv.Itoa(i)
				reply, err := p.Request(ctx, &message.Message{Topic: "t", Body: []byte(body)})
				if err != nil || string(reply.Body) != "re: "+body {
					t.Error(reply, err)
				}
			}
		})
	}
	wg.Wait()
	wait()
}

// overdue is a context whose deadline is met when done is closed.
type overdue struct {
	context.Context

	done chan struct{}
}

func (c *overdue) Deadline() (time.Time, bool) { return time.Now().Add(time.Hour), true }
func (c *overdue) Done() <-chan struct{}       { return c.done }

func (c *overdue) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestRequestOutcomes has every way that a request can end but with a reply.
func TestRequestOutcomes(t *testing.T) {
	w := office(t)
	var logged bytes.Buffer
	p := w.producer(t, ProducerConfig{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	replier := w.producerOf(t, ProducerConfig{Group: "clerks"})
	c := w.consumer(t)
	both := map[string]func(context.Context, *message.Message) error{
		"sync": func(ctx context.Context, m *message.Message) error { _, err := p.Request(ctx, m); return err },
		"async": func(ctx context.Context, m *message.Message) error {
			result := make(chan error, 1)
			p.RequestAsync(ctx, m, func(_ *message.MessageExt, err error) { result <- err })
			return <-result
		},
	}
	for name, request := range both {
		t.Run(name+", no reply", func(t *testing.T) {
			ctx := &overdue{Context: t.Context(), done: make(chan struct{})}
			received := make(chan *message.MessageExt, 1)
			go func() {
				m, err := c.Receive(soon(t))
				if err != nil {
					t.Error(err)
				}
				received <- m
				close(ctx.done)
			}()
			err := request(ctx, text(t, "t", "anybody?"))
			var e *RequestError
			require.ErrorAs(t, err, &e)
			require.Equal(t, "t", e.Topic)
			require.ErrorIs(t, err, protocol.RequestTimeout)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.EqualValues(t, 10006, CodeOf(err))
			require.ErrorContains(t, err, "REQUEST_TIMEOUT_EXCEPTION: no reply within")

			m := <-received
			id, _ := m.Properties.Get("CORRELATION_ID")
			require.Equal(t, e.CorrelationID, id)
			_, err = replier.Reply(t.Context(), m, []byte("late"))
			require.ErrorIs(t, err, protocol.SystemError)
			require.ErrorContains(t, err, "nobody waits for the reply")
			require.Contains(t, logged.String(), "reply that nobody waits for dropped")
			require.Contains(t, logged.String(), id)
		})
		t.Run(name+", canceled", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				_, err := c.Receive(soon(t))
				if err != nil {
					t.Error(err)
				}
				cancel()
			}()
			err := request(ctx, text(t, "t", "x"))
			var e *RequestError
			require.ErrorAs(t, err, &e)
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, protocol.RequestTimeout)
			require.Equal(t, protocol.NoCode, CodeOf(err))
		})
		t.Run(name+", ended before", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := request(ctx, text(t, "t", "x"))
			var e *SendError
			require.ErrorAs(t, err, &e)
			require.Zero(t, e.Attempts)
			require.ErrorIs(t, err, context.Canceled)
		})
		t.Run(name+", not sent", func(t *testing.T) {
			err := request(t.Context(), text(t, "t", "x", "TIMER_DELAY_SEC", "soon"))
			var e *RequestError
			var send *SendError
			require.ErrorAs(t, err, &e)
			require.ErrorAs(t, err, &send)
			require.Equal(t, 1, send.Attempts)
			require.Equal(t, protocol.MessageIllegal, CodeOf(err))
		})
		t.Run(name+", illegal", func(t *testing.T) {
			require.ErrorIs(t, request(t.Context(), nil), message.ErrIllegal)
			require.ErrorIs(t, request(t.Context(), text(t, "a!", "x")), message.ErrIllegal)
			full := &message.Message{Topic: "t", Body: []byte("x"), Properties: propertiesOf(MaxPropertiesLength)}
			require.ErrorIs(t, request(t.Context(), full), message.ErrLimit)
		})
	}
	_, err := p.RequestToQueue(t.Context(), text(t, "t", "x"), queue("other", 0))
	require.ErrorIs(t, err, message.ErrIllegal)
	_, err = p.RequestSelected(t.Context(), text(t, "t", "x"), nil, "")
	require.ErrorIs(t, err, message.ErrIllegal)
	require.Empty(t, p.instance.requests.byID)
}

// TestCloseEndsRequests closes a producer that waits for replies.
func TestCloseEndsRequests(t *testing.T) {
	w := office(t)
	p := w.producer(t, ProducerConfig{})
	c := w.consumer(t)
	var called atomic.Int64
	for range 10 {
		p.RequestAsync(soon(t), text(t, "t", "x"), func(_ *message.MessageExt, err error) {
			var e *RequestError
			if !errors.Is(err, message.ErrClosed) || !errors.As(err, &e) {
				t.Error(err)
			}
			called.Add(1)
		})
	}
	result := make(chan error, 1)
	go func() {
		_, err := p.Request(soon(t), text(t, "t", "x"))
		result <- err
	}()
	for range 11 {
		_, err := c.Receive(soon(t))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
	require.EqualValues(t, 10, called.Load(), "Close waits for callbacks")
	err := <-result
	require.ErrorIs(t, err, message.ErrClosed)
	require.Equal(t, protocol.NoCode, CodeOf(err))
	_, err = p.Request(t.Context(), text(t, "t", "x"))
	require.Equal(t, &StateError{State: StateShutdownAlready}, err)
}

// TestRequestsWhileClosing adds requests until their producer is closed: each of them
// ends.
func TestRequestsWhileClosing(t *testing.T) {
	w := office(t)
	p := w.producer(t, ProducerConfig{})
	var began, ended atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for p.State() == StateRunning {
				began.Add(1)
				p.RequestAsync(t.Context(), &message.Message{Topic: "t", Body: []byte("x")}, func(*message.MessageExt, error) { ended.Add(1) })
			}
		})
	}
	for began.Load() < 20 {
		_, err := p.Send(t.Context(), text(t, "t", "x"))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
	wg.Wait()
	require.Equal(t, began.Load(), ended.Load())
}

// TestRequestKnowsBrokersFirst asks by way of a broker that came after the
// producer was made, and has not been told of it.
func TestRequestKnowsBrokersFirst(t *testing.T) {
	known := register{clients: map[string][]string{}, told: make(chan struct{}, 1)}
	b := &fakeBroker{Broker: &known}
	n := &fakeNames{brokers: map[string]protocol.Broker{"a": b}}
	n.route = func(string) (protocol.TopicRoute, error) { return routeOf(1, "a"), nil }
	p, err := NewProducer(ProducerConfig{Group: "g", NameService: n, Connect: n.connect})
	require.NoError(t, err)
	defer p.Close()
	require.Empty(t, known.ids())
	n.list = func() ([]protocol.BrokerData, error) { return routeOf(1, "a").Brokers, nil }
	b.send = func(req protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
		id, _ := req.Message.Properties.Get("REPLY_TO_CLIENT")
		require.Equal(t, []string{id}, known.ids())
		m, err := CreateReply(&message.MessageExt{Message: message.Message{Properties: message.JoinProperties(req.Message.Properties, "CLUSTER\x01c")}}, []byte("early"))
		require.NoError(t, err)
		require.NoError(t, p.instance.PushReplyMessage(t.Context(), protocol.PushReplyMessageRequest{Message: &message.MessageExt{Message: *m}}))
		return protocol.SendMessageResponse{Code: protocol.FlushDiskTimeout}, &protocol.Error{Code: protocol.FlushDiskTimeout}
	}
	reply, err := p.Request(t.Context(), text(t, "t", "x"))
	require.NoError(t, err, "a reply may come before the send ends, and without its promise")
	require.Equal(t, "early", string(reply.Body))

	b.send = func(req protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
		m := &message.MessageExt{Message: message.Message{Properties: req.Message.Properties, Body: []byte("no zlib")}, SysFlag: message.FlagCompressed}
		require.NoError(t, p.instance.PushReplyMessage(t.Context(), protocol.PushReplyMessageRequest{Message: m}))
		return protocol.SendMessageResponse{}, nil
	}
	_, err = p.Request(t.Context(), text(t, "t", "x"))
	require.ErrorIs(t, err, message.ErrCorrupt)
	require.ErrorContains(t, err, "the reply can not be read")
}

// TestReplyCompressed replies with a large body, in a namespace.
func TestReplyCompressed(t *testing.T) {
	w := office(t)
	body := []byte(strings.Repeat("much ", 5000))
	p := w.producerOf(t, ProducerConfig{Group: "g", Namespace: "ns"})
	replier := w.producerOf(t, ProducerConfig{Group: "r", CompressOver: 4096})
	c, err := NewConsumer(t.Context(), ConsumerConfig{Group: "clerks", Topic: "t", Namespace: "ns", NameService: &w.names, Connect: w.connect})
	require.NoError(t, err)
	defer c.Close()
	go func() {
		m, err := c.Receive(soon(t))
		if err == nil {
			_, err = replier.Reply(t.Context(), m, body)
		}
		if err != nil {
			t.Error(err)
		}
	}()
	reply, err := p.Request(soon(t), text(t, "t", "x"))
	require.NoError(t, err)
	require.Equal(t, body, reply.Body)
	require.NotZero(t, reply.SysFlag&message.FlagCompressed)
}

// TestReplyRefusedByWhoAsked sends a reply that nobody waits for, where there are
// several brokers: each would say the same, and none is to be avoided for it.
func TestReplyRefusedByWhoAsked(t *testing.T) {
	w := openTown(t, map[string]store.Config{"a": {}, "b": {}})
	p := w.producer(t, ProducerConfig{})
	m, err := CreateReply(&message.MessageExt{Message: message.Message{
		Properties: "CLUSTER\x01DefaultCluster\x02CORRELATION_ID\x011\x02REPLY_TO_CLIENT\x01" + message.Properties(p.instance.key.id),
	}}, []byte("x"))
	require.NoError(t, err)
	for range 4 {
		_, err = p.Send(t.Context(), m)
		var e *SendError
		require.ErrorAs(t, err, &e)
		require.Equal(t, 1, e.Attempts)
		require.ErrorContains(t, err, "nobody waits")
	}
	for _, h := range p.routes.known(m.Topic).health {
		require.Zero(t, h.fails.Load())
	}
}

func TestCreateReply(t *testing.T) {
	request := func(properties ...string) *message.MessageExt {
		return &message.MessageExt{Message: *text(t, "t", "question", properties...)}
	}
	m, err := CreateReply(request("CLUSTER", "c", "TTL", "3000", "CORRELATION_ID", "1", "REPLY_TO_CLIENT", "me", "KEYS", "k"), []byte("answer"))
	require.NoError(t, err)
	require.Equal(t, text(t, "c_REPLY_TOPIC", "answer", "MSG_TYPE", "reply", "CORRELATION_ID", "1", "REPLY_TO_CLIENT", "me", "TTL", "3000"), m)
	_, err = CreateReply(request("CLUSTER", "c", "CORRELATION_ID", "1", "REPLY_TO_CLIENT", "me"), nil)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		request *message.MessageExt
		text    string
	}{
		"nil":        {nil, "request"},
		"cluster":    {request("CORRELATION_ID", "1", "REPLY_TO_CLIENT", "me"), "CLUSTER"},
		"id":         {request("CLUSTER", "c", "REPLY_TO_CLIENT", "me"), "CORRELATION_ID"},
		"client":     {request("CLUSTER", "c", "CORRELATION_ID", "1"), "REPLY_TO_CLIENT"},
		"no request": {request(), "CLUSTER"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := CreateReply(test.request, []byte("x"))
			require.ErrorIs(t, err, protocol.CreateReplyMessage)
			require.EqualValues(t, 10007, CodeOf(err))
			require.ErrorIs(t, err, message.ErrIllegal)
			require.ErrorContains(t, err, test.text)
		})
	}
	w := office(t)
	_, err = w.producer(t, ProducerConfig{}).Reply(t.Context(), request(), []byte("x"))
	require.ErrorIs(t, err, protocol.CreateReplyMessage)
}
