package mq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// Defaults of TransactionProducerConfig.
const (
	DefaultCheckWorkers = 1
	DefaultCheckQueue   = 2000
)

// endTimeout bounds how long a broker may take to hear how a transaction ended.
const endTimeout = 3 * time.Second

// TransactionState is what became of a local transaction.
type TransactionState = protocol.TransactionState

// The states.
const (
	TransactionUnknown  = protocol.TransactionUnknown  // nobody knows: the broker asks later
	TransactionCommit   = protocol.TransactionCommit   // the message is to be delivered
	TransactionRollback = protocol.TransactionRollback // nobody is to see it
)

// ErrLocalTransaction is wrapped by the error of a SendInTransaction whose local
// transaction failed or panicked, beside its own error.
var ErrLocalTransaction = errors.New("local transaction failed")

// TransactionChecker says what became of the local transaction of a message: as a
// rule it looks whether a database has what the transaction writes. An error, or
// a panic, counts as TransactionUnknown: the broker asks again, some times.
type TransactionChecker func(ctx context.Context, m *message.MessageExt) (TransactionState, error)

// LocalTransaction does what is to happen together with the delivery of a message,
// and says what became of it. m is as it was sent, with its unique key. An error, or
// a panic, counts as TransactionUnknown.
type LocalTransaction func(ctx context.Context, m *message.Message) (TransactionState, error)

// TransactionProducerConfig says how a TransactionProducer works. Check, and what
// ProducerConfig requires, are required.
type TransactionProducerConfig struct {
	ProducerConfig

	// Check is called, by a goroutine of the producer, for messages of whose end a
	// broker has not heard: because of a crash, or TransactionUnknown. The message
	// may be that of another process of the group, before this one or beside it. The
	// context ends with the producer.
	Check TransactionChecker
	// CheckWorkers is how many goroutines call Check, 1 when zero, and CheckQueue how
	// many messages wait for them at most, 2,000 when zero: beyond that the broker
	// asks later.
	CheckWorkers int
	CheckQueue   int
	// EndHooks are called before a broker is told how a transaction ended, in order.
	// A panic in one is caught and logged.
	EndHooks []EndTransactionHook
}

// EndTransactionHook hears how a transaction ends, for as much as this client
// knows.
//
// Source: RocketMQ client/hook/EndTransactionHook.java.
type EndTransactionHook func(context.Context, EndTransactionContext)

// EndTransactionContext is what a broker is about to be told.
type EndTransactionContext struct {
	Group   string
	Message message.Message // its body must not change
	Broker  string
	MsgID   string // the unique key
	// OffsetMsgID and QueueOffset are those of the half message.
	OffsetMsgID message.OffsetMessageID
	QueueOffset message.QueueOffset
	State       TransactionState
	FromCheck   bool  // the answer to a question of the broker
	Err         error // of the local transaction, or of the checker
}

// TransactionSendResult is that of a message in transaction. QueueOffset and
// OffsetMsgID are those of the half message.
type TransactionSendResult struct {
	SendResult

	State TransactionState // what the broker was told
	// EndErr says why the broker did not hear of it, or does not do it: it will ask
	// later. With State TransactionCommit the message is not delivered before.
	EndErr error
}

// TransactionProducer is a Producer that also sends messages in transaction. From
// the start on it answers the questions of brokers about messages of its group.
//
// Source: RocketMQ client/producer/TransactionMQProducer.java.
type TransactionProducer struct {
	*Producer

	check    TransactionChecker
	endHooks []EndTransactionHook
	maxBody  int
	log      *slog.Logger
	checks   chan protocol.CheckTransactionStateRequest
	run      context.Context // of workers
	stop     context.CancelFunc
	workers  sync.WaitGroup
	once     sync.Once
	closeErr error
}

// NewTransactionProducer is NewProducer for one that also sends messages in
// transaction.
func NewTransactionProducer(cfg TransactionProducerConfig) (*TransactionProducer, error) {
	if cfg.Check == nil {
		return nil, &message.IllegalError{Field: "Config.Check", Reason: "is missing"}
	}
	setDefault(&cfg.CheckWorkers, DefaultCheckWorkers)
	setDefault(&cfg.CheckQueue, DefaultCheckQueue)
	if cfg.CheckWorkers < 0 {
		return nil, negative("CheckWorkers", int64(cfg.CheckWorkers))
	}
	if cfg.CheckQueue < 0 {
		return nil, negative("CheckQueue", int64(cfg.CheckQueue))
	}
	cfg.ProducerConfig = cfg.ProducerConfig.withDefaults()
	t := &TransactionProducer{
		check: cfg.Check, endHooks: cfg.EndHooks, maxBody: cfg.MaxMessageSize, log: cfg.Logger,
		checks: make(chan protocol.CheckTransactionStateRequest, cfg.CheckQueue),
	}
	t.run, t.stop = context.WithCancel(context.Background())
	var err error
	if t.Producer, err = newProducer(cfg.ProducerConfig, t.accept); err != nil {
		t.stop()
		return nil, err
	}
	if t.trace != nil {
		t.endHooks = append(slices.Clone(t.endHooks), t.trace.transactionEnded)
	}
	for range cfg.CheckWorkers {
		t.workers.Go(t.work)
	}
	return t, nil
}

