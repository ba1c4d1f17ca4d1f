// Package pocketmq is Apache RocketMQ's storage engine and send path as a
// library: a durable message queue in one directory, without a network and
// without a cluster. What it writes, RocketMQ 4.9 reads, and the reverse.
//
// Open gives a Node, which makes producers and consumers:
//
//   - A send that returns nil is kept: with the default flush mode it is on
//     disk. See store.FlushMode.
//   - A consumer gets every message at least once, in the order of each queue,
//     from where its group's commits ended.
//   - One process owns a directory, and one Node in it.
//
// The node wires the packages below it, which can be used without it: store
// (files), broker (topics and offsets), mq (producers and consumers).
package pocketmq

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/pocketmq/pocketmq/broker"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// The types that applications use most.
type (
	// Message is what is sent.
	Message = message.Message
	// MessageExt is what is received.
	MessageExt = message.MessageExt
	// Properties are a message's properties, encoded and immutable.
	Properties = message.Properties
	// TopicConfig is what a broker knows about a topic.
	TopicConfig = protocol.TopicConfig
	// Producer sends messages.
	Producer = mq.Producer
	// TransactionProducer sends messages in transaction as well.
	TransactionProducer = mq.TransactionProducer
	// Consumer receives messages.
	Consumer = mq.Consumer
)

// Config says what a node is made of. Only Dir, or Disks, is required; the zero
// value of everything else is right for most.
type Config struct {
	// Dir is the directory of the store. It is made when it does not exist.
	Dir string
	// Disks is instead of Dir, for several of them: topics have queues on each,
	// messages go to those that work, and consumers read all of them.
	Disks []DiskConfig
	// AllowMissingDisks opens the node without disks that can not be opened, as
	// long as there is one; see Node.Disks, Node.Reopen.
	AllowMissingDisks bool
	// Store says how the store works; its zero value syncs every message.
	Store store.Config
	// Broker says how the broker works. Its Store and NameService are the node's.
	Broker broker.Config
	// Logger is for the parts that have none of their own; nil logs nothing.
	Logger *slog.Logger
}

// Node is one or several stores with their brokers, and the producers and
// consumers that were made by it. Its methods may be called concurrently.
type Node struct {
	disks  []*disk
	diskMu sync.Mutex // not held while a disk is used
	names  broker.NameService
	log    *slog.Logger

	running context.Context // ends with end
	stop    context.CancelFunc
	wg      sync.WaitGroup

	mu      sync.Mutex
	clients []client
	closed  bool

	once     sync.Once
	closeErr error
}

// client is a producer, a consumer or a reader.
type client interface {
	Close() error
	Done() <-chan struct{}
}

// Open opens the directory with the defaults, and recovers what is in it. The
// error matches ErrLocked when another process has it.
func Open(ctx context.Context, dir string) (*Node, error) {
	return OpenConfig(ctx, Config{Dir: dir})
}

