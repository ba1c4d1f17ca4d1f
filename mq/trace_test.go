package mq

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// traces reads all records of a topic, and the messages in which they were.
func (h *house) traces(t *testing.T, topic string) (records []TraceRecord, ms []*message.MessageExt) {
	t.Helper()
	require.NoError(t, h.store.WaitDispatched(t.Context(), h.store.MaxOffset()))
	r, err := NewReader(t.Context(), ReaderConfig{Topic: topic, NameService: h.names, Connect: h.names.Connect})
	require.NoError(t, err)
	defer r.Close()
	for m, err := range r.Messages(t.Context()) {
		require.NoError(t, err)
		got, err := DecodeTrace(m.Body)
		require.NoError(t, err)
		records, ms = append(records, got...), append(ms, m)
	}
	return records, ms
}

// TestTrace sends, consumes, commits and retries, and reads of it in the trace topic.
// The clock is the test's own: by that of a busy machine, records wait too long for each
// other to be in one message.
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t)
		h.createTopic(t, "orders", 1)
		h.createTopic(t, protocol.RetryPrefix+"readers", 1)
		p, err := NewProducer(ProducerConfig{Group: "senders", NameService: h.names, Connect: h.names.Connect, Trace: &TraceConfig{}})
		require.NoError(t, err)
		defer p.Close()
		began := time.Now().UnixMilli()
		first, err := p.Send(t.Context(), text(t, "orders", "hello", "TAGS", "red", "KEYS", "k1 k2"))
		require.NoError(t, err)
		batch, err := p.SendBatch(t.Context(), []*message.Message{text(t, "orders", "a", "KEYS", "k3"), text(t, "orders", "bb")})
		require.NoError(t, err)
		_, err = p.Send(t.Context(), text(t, "a!", "x"))
		require.Error(t, err)
		_, err = p.SendToQueue(t.Context(), text(t, "orders", "x"), queue("orders", 7))
		require.Error(t, err, "what is not stored is not traced")

		c := h.consumer(t, ConsumerConfig{Topic: "orders", Trace: &TraceConfig{}})
		var got []*message.MessageExt
		for range 3 {
			m, err := c.Receive(soon(t))
			require.NoError(t, err)
			got = append(got, m)
		}
		require.NoError(t, c.Retry(t.Context(), got[1], RetryLater))
		require.NoError(t, c.Commit(t.Context()))
		require.NoError(t, p.Close())
		require.NoError(t, c.Close())
		ended := time.Now().UnixMilli()
		require.Zero(t, p.TracesDropped())
		require.Zero(t, c.TracesDropped())

		records, ms := h.traces(t, protocol.TraceTopic)
		require.Len(t, ms, 2, "one message each")
		require.Len(t, records, 3+6)
		for i := range records {
			r := &records[i]
			require.GreaterOrEqual(t, r.Timestamp, began)
			require.LessOrEqual(t, r.Timestamp, ended)
			require.LessOrEqual(t, r.CostTime, ended-began)
			r.Timestamp, r.CostTime = 0, 0
		}
		host := first.OffsetMsgID.Host.String()
		pub := func(r SendResult, tags, keys string, length int) TraceRecord {
			return TraceRecord{
				Type: TracePub, Region: "DefaultRegion", Group: "senders", Topic: "orders", MsgID: r.MsgID, Tags: tags, Keys: keys,
				StoreHost: host, BodyLength: length, OffsetMsgID: r.OffsetMsgID.String(), Success: true,
			}
		}
		before := func(r SendResult, keys string) TraceRecord {
			return TraceRecord{Type: TraceSubBefore, Region: "DefaultRegion", Group: "readers", MsgID: r.MsgID, Keys: keys}
		}
		after := func(r SendResult, keys string, code int) TraceRecord {
			return TraceRecord{Type: TraceSubAfter, Group: "readers", MsgID: r.MsgID, Keys: keys, Success: code == 0, ContextCode: code}
		}
		ids := map[string]string{}
		for i := range records {
			r := &records[i]
			switch r.Type {
			case TraceSubBefore:
				require.Len(t, r.RequestID, 32)
				ids[r.MsgID] = r.RequestID
			case TraceSubAfter:
				require.Equal(t, ids[r.MsgID], r.RequestID)
			}
			r.RequestID = ""
		}
		require.Len(t, ids, 3)
		require.Equal(t, []TraceRecord{
			pub(first, "red", "k1 k2", 5), pub(batch[0], "", "k3", 1), pub(batch[1], "", "", 2),
			before(first, "k1 k2"), before(batch[0], "k3"), before(batch[1], ""),
			after(batch[0], "k3", TraceFailed), after(first, "k1 k2", TraceConsumed), after(batch[1], "", TraceConsumed),
		}, records)

		require.Equal(t, fmt.Sprint(first.MsgID, " k1 k2 ", batch[0].MsgID, " k3 ", batch[1].MsgID), strings.Join(ms[0].Keys(), " "))
		require.NoError(t, h.store.WaitIndexed(t.Context(), h.store.MaxOffset()))
		res, err := h.store.QueryMessage(t.Context(), store.KeyQuery{Topic: protocol.TraceTopic, Key: batch[1].MsgID, MaxNum: 10})
		require.NoError(t, err)
		defer res.Release()
		require.Len(t, res.Messages, 2, "found by the id of a message: sent, and consumed")
	})
}

