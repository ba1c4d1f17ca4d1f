package mq

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// storesNothing runs test and wants a log that did not grow, and no new topic.
func storesNothing(t *testing.T, h *house, test func()) {
	t.Helper()
	end := h.store.MaxOffset()
	topics, err := h.broker.ListTopics(t.Context())
	require.NoError(t, err)
	test()
	require.Equal(t, end, h.store.MaxOffset(), "nothing is stored")
	after, err := h.broker.ListTopics(t.Context())
	require.NoError(t, err)
	require.Equal(t, topics, after, "no topic is made")
}

// ways are all ways to send one message; each returns its error.
func ways(ctx context.Context, p *Producer, m *message.Message) map[string]func() error {
	q := queue("orders", 0)
	if m != nil {
		q.Topic = m.Topic
	}
	async := func(send func(done func(SendResult, error))) error {
		got := make(chan error, 1)
		send(func(_ SendResult, err error) { got <- err })
		return <-got
	}
	return map[string]func() error{
		"send":           func() error { _, err := p.Send(ctx, m); return err },
		"to queue":       func() error { _, err := p.SendToQueue(ctx, m, q); return err },
		"selected":       func() error { _, err := p.SendSelected(ctx, m, SelectByKey, "k"); return err },
		"async":          func() error { return async(func(done func(SendResult, error)) { p.SendAsync(ctx, m, done) }) },
		"async to queue": func() error { return async(func(done func(SendResult, error)) { p.SendToQueueAsync(ctx, m, q, done) }) },
		"async selected": func() error {
			return async(func(done func(SendResult, error)) { p.SendSelectedAsync(ctx, m, SelectByKey, "k", done) })
		},
		"future": func() error { _, err := p.SendFuture(ctx, m).Wait(ctx); return err },
		"oneway": func() error { return p.SendOneway(ctx, m) },
		"batch":  func() error { _, err := p.SendBatch(ctx, []*message.Message{m}); return err },
		"in batch": func() error {
			_, err := p.SendBatch(ctx, []*message.Message{{Topic: "orders", Body: []byte("x")}, m})
			return err
		},
		"async batch": func() error {
			got := make(chan error, 1)
			p.SendBatchAsync(ctx, []*message.Message{m}, func(_ []SendResult, err error) { got <- err })
			return <-got
		},
	}
}

// TestMessageCheckTable has the checks of a message in their order, by every way to
// send: typed error, RocketMQ's code, nothing stored.
func TestMessageCheckTable(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 2)
	p := h.producer(t)
	body := []byte("x")
	for _, row := range []struct {
		name  string
		m     *message.Message
		field string
		limit bool
		code  protocol.ResponseCode
	}{
		{"message nil", nil, "message", false, protocol.MessageIllegal},
		{"topic blank", &message.Message{Topic: " "}, "topic", false, protocol.NoCode},
		{"topic longer than 127", &message.Message{Topic: strings.Repeat("!", 128)}, "topic", true, protocol.NoCode},
		{"illegal character in topic", &message.Message{Topic: "a@b"}, "topic", false, protocol.NoCode},
		{"topic not allowed: schedule", &message.Message{Topic: "SCHEDULE_TOPIC_XXXX", Body: body}, "topic", false, protocol.NoCode},
		{"topic not allowed: half", &message.Message{Topic: "RMQ_SYS_TRANS_HALF_TOPIC", Body: body}, "topic", false, protocol.NoCode},
		{"topic not allowed: op", &message.Message{Topic: "RMQ_SYS_TRANS_OP_HALF_TOPIC", Body: body}, "topic", false, protocol.NoCode},
		{"topic not allowed: given up", &message.Message{Topic: "TRANS_CHECK_MAX_TIME_TOPIC", Body: body}, "topic", false, protocol.NoCode},
		{"topic not allowed: self test", &message.Message{Topic: "SELF_TEST_TOPIC", Body: body}, "topic", false, protocol.NoCode},
		{"topic not allowed: moved", &message.Message{Topic: "OFFSET_MOVED_EVENT", Body: body}, "topic", false, protocol.NoCode},
		{"body nil", &message.Message{Topic: "orders"}, "body", false, protocol.MessageIllegal},
		{"body length 0", &message.Message{Topic: "orders", Body: []byte{}}, "body", false, protocol.MessageIllegal},
		{"body too large", &message.Message{Topic: "orders", Body: make([]byte, 64<<10+1)}, "body", true, protocol.MessageIllegal},
		{"properties too long", &message.Message{Topic: "orders", Body: body, Properties: propertiesOf(MaxPropertiesLength + 1)}, "properties", true, protocol.NoCode},
	} {
		t.Run(row.name, func(t *testing.T) {
			storesNothing(t, h, func() {
				for name, send := range ways(t.Context(), p, row.m) {
					err := send()
					require.Equal(t, row.code, CodeOf(err), name)
					var illegal *message.IllegalError
					var limit *message.LimitError
					if row.limit {
						require.ErrorAs(t, err, &limit, name)
						require.Equal(t, row.field, limit.Field, name)
						continue
					}
					require.ErrorAs(t, err, &illegal, name)
					require.Equal(t, row.field, illegal.Field, name)
				}
			})
		})
	}
}

