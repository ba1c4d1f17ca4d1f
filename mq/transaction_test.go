package mq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/broker"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// quickChecks has the broker ask as soon as it can, or not at all.
func (h *house) quickChecks(t *testing.T, timeout time.Duration) {
	t.Helper()
	require.NoError(t, h.broker.Close())
	var err error
	h.broker, err = broker.New(t.Context(), broker.Config{
		Name: "house", Store: h.store, NameService: h.names,
		TransactionTimeout: timeout, TransactionCheckInterval: 10 * time.Millisecond, TransactionCheckMax: 1 << 30,
	})
	require.NoError(t, err)
	t.Cleanup(func() { h.broker.Close() })
}

func (h *house) transactionProducer(t *testing.T, cfg TransactionProducerConfig) *TransactionProducer {
	t.Helper()
	cfg.Group, cfg.NameService, cfg.Connect, cfg.MaxMessageSize = "senders", h.names, h.names.Connect, 64<<10
	if cfg.Check == nil {
		cfg.Check = func(context.Context, *message.MessageExt) (TransactionState, error) { return TransactionUnknown, nil }
	}
	p, err := NewTransactionProducer(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// ends is what a fake broker was told.
type ends struct {
	fakeBroker

	mu   sync.Mutex
	told []protocol.EndTransactionRequest
	fail error
}

func (b *ends) RegisterClient(context.Context, protocol.RegisterClientRequest) error { return nil }
func (b *ends) UnregisterClient(context.Context, string) error                       { return nil }

func (b *ends) EndTransaction(_ context.Context, req protocol.EndTransactionRequest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, req)
	return b.fail
}

var errLocal = errors.New("no such account")

// TestStatesOfATransaction goes through what can become of the send and of the
// local transaction, and what the broker is told.
func TestStatesOfATransaction(t *testing.T) {
	returns := func(s TransactionState, err error) LocalTransaction {
		return func(context.Context, *message.Message) (TransactionState, error) { return s, err }
	}
	for name, test := range map[string]struct {
		code    protocol.ResponseCode
		local   LocalTransaction
		state   TransactionState
		status  SendStatus
		err     error
		remark  string
		text    string
		endFail error
		notRun  bool
	}{
		"commit":      {local: returns(TransactionCommit, nil), state: TransactionCommit, status: SendOK, text: "COMMIT_MESSAGE"},
		"rollback":    {local: returns(TransactionRollback, nil), state: TransactionRollback, status: SendOK, text: "ROLLBACK_MESSAGE"},
		"unknown":     {local: returns(TransactionUnknown, nil), state: TransactionUnknown, status: SendOK, text: "UNKNOW"},
		"no state":    {local: returns(7, nil), state: TransactionUnknown, status: SendOK, text: "UNKNOW", err: message.ErrIllegal, remark: "TransactionState(7)"},
		"error":       {local: returns(TransactionCommit, errLocal), state: TransactionUnknown, status: SendOK, text: "UNKNOW", err: errLocal, remark: "no such account"},
		"panic":       {local: func(context.Context, *message.Message) (TransactionState, error) { panic(errLocal) }, state: TransactionUnknown, status: SendOK, text: "UNKNOW", err: errLocal, remark: "no such account"},
		"disk":        {code: protocol.FlushDiskTimeout, notRun: true, state: TransactionRollback, status: SendFlushDiskTimeout, text: "ROLLBACK_MESSAGE", err: protocol.FlushDiskTimeout, remark: "FLUSH_DISK_TIMEOUT"},
		"slave":       {code: protocol.FlushSlaveTimeout, notRun: true, state: TransactionRollback, status: SendFlushSlaveTimeout, text: "ROLLBACK_MESSAGE", err: protocol.FlushSlaveTimeout, remark: "FLUSH_SLAVE_TIMEOUT"},
		"no slave":    {code: protocol.SlaveNotAvailable, notRun: true, state: TransactionRollback, status: SendSlaveNotAvailable, text: "ROLLBACK_MESSAGE", err: protocol.SlaveNotAvailable, remark: "SLAVE_NOT_AVAILABLE"},
		"end is lost": {local: returns(TransactionCommit, nil), state: TransactionCommit, status: SendOK, text: "COMMIT_MESSAGE", endFail: protocol.SystemBusy},
	} {
		t.Run(name, func(t *testing.T) {
			b := &ends{fail: test.endFail}
			id := message.OffsetMessageID{Offset: 4711}
			var half protocol.SendMessageRequest
			b.send = func(req protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
				half = req
				var err error
				if test.code != protocol.Success {
					err = &protocol.Error{Code: test.code}
				}
				return protocol.SendMessageResponse{Code: test.code, MessageID: id, QueueOffset: 12}, err
			}
			names := &fakeNames{
				brokers: map[string]protocol.Broker{"a": b},
				route:   func(string) (protocol.TopicRoute, error) { return routeOf(1, "a"), nil },
				list:    func() ([]protocol.BrokerData, error) { return []protocol.BrokerData{{Name: "a"}}, nil },
			}
			var hooked []EndTransactionContext
			p, err := NewTransactionProducer(TransactionProducerConfig{
				ProducerConfig: ProducerConfig{Group: "senders", NameService: names, Connect: names.connect},
				Check:          func(context.Context, *message.MessageExt) (TransactionState, error) { return TransactionUnknown, nil },
				EndHooks: []EndTransactionHook{
					func(_ context.Context, c EndTransactionContext) { hooked = append(hooked, c) },
					func(context.Context, EndTransactionContext) { panic("hook") },
				},
			})
			require.NoError(t, err)
			defer p.Close()
			ran := false
			ctx, cancel := context.WithCancel(t.Context())
			r, err := p.SendInTransaction(ctx, text(t, "orders", "m", "DELAY", "3", "TAGS", "red"), func(ctx context.Context, m *message.Message) (TransactionState, error) {
				ran = true
				require.NotEmpty(t, m.UniqueKey())
				cancel() // what was decided is told all the same
				return test.local(ctx, m)
			})
			require.Equal(t, !test.notRun, ran)
			if test.err == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, test.err)
				require.Equal(t, !test.notRun, errors.Is(err, ErrLocalTransaction))
			}
			require.Equal(t, test.state, r.State)
			require.Equal(t, test.text, r.State.String())
			require.Equal(t, test.status, r.Status)
			require.Equal(t, test.endFail, r.EndErr)
			require.Equal(t, "TAGS\x01red\x02TRAN_MSG\x01true\x02PGROUP\x01senders\x02UNIQ_KEY\x01"+message.Properties(r.MsgID), half.Message.Properties)
			require.NotEmpty(t, half.ClientID)
			require.Len(t, b.told, 1)
			require.Contains(t, b.told[0].Remark, test.remark)
			b.told[0].Remark = ""
			require.Equal(t, protocol.EndTransactionRequest{Group: "senders", LogOffset: 4711, QueueOffset: 12, State: test.state, UniqueKey: r.MsgID}, b.told[0])
			require.Len(t, hooked, 1)
			require.Equal(t, "a", hooked[0].Broker)
			require.Equal(t, test.state, hooked[0].State)
			require.False(t, hooked[0].FromCheck)
			cancel()
		})
	}
}