// TestTraceIsNotTraced has the trace topic itself, and a topic of one's own.
func TestTraceIsNotTraced(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "my_traces", 1)
	p, err := NewProducer(ProducerConfig{
		Group: strings.Repeat("g", 255), NameService: h.names, Connect: h.names.Connect, Trace: &TraceConfig{Topic: "my_traces"},
	})
	require.NoError(t, err)
	defer p.Close()
	r, err := p.Send(t.Context(), text(t, "orders", "x"))
	require.NoError(t, err)
	_, err = p.Send(t.Context(), text(t, "my_traces", string(AppendTrace(nil, &TraceRecord{Type: TraceSubAfter, MsgID: "own"}))))
	require.NoError(t, err)
	c := h.consumer(t, ConsumerConfig{Topic: "my_traces", Trace: &TraceConfig{Topic: "my_traces"}})
	_, err = c.Receive(soon(t))
	require.NoError(t, err)
	require.NoError(t, c.Commit(t.Context()))
	require.NoError(t, c.Close())
	require.NoError(t, p.Close())
	records, _ := h.traces(t, "my_traces")
	require.Len(t, records, 2)
	require.Equal(t, "own", records[0].MsgID)
	require.Equal(t, r.MsgID, records[1].MsgID)
	require.Equal(t, strings.Repeat("g", 255), records[1].Group)
	for _, topic := range []string{"a!", message.ScheduleTopic} {
		_, err := NewProducer(ProducerConfig{Group: "g", NameService: h.names, Connect: h.names.Connect, Trace: &TraceConfig{Topic: topic}})
		require.ErrorIs(t, err, message.ErrIllegal)
		_, err = NewConsumer(t.Context(), ConsumerConfig{Group: "g", Topic: "t", NameService: h.names, Connect: h.names.Connect, Trace: &TraceConfig{Topic: topic}})
		require.ErrorIs(t, err, message.ErrIllegal)
	}
}

// TestTraceOff: a broker's word counts for consumers.
func TestTraceOff(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	p := h.producer(t)
	for _, m := range []*message.Message{text(t, "orders", "x", "TRACE_ON", "false"), text(t, "orders", "y", "TRACE_ON", "true", "MSG_REGION", "north")} {
		_, err := p.Send(t.Context(), m)
		require.NoError(t, err)
	}
	c := h.consumer(t, ConsumerConfig{Topic: "orders", AutoCommit: true, Trace: &TraceConfig{}})
	ms, err := c.ReceiveBatch(soon(t), 1)
	require.NoError(t, err)
	for len(ms) < 2 {
		more, err := c.ReceiveBatch(soon(t), 2)
		require.NoError(t, err)
		ms = append(ms, more...)
	}
	require.NoError(t, c.Close())
	records, _ := h.traces(t, protocol.TraceTopic)
	require.Len(t, records, 2)
	require.Equal(t, ms[1].UniqueKey(), records[0].MsgID)
	require.Equal(t, "north", records[0].Region)
	require.True(t, records[1].Success, "AutoCommit ends what was handed out")
}

// traceBroker is a broker to which traces go astray.
type traceBroker struct {
	fakeBroker

	mu    sync.Mutex
	trace func(context.Context, protocol.SendMessageRequest) error
	sizes []int // of the trace messages, in records
}

func (b *traceBroker) SendMessage(ctx context.Context, req protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
	if req.Message.Topic != protocol.TraceTopic {
		return protocol.SendMessageResponse{}, nil
	}
	if err := b.trace(ctx, req); err != nil {
		return protocol.SendMessageResponse{Code: protocol.CodeOf(err)}, err
	}
	records, err := DecodeTrace(req.Message.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sizes = append(b.sizes, len(records))
	return protocol.SendMessageResponse{}, err
}

func tracingProducer(t *testing.T, trace func(context.Context, protocol.SendMessageRequest) error, log *bytes.Buffer) (*Producer, *traceBroker) {
	t.Helper()
	b := &traceBroker{trace: trace}
	n := &fakeNames{brokers: map[string]protocol.Broker{"a": b}}
	n.route = func(string) (protocol.TopicRoute, error) { return routeOf(1, "a"), nil }
	p, err := NewProducer(ProducerConfig{
		Group: "g", NameService: n, Connect: n.connect, Trace: &TraceConfig{}, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p, b
}

// TestTraceLoss: traces that can not be sent neither hold up nor fail a send; they
// are counted, and told of once and at the end.
func TestTraceLoss(t *testing.T) {
	for _, test := range []struct {
		name    string
		trace   func(context.Context, protocol.SendMessageRequest) error
		dropped int64
		text    string
	}{
		{"refused", func(context.Context, protocol.SendMessageRequest) error {
			return &protocol.Error{Code: protocol.NoPermission}
		}, 1000, "NO_PERMISSION"},
		{"hangs", func(ctx context.Context, _ protocol.SendMessageRequest) error { <-ctx.Done(); return ctx.Err() }, 5000, "too many records wait"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				p, _ := tracingProducer(t, test.trace, &log)
				began := time.Now()
				for range test.dropped {
					_, err := p.Send(t.Context(), text(t, "t", "x"))
					require.NoError(t, err)
				}
				require.Equal(t, began, time.Now(), "no send waits")
				require.NoError(t, p.Close())
				require.LessOrEqual(t, time.Since(began), traceCloseTimeout)
				require.Equal(t, test.dropped, p.TracesDropped())
				require.Equal(t, 2, strings.Count(log.String(), "dropped"), log.String())
				require.Contains(t, log.String(), test.text)
			})
		})
	}
}

