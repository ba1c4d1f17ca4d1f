package mq

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// Defaults of ConsumerConfig and ReaderConfig.
const (
	DefaultPrefetchMessages = 64
	DefaultPrefetchBytes    = 256 << 10
	DefaultMaxInflatedBody  = 64 << 20
)

// ConsumerConfig says how a consumer works. Group, Topic, NameService and
// Connect are required; the zero value of everything else is right for most.
type ConsumerConfig struct {
	Group       string
	Topic       string
	NameService protocol.NameService
	Connect     Connect

	// Namespace keeps topics and groups apart from those of other namespaces: see
	// ProducerConfig. Messages that are received have the topics as they were given;
	// where Start names a group, it is as brokers know it.
	Namespace string

	// TagExpression selects messages by tag, as in "TagA || TagB". All when
	// empty or "*".
	TagExpression string
	// Start is where a queue begins of which the group has no offset: Begin when
	// nil. It counts for queues that are there when the consumer is made; those
	// that appear later are read from their beginning.
	Start Position
	// AutoCommit makes Receive commit what was handed out before, now and then
	// and before it waits, and Close commit the rest. It is for one goroutine
	// that is done with a message when it asks for the next one.
	AutoCommit bool

	// MaxReconsumeTimes is how often a message of Retry may come again before it
	// is a dead letter; when 0, what the broker has for the group, 16 at first.
	MaxReconsumeTimes int32

	// PrefetchMessages and PrefetchBytes limit one of the up to three batches of
	// a queue that are in memory. One message always fits.
	PrefetchMessages int
	PrefetchBytes    int
	// MaxInflatedBody limits a body that was stored compressed, in bytes.
	MaxInflatedBody int
	// RouteInterval is how often to look for new queues where the name service
	// does not announce changes; at least a second.
	RouteInterval time.Duration

	// Trace has records sent to a topic: one when a message is handed out, one when
	// it is committed or sent back by Retry. nil: none.
	Trace *TraceConfig

	// Logger gets rare events; nil logs nothing.
	Logger *slog.Logger
}