// TestGroupCheckTable has the groups that no producer or consumer may have.
func TestGroupCheckTable(t *testing.T) {
	h := openHouse(t)
	for _, row := range []struct {
		name, group        string
		producer, consumer error
	}{
		{"blank", " ", message.ErrIllegal, message.ErrIllegal},
		{"longer than 255", strings.Repeat("g", 256), message.ErrLimit, message.ErrLimit},
		{"longer than its retry topic may be", strings.Repeat("g", 121), nil, message.ErrLimit},
		{"illegal character", "a.b", message.ErrIllegal, message.ErrIllegal},
		{"default of producers", "DEFAULT_PRODUCER", message.ErrIllegal, nil},
		{"default of consumers", "DEFAULT_CONSUMER", nil, message.ErrIllegal},
		{"all characters", "%-_|09azAZ", nil, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, err := NewProducer(ProducerConfig{Group: row.group, NameService: h.names, Connect: h.names.Connect})
			require.ErrorIs(t, err, row.producer)
			if row.producer == nil {
				require.NoError(t, p.Close())
			} else {
				require.Equal(t, protocol.NoCode, CodeOf(err))
			}
			c, err := NewConsumer(t.Context(), ConsumerConfig{Group: row.group, Topic: "orders", NameService: h.names, Connect: h.names.Connect})
			require.ErrorIs(t, err, row.consumer)
			if row.consumer == nil {
				require.NoError(t, c.Close())
			}
		})
	}
}

// TestBatchCheckTable has what a batch may not be: a typed error, nothing stored.
func TestBatchCheckTable(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 2)
	h.createTopic(t, "%RETRY%g", 1)
	p := h.producer(t)
	good := text(t, "orders", "x")
	for _, row := range []struct {
		name string
		ms   []*message.Message
		text string
		code protocol.ResponseCode
	}{
		{"empty", nil, `batch "": is empty`, protocol.NoCode},
		{"mixed topics", []*message.Message{good, text(t, "letters", "x")}, "is not the batch's, which is orders", protocol.NoCode},
		{"mixed WAIT", []*message.Message{good, text(t, "orders", "x", "WAIT", "false")}, "property WAIT", protocol.NoCode},
		{"delayed", []*message.Message{good, text(t, "orders", "x", "DELAY", "1")}, "property DELAY", protocol.NoCode},
		{"delayed by a word", []*message.Message{good, text(t, "orders", "x", "DELAY", "soon")}, "property DELAY", protocol.NoCode},
		{"retry topic", []*message.Message{text(t, "%RETRY%g", "x"), text(t, "%RETRY%g", "y")}, "is a retry topic", protocol.NoCode},
		{"nil element", []*message.Message{good, nil}, "message 1 of the batch", protocol.MessageIllegal},
		{"element without a body", []*message.Message{good, {Topic: "orders"}}, "message 1 of the batch: body", protocol.MessageIllegal},
	} {
		t.Run(row.name, func(t *testing.T) {
			storesNothing(t, h, func() {
				async := make(chan error, 1)
				p.SendBatchAsync(t.Context(), row.ms, func(_ []SendResult, err error) { async <- err })
				for name, err := range map[string]error{
					"batch":    func() error { _, err := p.SendBatch(t.Context(), row.ms); return err }(),
					"to queue": func() error { _, err := p.SendBatchToQueue(t.Context(), row.ms, queue("orders", 0)); return err }(),
					"selected": func() error { _, err := p.SendBatchSelected(t.Context(), row.ms, SelectByKey, "k"); return err }(),
					"async":    <-async,
				} {
					require.ErrorIs(t, err, message.ErrIllegal, name)
					require.ErrorContains(t, err, row.text, name)
					require.Equal(t, row.code, CodeOf(err), name)
				}
			})
		})
	}
}