// TestTraceBatches: a message has up to a hundred records, fewer where they are
// large, and one record waits a while for others.
func TestTraceBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var keys int
		p, b := tracingProducer(t, func(_ context.Context, req protocol.SendMessageRequest) error {
			if len(req.Message.Body) > traceMaxBytes {
				return fmt.Errorf("%d bytes", len(req.Message.Body))
			}
			wait, _ := req.Message.Properties.Get("WAIT")
			require.Equal(t, "false", wait)
			text, _ := req.Message.Properties.Get("KEYS")
			keys = len(strings.Fields(text))
			return nil
		}, &log)
		send := func(n int, properties ...string) {
			for range n {
				_, err := p.Send(t.Context(), text(t, "t", "x", properties...))
				require.NoError(t, err)
			}
		}
		sizes := func() []int {
			b.mu.Lock()
			defer b.mu.Unlock()
			got := b.sizes
			b.sizes = nil
			return got
		}
		send(1)
		pass(traceLinger - time.Millisecond)
		require.Empty(t, sizes())
		pass(time.Millisecond)
		require.Equal(t, []int{1}, sizes())
		send(250)
		pass(traceLinger)
		require.Equal(t, []int{100, 100, 50}, sizes())
		require.Equal(t, 50, keys)
		send(10, "UNIQ_KEY", "U", "KEYS", "a b a")
		pass(traceLinger)
		require.Equal(t, []int{10}, sizes())
		require.Equal(t, 3, keys, "each once")
		send(5, "KEYS", strings.Repeat("k", 10_000))
		pass(traceLinger)
		require.Equal(t, []int{1, 1, 1, 1, 1}, sizes(), "their keys do not go together")
		send(2, "KEYS", strings.Repeat("k", 30_000))
		pass(traceLinger)
		require.Equal(t, []int{1, 1}, sizes())
		require.Equal(t, 1, keys, "the id without the keys, which are in the record")
		send(20, "TAGS", strings.Repeat("g", 30_000))
		pass(traceLinger)
		require.Equal(t, []int{4, 4, 4, 4, 4}, sizes())
		send(7)
		require.NoError(t, p.Close())
		require.Equal(t, []int{7}, sizes(), "Close sends what waits")
		require.Empty(t, log.String())
		require.Zero(t, p.TracesDropped())
		p.trace.add(TraceRecord{})
		require.EqualValues(t, 1, p.TracesDropped(), "afterwards there is nobody")
	})
}

// TestTraceOfFailedCommits: what a broker does not commit is not consumed yet; of
// what is never committed not everything is remembered.
func TestTraceOfFailedCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p, b := tracingProducer(t, func(context.Context, protocol.SendMessageRequest) error { return nil }, &log)
		c := consumerTrace{t: p.trace, group: "g"}
		for i, broker := range []string{"a", "b", "a"} {
			m := &message.MessageExt{BrokerName: broker, LogOffset: message.LogOffset(i)}
			m.Topic = "t"
			c.received(m)
		}
		c.committed(c.taken(), map[string]bool{"b": true})
		require.Len(t, c.open, 1)
		require.Equal(t, "b", c.open[0].broker)
		for i := range maxOpenTraces {
			c.open = append(c.open, openTrace{offset: message.LogOffset(i)})
		}
		c.open = c.open[:maxOpenTraces]
		c.received(&message.MessageExt{BrokerName: "last"})
		require.Len(t, c.open, maxOpenTraces)
		require.Equal(t, "last", c.open[maxOpenTraces-1].broker)
		require.EqualValues(t, 1, p.TracesDropped())
		c.retried(&message.MessageExt{BrokerName: "nobody knows"})
		require.NoError(t, p.Close())
		require.Equal(t, []int{3 + 2 + 1}, b.sizes)
	})
}
