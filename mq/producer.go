package mq

import (
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// Defaults of ProducerConfig.
const (
	DefaultMaxMessageSize = 4 << 20
	DefaultTopicQueueNums = 4
	DefaultRetries        = 2
)

// ProducerConfig says how a producer works. Group, NameService and Connect are
// required; the zero value of everything else is right for most.
//
// Options of RocketMQ's producer that are not here have no meaning where brokers
// are called directly (namesrvAddr, vipChannelEnabled, instanceName, unitName and
// unitMode, the intervals of heartbeats), or are a matter of the context of each
// call (sendMsgTimeout, mqClientApiTimeout: the deadline is the whole budget of a
// send, with its retries).
type ProducerConfig struct {
	Group       string
	NameService protocol.NameService
	Connect     Connect

	// InstanceName makes producers one client: those with the same InstanceName,
	// UnitName and NameService, each of another group. Brokers know it by the client
	// id "127.0.0.1@<InstanceName>[@<UnitName>]", so it must be one of a kind among
	// the processes that share brokers. When empty, or "DEFAULT", a producer is a
	// client of its own. What the first producer has for Connect, RouteInterval and
	// Logger counts for the client.
	InstanceName string
	// UnitName and UnitMode are RocketMQ's marks for units of several data centres:
	// the name ends the client id, the mode marks the topics that are made for this
	// producer.
	UnitName string
	UnitMode bool
	// Namespace keeps topics and groups apart from those of other namespaces:
	// brokers know them as "<Namespace>%<name>". Results, errors and hooks have the
	// names as they were given.
	Namespace string

	// MaxMessageSize limits a body, and what one batch takes, in bytes.
	MaxMessageSize int
	// Retries is how often a send that a broker refused is tried again: on
	// another broker, or after a refresh of the route. Negative: never.
	Retries int
	// RetriesAsync is Retries for SendAsync and its kind, futures and
	// SendBatchAsync (RocketMQ's retryTimesWhenSendAsyncFailed).
	RetriesAsync int
	// RetrySameQueue also tries sends to a given queue again, up to Retries times,
	// with pauses, when its broker can not be reached: the code
	// protocol.ConnectBroker, after which nothing was stored.
	RetrySameQueue bool
	// RetryCodes are answers after which another broker is tried, besides those
	// that always have this effect: see Send.
	RetryCodes []protocol.ResponseCode
	// RetryNotStoreOK also tries another broker when a message was stored, but
	// its promise was not kept (RocketMQ's retryAnotherBrokerWhenNotStoreOK). So
	// the message may be delivered twice, with the same unique key.
	RetryNotStoreOK bool
	// AttemptTimeout limits an attempt after which there is another broker to
	// try. When zero it is a fair part of the time until the context's deadline,
	// 500 ms at least. Where it ends after the message got its place, another
	// broker is tried as well, because the first one may hang: if it does not, the
	// message is delivered twice, with the same unique key.
	AttemptTimeout time.Duration
	// Faults says when to keep away from a broker.
	Faults FaultPolicy
	// CompressOver has bodies of so many bytes or more compressed by zlib, unless
	// that makes them no smaller; 0: none. RocketMQ's value is 4096. Consumers get
	// them as they were. The messages of a batch are not compressed.
	CompressOver int
	// CompressLevel is zlib's, 1 to 9, DefaultCompressLevel when zero.
	CompressLevel int
	// CheckForbidden are asked before each attempt, in order; an error, or a
	// panic, is final. The send's error then matches ErrForbidden and theirs.
	CheckForbidden []func(context.Context, SendContext) error
	// Hooks are called around each attempt, in order.
	Hooks []SendMessageHook
	// TraceContext, if not nil, returns properties to add to every message that is
	// sent with a context, in a copy: see TraceContext.
	TraceContext TraceContext
	// Trace has a record of each message that is stored sent to a topic; nil: none.
	Trace *TraceConfig
	// MaxAsyncSends and MaxAsyncBytes limit what is under way by SendAsync and
	// its kind: 1,000 sends, each of which has a goroutine, and 64 MiB of bodies
	// and properties when zero. A larger message goes alone.
	MaxAsyncSends int
	MaxAsyncBytes int64
	// TemplateTopic is the topic after which a broker makes a topic that does
	// not exist, when it gets its first message: TBW102 when empty.
	TemplateTopic string
	// TopicQueueNums is how many queues such a topic is to have on each broker:
	// 4 when zero, and not more than the template has.
	TopicQueueNums int32
	// RouteInterval is how long a route counts without a change announced, and how
	// often the client makes itself known to the brokers again, which it does not
	// more than once a second.
	RouteInterval time.Duration

	// Now is the clock, time.Now when nil.
	Now func() time.Time
	// Logger gets rare events; nil logs nothing.
	Logger *slog.Logger
}

func (c ProducerConfig) withDefaults() ProducerConfig {
	setDefault(&c.MaxMessageSize, DefaultMaxMessageSize)
	setDefault(&c.Retries, DefaultRetries)
	setDefault(&c.RetriesAsync, DefaultRetries)
	setDefault(&c.TemplateTopic, protocol.TemplateTopic)
	setDefault(&c.TopicQueueNums, DefaultTopicQueueNums)
	setDefault(&c.RouteInterval, DefaultRouteInterval)
	c.Faults = c.Faults.withDefaults()
	setDefault(&c.CompressLevel, DefaultCompressLevel)
	setDefault(&c.MaxAsyncSends, DefaultMaxAsyncSends)
	setDefault(&c.MaxAsyncBytes, DefaultMaxAsyncBytes)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c ProducerConfig) validate() error {
	ns := namespace(c.Namespace)
	errs := []error{
		checkGroup(c.Group, defaultProducerGroup), checkNames(c.NameService, c.Connect), c.Faults.validate(),
		ns.validate(), ns.checkWrapped(c.Group, protocol.CheckGroup), checkInstance(&c),
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"MaxMessageSize", int64(c.MaxMessageSize)},
		{"TopicQueueNums", int64(c.TopicQueueNums)},
		{"RouteInterval", int64(c.RouteInterval)},
		{"AttemptTimeout", int64(c.AttemptTimeout)},
		{"CompressOver", int64(c.CompressOver)},
		{"MaxAsyncSends", int64(c.MaxAsyncSends)},
		{"MaxAsyncBytes", c.MaxAsyncBytes},
	} {
		if f.value < 0 {
			errs = append(errs, negative(f.name, f.value))
		}
	}
	if c.CompressLevel < zlib.BestSpeed || c.CompressLevel > zlib.BestCompression {
		errs = append(errs, &message.LimitError{
			Field: "Config.CompressLevel (from 1)", Limit: zlib.BestCompression, Value: int64(c.CompressLevel), Unit: "as level",
		})
	}
	return errors.Join(errs...)
}