// TestAnswerTable has every answer to a send: what the result says, and the error.
func TestAnswerTable(t *testing.T) {
	stored := map[protocol.ResponseCode]SendStatus{
		protocol.Success:           SendOK,
		protocol.FlushDiskTimeout:  SendFlushDiskTimeout,
		protocol.FlushSlaveTimeout: SendFlushSlaveTimeout,
		protocol.SlaveNotAvailable: SendSlaveNotAvailable,
	}
	others := []protocol.ResponseCode{
		protocol.SystemError, protocol.RequestCodeNotSupported, protocol.MessageIllegal, protocol.ServiceNotAvailable,
		protocol.NoPermission, protocol.TopicNotExist, protocol.SubscriptionGroupNotExist, protocol.NoBuyerID,
		protocol.NotInCurrentUnit, protocol.GoAway, protocol.IllegalOperation, 999,
	}
	for code := range stored {
		others = append(others, code)
	}
	for _, code := range others {
		t.Run(code.String(), func(t *testing.T) {
			b := &fakeBroker{send: func(req protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
				resp := protocol.SendMessageResponse{Code: code, QueueID: req.QueueID, QueueOffset: 7, MessageID: message.OffsetMessageID{Offset: 9}}
				if code == protocol.Success {
					return resp, nil
				}
				return resp, &protocol.Error{Code: code, Remark: "because"}
			}}
			n := &fakeNames{brokers: map[string]protocol.Broker{"a": b}}
			n.route = func(string) (protocol.TopicRoute, error) { return routeOf(1, "a"), nil }
			p, err := NewProducer(ProducerConfig{Group: "g", NameService: n, Connect: n.connect, Retries: -1})
			require.NoError(t, err)
			defer p.Close()
			r, err := p.Send(t.Context(), text(t, "t", "x", "UNIQ_KEY", "U"))
			require.Equal(t, code, CodeOf(err))
			require.Equal(t, stored[code], r.Status)
			if stored[code] != SendNotStored {
				require.Equal(t, SendResult{
					Status: stored[code], MsgID: "U", OffsetMsgID: message.OffsetMessageID{Offset: 9},
					Queue: protocol.MessageQueue{Topic: "t", BrokerName: "a"}, QueueOffset: 7, Attempts: 1,
				}, r)
			}
			if code == protocol.Success {
				require.NoError(t, err)
				return
			}
			var sendErr *SendError
			require.ErrorAs(t, err, &sendErr)
			require.Equal(t, code, sendErr.Code())
			require.ErrorIs(t, err, code)
			require.ErrorContains(t, err, "because")
		})
	}
}