// TestTransactionsThatAreNotSent run no local transaction.
func TestTransactionsThatAreNotSent(t *testing.T) {
	h := openHouse(t)
	p := h.transactionProducer(t, TransactionProducerConfig{})
	run := func(context.Context, *message.Message) (TransactionState, error) {
		t.Error("it ran")
		return TransactionCommit, nil
	}
	_, err := p.SendInTransaction(t.Context(), text(t, "orders", "m"), nil)
	require.ErrorIs(t, err, message.ErrIllegal)
	_, err = p.SendInTransaction(t.Context(), nil, run)
	require.ErrorIs(t, err, message.ErrIllegal)
	_, err = p.SendInTransaction(t.Context(), text(t, "RMQ_SYS_TRANS_HALF_TOPIC", "m"), run)
	require.ErrorIs(t, err, message.ErrIllegal)
	_, err = p.SendInTransaction(t.Context(), &message.Message{Topic: "orders", Body: []byte("m"), Properties: message.Properties("a\x01" + string(bytes.Repeat([]byte("x"), MaxPropertiesLength-4)))}, run)
	require.ErrorIs(t, err, message.ErrLimit)
	require.NoError(t, h.broker.Close())
	r, err := p.SendInTransaction(t.Context(), text(t, "orders", "m"), run)
	require.Error(t, err)
	require.Equal(t, SendNotStored, r.Status)
	require.NoError(t, p.Close())
	_, err = p.SendInTransaction(t.Context(), text(t, "orders", "m"), run)
	require.ErrorIs(t, err, message.ErrClosed)

	for _, cfg := range []TransactionProducerConfig{{}, {CheckWorkers: -1}, {CheckQueue: -1}} {
		cfg.Group, cfg.NameService, cfg.Connect = "senders", h.names, h.names.Connect
		if cfg.CheckWorkers+cfg.CheckQueue < 0 {
			cfg.Check = func(context.Context, *message.MessageExt) (TransactionState, error) { return TransactionUnknown, nil }
		}
		_, err := NewTransactionProducer(cfg)
		require.Error(t, err)
	}
}