func (c ConsumerConfig) withDefaults() ConsumerConfig {
	setDefault(&c.PrefetchMessages, DefaultPrefetchMessages)
	setDefault(&c.PrefetchBytes, DefaultPrefetchBytes)
	setDefault(&c.MaxInflatedBody, DefaultMaxInflatedBody)
	setDefault(&c.RouteInterval, DefaultRouteInterval)
	if c.Start == nil {
		c.Start = Begin
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c ConsumerConfig) validate() error {
	ns := namespace(c.Namespace)
	return errors.Join(
		checkGroup(c.Group, defaultConsumerGroup), protocol.CheckRetryGroup(c.Group),
		ns.validate(), ns.checkWrapped(c.Group, protocol.CheckRetryGroup), ns.checkWrapped(c.Topic, message.CheckTopic),
		checkNotNegative("MaxReconsumeTimes", int64(c.MaxReconsumeTimes)),
		checkReading(c.Topic, c.NameService, c.Connect, c.PrefetchMessages, c.PrefetchBytes, c.MaxInflatedBody, c.RouteInterval),
	)
}

func checkNotNegative(field string, value int64) error {
	if value < 0 {
		return negative(field, value)
	}
	return nil
}

func checkReading(topic string, names protocol.NameService, connect Connect, messages, bytes, inflated int, interval time.Duration) error {
	errs := []error{message.CheckTopic(topic), checkNames(names, connect)}
	if messages < 0 {
		errs = append(errs, negative("PrefetchMessages", int64(messages)))
	}
	if bytes < 0 {
		errs = append(errs, negative("PrefetchBytes", int64(bytes)))
	}
	if inflated < 0 {
		errs = append(errs, negative("MaxInflatedBody", int64(inflated)))
	}
	if interval < time.Second {
		errs = append(errs, &message.LimitError{Field: "Config.RouteInterval (too short)", Limit: int64(time.Second), Value: int64(interval), Unit: "ns"})
	}
	return errors.Join(errs...)
}

// Consumer reads all queues of a topic for a group, from where the group's
// commits ended. Messages that were handed out and not committed come again
// when a consumer of the group is made the next time.
//
// Two consumers of one group share its offsets and nothing else: each of them
// gets all messages. Methods may be called concurrently; then messages of one
// queue go to several goroutines, and Commit counts all of them as done.
//
// Messages that the group sent back with Retry come along, when their time has
// come, with the topic that they had. Consumers of one group that read different
// topics get those of all of them: better have a group for each topic.
//
// A topic that does not exist yet, and queues that are added to it, are read
// as soon as the name service announces them, or within RouteInterval.
type Consumer struct {
	group        string // as brokers know it
	topic        string
	maxReconsume int32
	auto         bool
	log          *slog.Logger
	f            fetcher
	trace        *consumerTrace // nil without traces
	presence     presence

	commitMu sync.Mutex // one commit, or reset, at a time, so that offsets do not go back
	once     sync.Once
	closeErr error
	done     chan struct{}
}

// NewConsumer makes a consumer and begins to read. ctx is for looking up the
// route and the offsets. The consumer must be closed.
func NewConsumer(ctx context.Context, cfg ConsumerConfig) (*Consumer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	ns := namespace(cfg.Namespace)
	group := ns.wrap(cfg.Group)
	committed := OfGroup(group)
	c := &Consumer{
		group: group, topic: cfg.Topic, maxReconsume: cfg.MaxReconsumeTimes, auto: cfg.AutoCommit, log: cfg.Logger,
		done: make(chan struct{}),
		f: fetcher{
			ns: ns, topic: ns.wrap(cfg.Topic), group: group, retryTopic: protocol.RetryPrefix + group, tagExpression: cfg.TagExpression,
			maxMessages: cfg.PrefetchMessages, maxBytes: cfg.PrefetchBytes,
			names: cfg.NameService, connect: cfg.Connect,
			start: committed.orElse(cfg.Start), later: committed.orElse(Begin), follow: true,
			interval: cfg.RouteInterval, log: cfg.Logger,
			copier: copier{tags: parseTags(cfg.TagExpression), maxBody: cfg.MaxInflatedBody},
		},
	}
	trace, err := newTracer(cfg.Trace, ProducerConfig{
		Group: cfg.Group, NameService: cfg.NameService, Connect: cfg.Connect, Logger: cfg.Logger,
	}, traceConsume)
	if err != nil {
		return nil, err
	}
	if trace != nil {
		c.trace = &consumerTrace{t: trace, group: cfg.Group}
	}
	if err := c.start(ctx, &cfg); err != nil {
		trace.close()
		return nil, fmt.Errorf("consumer of topic %s, group %s: %w", cfg.Topic, cfg.Group, err)
	}
	return c, nil
}

// Receive returns the next message, waiting for one until ctx ends. The
// message is the caller's; its body is inflated when it was stored compressed.
//
// After a *SkippedError, or an error from a broker, Receive may be called
// again, and reading goes on. After Close it returns message.ErrClosed.
func (c *Consumer) Receive(ctx context.Context) (*message.MessageExt, error) {
	if c.auto && c.f.between() {
		c.autoCommit(ctx)
	}
	m, err := c.f.receive(ctx)
	c.trace.received(m)
	return m, err
}

// ReceiveBatch returns at least one message, for which it waits like Receive,
// and at most limit, as many as are there without waiting. Messages of one
// queue are in its order. An error that follows messages is kept for the next
// call.
func (c *Consumer) ReceiveBatch(ctx context.Context, limit int) ([]*message.MessageExt, error) {
	m, err := c.Receive(ctx)
	if err != nil {
		return nil, err
	}
	batch := append(make([]*message.MessageExt, 0, min(max(limit, 1), DefaultPrefetchMessages)), m)
	for len(batch) < limit {
		next, ok := c.f.take(true)
		if !ok {
			break
		}
		c.trace.received(next.m)
		batch = append(batch, next.m)
	}
	return batch, nil
}

// Messages yields what Receive returns, message or error. It ends, with the
// last error, when ctx ends or the consumer is closed; after any other error it
// goes on unless the loop ends itself.
func (c *Consumer) Messages(ctx context.Context) iter.Seq2[*message.MessageExt, error] {
	return func(yield func(*message.MessageExt, error) bool) {
		for {
			m, err := c.Receive(ctx)
			if !yield(m, err) || c.f.ended(ctx, err) {
				return
			}
		}
	}
}

// Commit makes the group go on after what was handed out so far, however many
// goroutines are still busy with it. The broker has the offsets in memory when
// it returns, and saves them within its interval: after a crash, messages since
// then come twice.
func (c *Consumer) Commit(ctx context.Context) error { return c.commit(ctx, false) }

// CommitSync is Commit that returns when the offsets are on disk.
func (c *Consumer) CommitSync(ctx context.Context) error { return c.commit(ctx, true) }

func (c *Consumer) commit(ctx context.Context, sync bool) error {
	c.commitMu.Lock()
	defer c.commitMu.Unlock()
	var errs []error
	traced, failed := c.trace.taken(), map[string]bool{}
	for to, states := range c.f.positions(sync) {
		req := protocol.UpdateConsumerOffsetRequest{Group: c.group, Topic: to.topic, Sync: sync}
		for _, p := range states {
			req.Offsets = append(req.Offsets, protocol.QueuePosition{QueueID: p.state.QueueID, Offset: p.offset})
		}
		if err := to.broker.UpdateConsumerOffset(ctx, req); err != nil {
			failed[states[0].state.BrokerName] = true
			errs = append(errs, fmt.Errorf("commit of group %s, topic %s: %w", c.group, to.topic, err))
			continue
		}
		for _, p := range states {
			p.state.committed, p.state.isCommitted = p.offset, true
		}
	}
	c.trace.committed(traced, failed)
	return errors.Join(errs...)
}

// TracesDropped is how many records of ConsumerConfig.Trace could not be sent.
func (c *Consumer) TracesDropped() int64 {
	if c.trace == nil {
		return 0
	}
	return c.trace.t.count()
}

// queuePosition is how far the messages of a queue were handed out.
type queuePosition struct {
	state  *queueState
	offset message.QueueOffset
}

// topicOf is one broker's part of a topic.
type topicOf struct {
	broker protocol.Broker
	topic  string
}

// positions returns what is to be committed, by broker and topic: what changed since the
// last commit, or everything. The caller holds the commit mutex.
func (f *fetcher) positions(all bool) map[topicOf][]queuePosition {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := map[topicOf][]queuePosition{}
	for _, s := range f.queues {
		if all || !s.isCommitted || s.committed != s.position {
			to := topicOf{s.broker, s.Topic}
			m[to] = append(m[to], queuePosition{s, s.position})
		}
	}
	return m
}

func (c *Consumer) autoCommit(ctx context.Context) {
	if err := c.Commit(ctx); err != nil && ctx.Err() == nil {
		c.log.Warn("offsets not committed", "topic", c.topic, "group", c.group, "err", err)
	}
}

// Close ends reading, and commits only with AutoCommit. Calls that wait return
// message.ErrClosed. It is idempotent, and may be called from the loop
// body of Messages.
func (c *Consumer) Close() error {
	c.once.Do(func() {
		close(c.done)
		c.f.close()
		if c.auto {
			c.closeErr = c.Commit(context.Background())
		}
		c.leave()
		if c.trace != nil {
			c.trace.t.close()
		}
	})
	return c.closeErr
}

// Done is closed by Close.
func (c *Consumer) Done() <-chan struct{} { return c.done }