// Close ends the answers to brokers, and then is Producer.Close. It waits for the
// checker, which must not call it.
func (t *TransactionProducer) Close() error {
	t.once.Do(func() {
		t.stop()
		t.workers.Wait() // what they have found out goes out, and into the trace
		t.closeErr = t.Producer.Close()
	})
	return t.closeErr
}

// SendInTransaction sends a half message, which nobody sees, then calls local, and
// then tells the broker what became of it: the message is delivered, or never will
// be. When the process ends in between, or local does not know, the broker asks a
// producer of the group later, this one or another: see TransactionProducerConfig.
//
// The error is Send's when the half message was not sent as promised: then local
// was not called, and what was stored is rolled back. Else it matches
// ErrLocalTransaction, and local's error, when local returned one or panicked; the
// state is TransactionUnknown then. What was decided is told to the broker even
// when ctx ends. A delay of the message is removed.
//
// Source: RocketMQ client/impl/producer/DefaultMQProducerImpl.java, sendMessageInTransaction.
func (t *TransactionProducer) SendInTransaction(ctx context.Context, m *message.Message, local LocalTransaction) (TransactionSendResult, error) {
	if local == nil {
		return TransactionSendResult{}, &message.IllegalError{Field: "local transaction", Reason: "is missing"}
	}
	if err := t.Producer.check(m); err != nil {
		return TransactionSendResult{}, err
	}
	half, err := t.halfOf(m)
	if err != nil {
		return TransactionSendResult{}, err
	}
	sent, err := t.send(ctx, half, nil)
	r := TransactionSendResult{SendResult: sent}
	if sent.Status == SendNotStored {
		return r, err
	}
	r.State = TransactionRollback
	if sent.Status == SendOK {
		r.State, err = runLocal(ctx, local, half)
	}
	r.EndErr = t.end(ctx, EndTransactionContext{
		Group: t.group, Message: *half, Broker: sent.Queue.BrokerName, MsgID: sent.MsgID,
		OffsetMsgID: sent.OffsetMsgID, QueueOffset: sent.QueueOffset, State: r.State, Err: err,
	})
	return r, err
}

// halfOf is the message with what makes it a half message.
func (t *TransactionProducer) halfOf(m *message.Message) (*message.Message, error) {
	half := *m
	half.Properties = m.Properties.Without(message.PropertyDelayLevel)
	for _, nv := range [...][2]string{{protocol.PropertyTransaction, "true"}, {protocol.PropertyProducerGroup, t.ns.wrap(t.group)}} {
		var err error
		if half.Properties, err = half.Properties.With(nv[0], nv[1]); err != nil {
			return nil, err
		}
	}
	half.Properties, _ = uniqueIDs().AddTo(half.Properties)
	return &half, t.Producer.check(&half)
}

// runLocal runs the local transaction, and survives it.
func runLocal(ctx context.Context, local LocalTransaction, m *message.Message) (state TransactionState, err error) {
	defer func() {
		if v := recover(); v != nil {
			state, err = TransactionUnknown, panicError(ErrLocalTransaction, v)
		}
	}()
	state, err = local(ctx, m)
	if err == nil {
		err = checkState(state)
	}
	if err != nil {
		return TransactionUnknown, fmt.Errorf("%w: %w", ErrLocalTransaction, err)
	}
	return state, nil
}

// checkState refuses what is no state.
func checkState(s TransactionState) error {
	switch s {
	case TransactionCommit, TransactionRollback, TransactionUnknown:
		return nil
	}
	return &message.IllegalError{Field: "transaction state", Value: s.String(), Reason: "is none"}
}

// end tells a broker what became of a transaction.
func (t *TransactionProducer) end(ctx context.Context, c EndTransactionContext) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	for _, hook := range t.endHooks {
		t.callEndHook(ctx, hook, c)
	}
	b, ok := t.instance.presence.broker(c.Broker)
	if !ok {
		return &protocol.Error{Code: protocol.BrokerNotExist, Remark: "no broker " + c.Broker}
	}
	req := protocol.EndTransactionRequest{
		Group: t.ns.wrap(c.Group), LogOffset: c.OffsetMsgID.Offset, QueueOffset: c.QueueOffset, State: c.State, FromCheck: c.FromCheck, UniqueKey: c.MsgID,
	}
	if c.Err != nil {
		req.Remark = c.Err.Error()
	}
	err := b.EndTransaction(ctx, req)
	if err != nil {
		t.log.Warn("broker does not end a transaction; it will ask about it", "broker", c.Broker, "key", c.MsgID, "state", c.State.String(), "err", err)
	}
	return err
}

func (t *TransactionProducer) callEndHook(ctx context.Context, hook EndTransactionHook, c EndTransactionContext) {
	defer func() {
		if v := recover(); v != nil {
			t.log.Error("a hook of the end of a transaction panicked", "key", c.MsgID, "panic", fmt.Sprint(v))
		}
	}()
	hook(ctx, c)
}