func checkNames(names protocol.NameService, connect Connect) error {
	if names == nil || connect == nil {
		return &message.IllegalError{Field: "NameService or Connect", Reason: "is missing"}
	}
	return nil
}

func negative(field string, value int64) error {
	return &message.LimitError{Field: "Config." + field + " (negative)", Value: value, Unit: "as number"}
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// SendStatus says what became of a message. Its text is RocketMQ's name.
type SendStatus uint8

// The statuses. Only with SendOK is the error of a send nil.
const (
	SendNotStored        SendStatus = iota // not stored, or behind a failed sync, where it may turn up later: see Send
	SendOK                                 // stored, and the broker's promise kept
	SendFlushDiskTimeout                   // stored, not confirmed on disk; it may be delivered
	SendFlushSlaveTimeout
	SendSlaveNotAvailable
)

func (s SendStatus) String() string {
	switch s {
	case SendNotStored:
		return "NOT_STORED"
	case SendOK:
		return "SEND_OK"
	case SendFlushDiskTimeout:
		return "FLUSH_DISK_TIMEOUT"
	case SendFlushSlaveTimeout:
		return "FLUSH_SLAVE_TIMEOUT"
	case SendSlaveNotAvailable:
		return "SLAVE_NOT_AVAILABLE"
	}
	return fmt.Sprintf("SendStatus(%d)", uint8(s))
}

func statusOf(code protocol.ResponseCode) SendStatus {
	switch code {
	case protocol.Success:
		return SendOK
	case protocol.FlushDiskTimeout:
		return SendFlushDiskTimeout
	case protocol.FlushSlaveTimeout:
		return SendFlushSlaveTimeout
	case protocol.SlaveNotAvailable:
		return SendSlaveNotAvailable
	}
	return SendNotStored
}

// SendResult says where a message is. It is a value; the zero one is that of
// SendNotStored.
type SendResult struct {
	Status      SendStatus
	MsgID       string                  // the unique key: the message's own, or made by the producer
	OffsetMsgID message.OffsetMessageID // names the record
	Queue       protocol.MessageQueue
	QueueOffset message.QueueOffset

	// RecallHandle is for CancelTimer and RescheduleTimer, "" for what does not wait
	// for a time of delivery. Offset and OffsetMsgID of what waits are those of the
	// place where it does.
	RecallHandle string

	Attempts int      // requests that were made to brokers
	Tried    []string // the broker of each, in order; nil when there was one
}

// Producer sends messages. Its methods may be called concurrently; messages
// that one goroutine sends to one queue keep their order. It has a goroutine that
// keeps it known to the brokers, which producers of one InstanceName share, and
// more for asynchronous sends, and while it keeps away from a broker.
//
// Only NewProducer makes one that can be used. What is asked of the zero value, or
// after Close, is refused with a *StateError.
type Producer struct {
	group     string
	ns        namespace
	unitMode  bool
	maxSize   int
	template  string
	queueNums int32
	now       func() time.Time

	retries         int
	retriesAsync    int
	retryCodes      []protocol.ResponseCode
	retryNotStoreOK bool
	retrySameQueue  bool
	attemptTimeout  time.Duration

	instance *instance
	checker  checker        // nil: knows no transactions
	requests sync.WaitGroup // that have not ended, callbacks included

	routes  routeCache
	faults  *faultTable // nil when switched off
	permits *permits    // of asynchronous sends
	shrink  compressor
	hooks   hooks
	inject  TraceContext
	trace   *tracer // nil without traces
	log     *slog.Logger
	unwatch func()
	state   atomic.Uint32 // a ServiceState
	done    chan struct{}
	once    sync.Once
	err     error // of Close
}

// NewProducer makes and starts a producer, and makes it known to the brokers that
// can be reached; the others learn of it later. No topic is looked up before the
// first send. The error matches ErrGroupExists when producers of the same
// InstanceName have the group already. The producer must be closed.
func NewProducer(cfg ProducerConfig) (*Producer, error) { return newProducer(cfg, nil) }

// newProducer is NewProducer for one that may know transactions.
func newProducer(cfg ProducerConfig, check checker) (*Producer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	ns := namespace(cfg.Namespace)
	p := &Producer{
		group: cfg.Group, ns: ns, unitMode: cfg.UnitMode, checker: check, maxSize: cfg.MaxMessageSize,
		retries: cfg.Retries, retriesAsync: cfg.RetriesAsync, retryCodes: slices.Clone(cfg.RetryCodes), retryNotStoreOK: cfg.RetryNotStoreOK,
		retrySameQueue: cfg.RetrySameQueue,
		attemptTimeout: cfg.AttemptTimeout,
		shrink:         compressor{over: cfg.CompressOver, level: cfg.CompressLevel},
		hooks:          hooks{slices.Clone(cfg.CheckForbidden), slices.Clone(cfg.Hooks)},
		inject:         cfg.TraceContext,
		permits:        newPermits(cfg.MaxAsyncSends, cfg.MaxAsyncBytes), log: cfg.Logger,
		template: cfg.TemplateTopic, queueNums: cfg.TopicQueueNums, now: cfg.Now,
		done: make(chan struct{}),
		routes: routeCache{
			names: cfg.NameService, connect: cfg.Connect, ns: ns,
			template: cfg.TemplateTopic, queues: cfg.TopicQueueNums,
			interval: cfg.RouteInterval, log: cfg.Logger,
			changed: make(chan struct{}, 1),
		},
	}
	p.routes.routes.Store(&map[string]*publishRoute{})
	if !cfg.Faults.Off {
		p.faults = newFaultTable(cfg.Faults, cfg.Now, p.routes.uses)
		p.routes.faults = p.faults
	}
	p.state.Store(uint32(StateStartFailed))
	var err error
	if p.trace, err = newTracer(cfg.Trace, cfg, traceProduce); err != nil {
		return nil, err
	}
	if p.trace != nil {
		p.hooks.around = append(p.hooks.around, SendMessageHook{After: p.trace.sent})
	}
	if p.instance, err = instances.join(p, &cfg); err != nil {
		if p.faults != nil {
			p.faults.close()
		}
		p.trace.close()
		return nil, err
	}
	p.unwatch = cfg.NameService.WatchRoutes(p.routes.changed)
	p.state.Store(uint32(StateRunning))
	return p, nil
}

// Close makes further sends fail with message.ErrClosed, and the brokers forget
// the producer; the error is theirs. Sends that are under way end as they would
// have; Close waits for the asynchronous ones, so it must not be called by what
// they call. Requests that wait for a reply end with message.ErrClosed. It is
// idempotent, and does nothing to the zero Producer.
func (p *Producer) Close() error {
	if p.State() == StateCreateJust {
		return nil
	}
	p.once.Do(func() {
		p.state.Store(uint32(StateShutdownAlready))
		p.permits.close()
		p.instance.requests.abandon(p)
		p.requests.Wait()
		p.trace.close()
		p.unwatch()
		if p.faults != nil {
			p.faults.close()
		}
		p.err = instances.leave(p)
		close(p.done)
	})
	return p.err
}

// TracesDropped is how many records of ProducerConfig.Trace could not be sent.
func (p *Producer) TracesDropped() int64 { return p.trace.count() }

// Done is closed by Close.
func (p *Producer) Done() <-chan struct{} { return p.done }

// Queues returns the queues that messages of the topic are sent to in turn.
func (p *Producer) Queues(ctx context.Context, topic string) ([]protocol.MessageQueue, error) {
	if err := p.running(); err != nil {
		return nil, err
	}
	r, err := p.routes.get(ctx, p.ns.unwrap(topic), p.now())
	if err != nil {
		return nil, err
	}
	return slices.Clone(r.queues), nil
}

// Send stores a message in the next queue of its topic, and returns when the
// broker's flush promise is kept: with FlushSync, the default, the message is
// on disk. The topic is made when it does not exist and the broker permits it.
//
// An error with Status SendNotStored is a *message.IllegalError or
// *message.LimitError for a message that can not be sent at all,
// message.ErrClosed, else a *SendError, which wraps ctx's error when ctx had
// ended before. The message is in no log, with one exception: when the error
// matches message.ErrFlush, a sync failed, and the message may turn up when
// that store is opened again. With any other Status the message is stored and
// may be delivered, but its promise was not kept. When ctx ends after the
// message got its place, only the waiting ends.
//
// Where the topic has several brokers, those are preferred that answer, and in
// time: see FaultPolicy. A refusal is final when it is about the message;
// ProducerConfig.Retries limits how often another broker is tried otherwise, or
// the route asked for again, or a broker with too much to do asked once more
// after a pause. A retry goes to another broker also after a failed sync, and
// when an attempt's part of the time is over while the message waits for its
// sync. So a message may be there twice, with the same unique key, when the store
// that failed is opened again, or the one that was late goes on. The error tells of the last attempt only; CodeOf gives
// its code.
func (p *Producer) Send(ctx context.Context, m *message.Message) (SendResult, error) {
	if err := p.check(m); err != nil {
		return SendResult{}, err
	}
	return p.send(ctx, m, nil)
}

// SendToQueue is Send to one queue, without retries but those of
// ProducerConfig.RetrySameQueue. With a negative QueueID the broker chooses one.
func (p *Producer) SendToQueue(ctx context.Context, m *message.Message, q protocol.MessageQueue) (SendResult, error) {
	if err := p.checkFor(m, q); err != nil {
		return SendResult{}, err
	}
	return p.send(ctx, m, &q)
}

// checkFor is check for a message that goes to a given queue.
func (p *Producer) checkFor(m *message.Message, q protocol.MessageQueue) error {
	if err := p.check(m); err != nil {
		return err
	}
	if p.ns.unwrap(q.Topic) != p.ns.unwrap(m.Topic) {
		return notOfQueue(m.Topic, q)
	}
	return nil
}

func notOfQueue(topic string, q protocol.MessageQueue) error {
	return &message.IllegalError{Field: "topic", Value: topic, Reason: "is not the queue's, which is " + q.Topic}
}

func (p *Producer) check(m *message.Message) error {
	if err := p.running(); err != nil {
		return err
	}
	if err := checkMessage(m, p.maxSize); err != nil {
		return err
	}
	return p.ns.checkMessage(m)
}

// send sends a message that was checked, to queue or to one of its choice.
func (p *Producer) send(ctx context.Context, m *message.Message, queue *protocol.MessageQueue) (SendResult, error) {
	a := p.attempts(m, queue, p.now())
	return p.sendBy(ctx, &a)
}

// sendBy sends a message that was checked.
func (p *Producer) sendBy(ctx context.Context, a *attempts) (SendResult, error) {
	if err := p.addTraceContext(ctx, &a.message); err != nil {
		return SendResult{}, err
	}
	var key string
	a.message.Properties, key = uniqueIDs().AddTo(p.ns.mark(a.message.Properties))
	a.reply = isReply(&a.message)
	req := p.request(a.message.Topic, a.now)
	topic := req.Message.Topic
	req.Message = a.message
	req.Message.Topic = topic
	if d := p.shrink.compress(a.message.Body); d != nil {
		defer p.shrink.release(d)
		req.Message.Body = d.out
		req.SysFlag |= message.FlagCompressed
	}
	var r SendResult
	for a.next(ctx) {
		req.QueueID = a.queue.QueueID
		resp, err := a.sendMessage(req)
		var attempt SendResult
		if a.done(ctx, resp.Code, err) {
			attempt = a.result(key, resp.Code)
			attempt.OffsetMsgID, attempt.QueueOffset, attempt.RecallHandle = resp.MessageID, resp.QueueOffset, resp.RecallHandle
			if a.queue.QueueID < 0 {
				attempt.Queue.QueueID = resp.QueueID
			}
			r = attempt
		}
		a.observe(ctx, attempt, err)
	}
	return r, a.err()
}

// request is a request without its message, in the names that brokers know.
func (p *Producer) request(topic string, now time.Time) protocol.SendMessageRequest {
	return protocol.SendMessageRequest{
		Group:                 p.ns.wrap(p.group),
		Message:               message.Message{Topic: p.ns.wrap(topic)},
		UnitMode:              p.unitMode,
		BornTimestamp:         now.UnixMilli(),
		DefaultTopic:          p.template,
		DefaultTopicQueueNums: p.queueNums,
	}
}