// TestErrorClassTable has an error of each class: its type and its code.
func TestErrorClassTable(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	answering := func(answer error) *Producer {
		b := &fakeBroker{send: func(protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
			return protocol.SendMessageResponse{Code: protocol.CodeOf(answer)}, answer
		}}
		n := &fakeNames{brokers: map[string]protocol.Broker{"a": b}}
		n.route = func(string) (protocol.TopicRoute, error) { return routeOf(1, "a"), nil }
		p, err := NewProducer(ProducerConfig{Group: "g", NameService: n, Connect: n.connect, Retries: -1})
		require.NoError(t, err)
		t.Cleanup(func() { p.Close() })
		return p
	}
	routing := func(route func(string) (protocol.TopicRoute, error)) *Producer {
		n := &fakeNames{route: route}
		p, err := NewProducer(ProducerConfig{Group: "g", NameService: n, Connect: n.connect, Retries: -1})
		require.NoError(t, err)
		t.Cleanup(func() { p.Close() })
		return p
	}
	closed := h.producer(t)
	require.NoError(t, closed.Close())
	m := text(t, "orders", "x")
	send := func(p *Producer) error { _, err := p.Send(t.Context(), m); return err }
	for _, row := range []struct {
		name string
		err  error
		as   any
		code protocol.ResponseCode
	}{
		{"client: validation", func() error { _, err := h.producer(t).Send(t.Context(), &message.Message{Topic: "a!"}); return err }(), new(*message.IllegalError), protocol.NoCode},
		{"client: no route", send(routing(func(string) (protocol.TopicRoute, error) {
			return protocol.TopicRoute{}, &protocol.Error{Code: protocol.TopicNotExist}
		})), new(*SendError), protocol.NotFoundTopic},
		{"client: no name service", send(routing(func(string) (protocol.TopicRoute, error) {
			return protocol.TopicRoute{}, errors.New("nobody there")
		})), new(*SendError), protocol.NoNameServer},
		{"client: broker is in no route", func() error {
			_, err := h.producer(t).SendToQueue(t.Context(), m, protocol.MessageQueue{Topic: "orders", BrokerName: "elsewhere"})
			return err
		}(), new(*SendError), protocol.BrokerNotExist},
		{"broker", send(answering(&protocol.Error{Code: protocol.NoPermission})), new(*protocol.Error), protocol.NoPermission},
		{"remoting: connect", send(answering(&protocol.Error{Code: protocol.ConnectBroker})), new(*SendError), protocol.ConnectBroker},
		{"remoting: no broker can be connected", send(routing(func(string) (protocol.TopicRoute, error) { return routeOf(1, "a"), nil })), new(*SendError), protocol.ConnectBroker},
		{"remoting: timeout", send(answering(&protocol.Error{Code: protocol.AccessBrokerTimeout})), new(*SendError), protocol.AccessBrokerTimeout},
		{"remoting: the time is over", send(answering(context.DeadlineExceeded)), new(*SendError), protocol.AccessBrokerTimeout},
		{"interruption", send(answering(context.Canceled)), new(*SendError), protocol.NoCode},
		{"other", send(answering(errors.New("strange"))), new(*SendError), protocol.NoCode},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.ErrorAs(t, row.err, row.as)
			require.Equal(t, row.code, CodeOf(row.err), row.err)
		})
	}
	require.ErrorIs(t, send(closed), message.ErrClosed)
}

// TestSelectorTable has what selectors choose for a key, and of n queues.
func TestSelectorTable(t *testing.T) {
	for _, row := range []struct {
		name     string
		selector QueueSelector
		queues   int
		m        *message.Message
		key      string
		want     int32
	}{
		{"hash of a text", SelectByJavaHash, 8, nil, "TagA", 2598919 % 8},
		{"hash with the lowest value", SelectByJavaHash, 7, nil, "polygenelubricants", 2147483648 % 7},
		{"hash of no text", SelectByJavaHash, 8, nil, "", 0},
		{"hash of an Integer", SelectByJavaHashCode(-13), 8, nil, "", 5},
		{"hash of a Long", SelectByJavaHashCode(int32(0x100000002>>32 ^ 0x2)), 8, nil, "", 3},
		{"FNV-1a of the sharding key", SelectByShardingKey, 8, text(t, "t", "x", "__SHARDINGKEY", "a"), "", int32(uint32(0xe40c292c) % 8)},
	} {
		t.Run(row.name, func(t *testing.T) {
			queues := make([]protocol.MessageQueue, row.queues)
			for i := range queues {
				queues[i] = queue("t", int32(i))
			}
			require.Equal(t, row.want, row.selector(slices.Clone(queues), row.m, row.key).QueueID)
		})
	}
}

