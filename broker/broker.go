package broker

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// Broker serves one store. It implements protocol.Broker, and its methods may
// be called concurrently.
type Broker struct {
	name, cluster string
	store         *store.DefaultMessageStore
	host          message.Host
	names         protocol.NameService
	log           *slog.Logger

	autoCreate     bool
	queueNums      int32
	clusterProp    message.Properties // CLUSTER=<cluster>, or empty
	topics         *topicTable
	groups         *groupTable
	autoGroup      bool
	offsets        *offsetTable
	clients        clientTable
	announceMu     sync.Mutex // keeps registrations in the order of the changes
	closed         atomic.Bool
	closing        chan struct{} // closed by Close
	closeOnce      sync.Once
	closeErr       error
	stopOffsetsRun func() // ends the goroutine that saves offsets
	delays         *delays
	stopDelaysRun  func() error // ends the goroutine that delivers, and saves
	rejectHalf     bool
	transactions   *transactions
	stopTxRun      func() error // ends the goroutine that looks after transactions, and saves
}

var _ protocol.Broker = (*Broker)(nil)

// New reads topics and offsets, adopts topics that only the store knows, registers
// with the name service, and begins to deliver delayed messages and to ask clients about
// open transactions. An error matches message.ErrCorrupt when a file and its backup are
// both damaged.
func New(ctx context.Context, cfg Config) (*Broker, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	b := &Broker{
		name: cfg.Name, cluster: cfg.Cluster,
		store: cfg.Store, host: cfg.Store.StoreHost(), names: cfg.NameService, log: cfg.Logger,
		autoCreate: !cfg.NoAutoCreateTopic, autoGroup: !cfg.NoAutoCreateGroup, queueNums: cfg.TopicQueueNums,
		closing: make(chan struct{}), rejectHalf: cfg.RejectTransactionMessage,
	}
	if !cfg.NoClusterProperty {
		p, err := message.NewProperties(propertyCluster, cfg.Cluster)
		if err != nil {
			return nil, err
		}
		b.clusterProp = p
	}
	var err error
	var adopted []protocol.TopicConfig
	if b.topics, adopted, err = openTopics(cfg.Store, cfg.Now); err != nil {
		return nil, err
	}
	for _, t := range adopted {
		b.log.Warn("topic adopted from the store", "topic", t.Name, "queues", t.ReadQueueNums)
	}
	if b.groups, err = openGroups(cfg.Store, cfg.Now); err != nil {
		return nil, err
	}
	if b.offsets, err = openOffsets(cfg.Store); err != nil {
		return nil, err
	}
	if b.delays, err = openDelays(cfg); err != nil {
		return nil, err
	}
	if b.transactions, err = openTransactions(b, cfg); err != nil {
		return nil, err
	}
	if err := b.announce(ctx); err != nil {
		return nil, err
	}
	b.stopOffsetsRun = b.offsets.run(cfg.OffsetPersistInterval, cfg.Logger)
	b.stopDelaysRun = b.delays.run()
	b.stopTxRun = b.transactions.run()
	b.store.SetConsumed(b.consumed(slices.Clone(cfg.RetentionGroups)))
	return b, nil
}

// Name is the broker's name, as in protocol.MessageQueue.
func (b *Broker) Name() string { return b.name }

// consumed is the broker's store.Consumed: groups have consumed what they have
// committed, a delayed message is consumed when it is delivered, and a half message
// when its transaction has ended. Nobody need consume those that were given up.
func (b *Broker) consumed(groups []string) store.Consumed {
	byGroups := b.offsets.consumed(groups)
	return func(topic string, queueID int32) (message.QueueOffset, bool) {
		switch topic {
		case message.ScheduleTopic:
			return b.delays.consumed(queueID), true
		case message.HalfTopic:
			return message.QueueOffset(b.transactions.saved.Load()), true
		case protocol.TransactionOpTopic:
			return message.QueueOffset(b.transactions.savedOps.Load()), true
		case protocol.TransactionCheckMaxTopic:
			return math.MaxInt64, true
		}
		return byGroups(topic, queueID)
	}
}

// announce tells the name service which topics there are now.
func (b *Broker) announce(ctx context.Context) error {
	if b.names == nil {
		return nil
	}
	b.announceMu.Lock()
	defer b.announceMu.Unlock()
	topics := b.topics.all()
	if t, ok := b.template(protocol.TemplateTopic); ok {
		topics = append(topics, t)
	}
	err := b.names.RegisterBroker(context.WithoutCancel(ctx), protocol.RegisterBrokerRequest{
		Cluster: b.cluster, Name: b.name, ID: protocol.MasterID, Addr: b.host.String(), Topics: topics, Broker: b,
	})
	if err != nil {
		return refuse(protocol.SystemError, "broker "+b.name+" is not registered", err)
	}
	return nil
}

// open refuses calls on a closed broker.
func (b *Broker) open() error {
	if b.closed.Load() {
		return refuse(protocol.ServiceNotAvailable, "broker "+b.name, message.ErrClosed)
	}
	return nil
}

// Close ends the delivery of delayed messages and the questions about transactions, saves the offsets, leaves the name
// service, and ends pulls that wait.
// The store stays open. Calls after the first return the same error.
func (b *Broker) Close() error {
	b.closeOnce.Do(func() {
		b.closed.Store(true)
		close(b.closing)
		var err error
		if b.names != nil {
			err = b.names.UnregisterBroker(context.Background(), b.name, protocol.MasterID)
		}
		b.store.SetConsumed(nil) // what groups go on to is no longer known
		b.stopOffsetsRun()
		b.closeErr = errors.Join(err, b.stopDelaysRun(), b.stopTxRun(), b.offsets.close())
	})
	return b.closeErr
}

func refuse(code protocol.ResponseCode, remark string, err error) error {
	return &protocol.Error{Code: code, Remark: remark, Err: err}
}