// TestTransactions end to end: what is committed is received, once.
func TestTransactions(t *testing.T) {
	h := openHouse(t)
	h.createTopic(t, "orders", 1)
	p := h.transactionProducer(t, TransactionProducerConfig{})
	c := h.consumer(t, ConsumerConfig{Topic: "orders"})
	for _, state := range []TransactionState{TransactionRollback, TransactionCommit} {
		r, err := p.SendInTransaction(soon(t), text(t, "orders", state.String(), "TAGS", "red"), func(context.Context, *message.Message) (TransactionState, error) {
			return state, nil
		})
		require.NoError(t, err)
		require.NoError(t, r.EndErr)
	}
	m, err := c.Receive(soon(t))
	require.NoError(t, err)
	require.Equal(t, "COMMIT_MESSAGE", string(m.Body))
	require.Equal(t, "red", m.Tags())
	open, err := h.broker.OpenTransactions(t.Context())
	require.NoError(t, err)
	require.Empty(t, open)
}

// TestChecks: messages whose end got lost are asked about, also those of a producer
// that is gone, and before the new one sends anything. A checker that fails or
// panics is asked again. Bodies come as they were sent.
func TestChecks(t *testing.T) {
	h := openHouse(t)
	h.quickChecks(t, time.Millisecond)
	h.createTopic(t, "orders", 1)
	body := string(bytes.Repeat([]byte("long "), 1000))
	first := h.transactionProducer(t, TransactionProducerConfig{ProducerConfig: ProducerConfig{CompressOver: 100}})
	r, err := first.SendInTransaction(soon(t), text(t, "orders", body), func(context.Context, *message.Message) (TransactionState, error) {
		return TransactionUnknown, nil
	})
	require.NoError(t, err)
	require.NoError(t, first.Close())

	var mu sync.Mutex
	var asked []string
	var answers []EndTransactionContext
	h.transactionProducer(t, TransactionProducerConfig{
		Check: func(_ context.Context, m *message.MessageExt) (TransactionState, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, string(m.Body))
			switch len(asked) {
			case 1:
				panic("no database yet")
			case 2:
				return TransactionCommit, errLocal
			case 3:
				return 99, nil
			}
			m.Topic, m.LogOffset = "changed", 0 // it is the checker's
			return TransactionCommit, nil
		},
		EndHooks: []EndTransactionHook{func(_ context.Context, c EndTransactionContext) {
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, c)
		}},
	})
	c := h.consumer(t, ConsumerConfig{Topic: "orders"})
	m, err := c.Receive(soon(t))
	require.NoError(t, err)
	require.Equal(t, body, string(m.Body))
	require.Equal(t, r.MsgID, m.ID())
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{body, body, body, body}, asked)
	require.Len(t, answers, 4)
	for i, c := range answers {
		require.True(t, c.FromCheck)
		require.Equal(t, "house", c.Broker)
		require.Equal(t, r.MsgID, c.MsgID)
		require.Equal(t, i == 3, c.State == TransactionCommit)
		require.Equal(t, i == 3, c.Err == nil)
	}
	require.ErrorContains(t, answers[0].Err, "no database yet")
	require.ErrorIs(t, answers[1].Err, errLocal)
	require.ErrorIs(t, answers[2].Err, message.ErrIllegal)
}