// TestBadInputTable has what applications can do wrong beside messages: a typed
// error with its code, and nothing half sent.
func TestBadInputTable(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 2)
	p := h.producer(t)
	m := text(t, "orders", "x")
	always := func(q protocol.MessageQueue) QueueSelector {
		return func([]protocol.MessageQueue, *message.Message, string) protocol.MessageQueue { return q }
	}
	errOwn := errors.New("own")
	hooked := func(cfg ProducerConfig) error {
		cfg.Group, cfg.NameService, cfg.Connect = "hooked", h.names, h.names.Connect
		p, err := NewProducer(cfg)
		require.NoError(t, err)
		defer p.Close()
		_, err = p.Send(t.Context(), m)
		return err
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	selected := func(s QueueSelector) func() error {
		return func() error { _, err := p.SendSelected(t.Context(), m, s, "k"); return err }
	}
	for _, row := range []struct {
		name string
		send func() error
		is   error
		as   any
		code protocol.ResponseCode
	}{
		{"selector is nil", selected(nil), message.ErrIllegal, new(*message.IllegalError), protocol.NoCode},
		{"selector returns no queue", selected(always(protocol.MessageQueue{})), ErrSelectedNone, new(*SelectError), protocol.NoCode},
		{"selector returns a queue of another topic", selected(always(queue("letters", 0))), ErrSelectedOther, new(*SelectError), protocol.NoCode},
		{"selector returns a queue that is not there", selected(always(queue("orders", 2))), ErrSelectedOther, new(*SelectError), protocol.NoCode},
		{"selector panics", selected(func([]protocol.MessageQueue, *message.Message, string) protocol.MessageQueue { panic(errOwn) }), errOwn, new(*SelectError), protocol.NoCode},
		{"given queue of another topic", func() error { _, err := p.SendToQueue(t.Context(), m, queue("letters", 0)); return err }, message.ErrIllegal, new(*message.IllegalError), protocol.NoCode},
		{"given queue is not there", func() error { _, err := p.SendToQueue(t.Context(), m, queue("orders", 9)); return err }, message.ErrLimit, new(*SendError), protocol.SystemError},
		{"check refuses", func() error {
			return hooked(ProducerConfig{CheckForbidden: []func(context.Context, SendContext) error{func(context.Context, SendContext) error { return errOwn }}})
		}, ErrForbidden, new(*SendError), protocol.NoCode},
		{"check panics", func() error {
			return hooked(ProducerConfig{CheckForbidden: []func(context.Context, SendContext) error{func(context.Context, SendContext) error { panic(errOwn) }}})
		}, ErrForbidden, new(*SendError), protocol.NoCode},
		{"trace context panics", func() error {
			return hooked(ProducerConfig{TraceContext: func(context.Context) map[string]string { panic(errOwn) }})
		}, ErrTraceContext, nil, protocol.NoCode},
		{"trace context of a reserved name", func() error {
			return hooked(ProducerConfig{TraceContext: func(context.Context) map[string]string { return map[string]string{"KEYS": "k"} }})
		}, ErrTraceContext, new(*message.IllegalError), protocol.NoCode},
		{"context ended before", func() error { _, err := p.Send(canceled, m); return err }, context.Canceled, new(*SendError), protocol.NoCode},
	} {
		t.Run(row.name, func(t *testing.T) {
			storesNothing(t, h, func() {
				err := row.send()
				require.ErrorIs(t, err, row.is)
				if row.as != nil {
					require.ErrorAs(t, err, row.as)
				}
				require.Equal(t, row.code, CodeOf(err))
			})
		})
	}
	t.Run("hook panics", func(t *testing.T) {
		ouch := func(context.Context, SendContext) { panic(errOwn) }
		require.NoError(t, hooked(ProducerConfig{Hooks: []SendMessageHook{{ouch, ouch}}}), "it can not stop a send")
	})
	t.Run("callback panics", func(t *testing.T) {
		end := h.store.MaxOffset()
		p := h.producer(t)
		p.SendAsync(t.Context(), m, func(SendResult, error) { panic(errOwn) })
		require.NoError(t, p.Close())
		require.Greater(t, h.store.MaxOffset(), end, "the message is sent all the same")
	})
}

// TestAsyncRetries has a count of its own for what nobody waits for.
func TestAsyncRetries(t *testing.T) {
	for _, row := range []struct {
		name                  string
		retries, retriesAsync int
		sync, async           int32 // attempts
	}{
		{"defaults", 0, 0, 3, 3},
		{"only sync", 4, -1, 5, 1},
		{"only async", -1, 4, 1, 5},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, a, b := flakyProducer(t, ProducerConfig{Retries: row.retries, RetriesAsync: row.retriesAsync, Faults: FaultPolicy{Off: true}})
			a.set(failing(protocol.SystemError), nil)
			b.set(failing(protocol.SystemError), nil)
			m := text(t, "t", "x")
			attempts := func(err error) int32 {
				var sendErr *SendError
				require.ErrorAs(t, err, &sendErr)
				return int32(sendErr.Attempts)
			}
			_, err := p.Send(t.Context(), m)
			require.Equal(t, row.sync, attempts(err))
			_, err = p.SendFuture(t.Context(), m).Wait(t.Context())
			require.Equal(t, row.async, attempts(err))
			got := make(chan error, 1)
			p.SendBatchAsync(t.Context(), []*message.Message{m}, func(_ []SendResult, err error) { got <- err })
			require.Equal(t, row.async, attempts(<-got))
			require.EqualValues(t, 1, attempts(p.SendOneway(t.Context(), m)))
		})
	}
}