// OpenConfig is Open with a choice of everything.
func OpenConfig(ctx context.Context, cfg Config) (*Node, error) {
	disks, err := cfg.disks()
	if err != nil {
		return nil, err
	}
	n := &Node{disks: disks, log: cfg.Logger}
	if n.log == nil {
		n.log = slog.New(slog.DiscardHandler)
	}
	n.running, n.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := n.openAll(ctx, cfg.AllowMissingDisks); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Producer makes a producer of the group. The node closes it, if nobody else does.
func (n *Node) Producer(group string) (*mq.Producer, error) {
	return n.NewProducer(mq.ProducerConfig{Group: group})
}

// NewProducer is Producer with a choice of everything but NameService and
// Connect, which are the node's.
func (n *Node) NewProducer(cfg mq.ProducerConfig) (*mq.Producer, error) {
	cfg.NameService, cfg.Connect = &n.names, n.names.Connect
	if cfg.MaxMessageSize == 0 {
		cfg.MaxMessageSize = n.maxBody()
	}
	if cfg.Logger == nil {
		cfg.Logger = n.log
	}
	return adopt(n, func() (*mq.Producer, error) { return mq.NewProducer(cfg) })
}

// NewTransactionProducer makes a producer that also sends messages in transaction.
// NameService and Connect of cfg are the node's, which closes the producer, if
// nobody else does.
func (n *Node) NewTransactionProducer(cfg mq.TransactionProducerConfig) (*mq.TransactionProducer, error) {
	cfg.NameService, cfg.Connect = &n.names, n.names.Connect
	if cfg.MaxMessageSize == 0 {
		cfg.MaxMessageSize = n.maxBody()
	}
	if cfg.Logger == nil {
		cfg.Logger = n.log
	}
	return adopt(n, func() (*mq.TransactionProducer, error) { return mq.NewTransactionProducer(cfg) })
}

// Consumer makes a consumer of a topic for the group, from where the group's
// commits ended, or from the beginning. The node closes it, if nobody else does.
func (n *Node) Consumer(ctx context.Context, group, topic string) (*mq.Consumer, error) {
	return n.NewConsumer(ctx, mq.ConsumerConfig{Group: group, Topic: topic})
}

// NewConsumer is Consumer with a choice of everything but NameService and
// Connect, which are the node's.
func (n *Node) NewConsumer(ctx context.Context, cfg mq.ConsumerConfig) (*mq.Consumer, error) {
	cfg.NameService, cfg.Connect = &n.names, n.names.Connect
	if cfg.Logger == nil {
		cfg.Logger = n.log
	}
	return adopt(n, func() (*mq.Consumer, error) { return mq.NewConsumer(ctx, cfg) })
}

// NewReader makes a reader, which reads without a group. NameService and
// Connect of cfg are the node's.
func (n *Node) NewReader(ctx context.Context, cfg mq.ReaderConfig) (*mq.Reader, error) {
	cfg.NameService, cfg.Connect = &n.names, n.names.Connect
	if cfg.Logger == nil {
		cfg.Logger = n.log
	}
	return adopt(n, func() (*mq.Reader, error) { return mq.NewReader(ctx, cfg) })
}

// adopt makes a client and remembers it until it is closed.
func adopt[C client](n *Node, create func() (C, error)) (C, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var none C
	if n.closed {
		return none, ErrClosed
	}
	c, err := create()
	if err != nil {
		return none, err
	}
	n.clients = append(slices.DeleteFunc(n.clients, isClosed), c)
	return c, nil
}

func isClosed(c client) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

// Store is the store of the first disk that is open: see Disks. The node closes
// it.
func (n *Node) Store() *store.DefaultMessageStore { return n.first().Store }

// Admin makes what asks and changes topics, groups and offsets, and finds messages
// by key and id. It needs no Close.
func (n *Node) Admin() (*mq.Admin, error) {
	return mq.NewAdmin(mq.AdminConfig{NameService: &n.names, Connect: n.names.Connect})
}

// Broker is the broker of the first disk that is open: see Disks. The node closes
// it.
func (n *Node) Broker() *broker.Broker { return n.first().Broker }

// Shutdown closes producers and consumers, saves the groups' offsets, and
// closes the stores, which wait for their dispatchers until ctx ends: then a
// store is left as a crash would leave it, and recovers when it is opened. An
// error names the directory.
// It is idempotent, also together with Close.
func (n *Node) Shutdown(ctx context.Context) error {
	return n.end(func(s *store.DefaultMessageStore) error { return s.Shutdown(ctx) })
}

// Close is Shutdown with the store's own bound.
func (n *Node) Close() error {
	return n.end((*store.DefaultMessageStore).Close)
}

func (n *Node) end(closeStore func(*store.DefaultMessageStore) error) error {
	n.once.Do(func() {
		n.mu.Lock()
		n.closed = true
		clients := n.clients
		n.clients = nil
		n.mu.Unlock()
		n.stop()
		var errs []error
		for _, c := range clients {
			errs = append(errs, c.Close())
		}
		errs = append(errs, n.closeAll(closeStore))
		n.wg.Wait()
		n.closeErr = errors.Join(errs...)
	})
	return n.closeErr
}