// TestTooManyChecks are refused, so that the broker asks later or another client,
// and Close ends a checker that takes its time.
func TestTooManyChecks(t *testing.T) {
	h := openHouse(t)
	h.quickChecks(t, time.Hour)
	began := make(chan struct{}, 10)
	p := h.transactionProducer(t, TransactionProducerConfig{
		CheckQueue: 2,
		Check: func(ctx context.Context, _ *message.MessageExt) (TransactionState, error) {
			began <- struct{}{}
			<-ctx.Done()
			return TransactionUnknown, ctx.Err()
		},
	})
	ask := func() error {
		return p.accept(t.Context(), protocol.CheckTransactionStateRequest{Broker: "house", Group: "senders", Message: &message.MessageExt{}})
	}
	require.NoError(t, ask())
	<-began
	require.NoError(t, errors.Join(ask(), ask()))
	require.ErrorIs(t, ask(), protocol.SystemBusy)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.Empty(t, began)
}

// TestManyTransactionsAtATime: each committed one is received once, whether its end
// came at once or by a check.
func TestManyTransactionsAtATime(t *testing.T) {
	h := openHouse(t)
	h.quickChecks(t, 5*time.Millisecond)
	h.createTopic(t, "orders", 1)
	outcome := func(body string) TransactionState {
		return []TransactionState{TransactionCommit, TransactionRollback}[body[len(body)-1]%2]
	}
	p := h.transactionProducer(t, TransactionProducerConfig{
		CheckWorkers: 3,
		Check: func(_ context.Context, m *message.MessageExt) (TransactionState, error) {
			return outcome(string(m.Body)), nil
		},
	})
	const writers, each = 8, 40
	var want []string
	var wg sync.WaitGroup
	for w := range writers {
		for i := range each {
			if body := fmt.Sprintf("%d-%d", w, i); outcome(body) == TransactionCommit {
				want = append(want, body)
			}
		}
		wg.Go(func() {
			for i := range each {
				body := fmt.Sprintf("%d-%d", w, i)
				_, err := p.SendInTransaction(t.Context(), text(t, "orders", body), func(context.Context, *message.Message) (TransactionState, error) {
					if i%5 == 0 {
						return TransactionUnknown, nil
					}
					return outcome(body), nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Eventually(t, func() bool {
		open, err := h.broker.OpenTransactions(t.Context())
		return err == nil && len(open) == 0
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, h.store.WaitDispatched(t.Context(), h.store.MaxOffset()))
	require.EqualValues(t, len(want), h.store.MaxOffsetInQueue("orders", 0))
	c := h.consumer(t, ConsumerConfig{Topic: "orders"})
	var got []string
	for range want {
		m, err := c.Receive(soon(t))
		require.NoError(t, err)
		got = append(got, string(m.Body))
	}
	require.ElementsMatch(t, want, got)
}
