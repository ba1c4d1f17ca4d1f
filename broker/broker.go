package broker

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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

	perm           protocol.Perm
	acceptFrom     time.Time
	maxSendWait    time.Duration
	dedup          *dedup // nil when off
	autoCreate     bool
	queueNums      int32
	clusterProp    message.Properties // CLUSTER=<cluster>, or empty
	topics         *topicTable
	topicCreated   func(protocol.TopicConfig) // nil: nobody listens
	groups         *groupTable
	autoGroup      bool
	storeReplies   bool
	now            func() time.Time
	offsets        *offsetTable
	clients        clientTable
	announceMu     sync.Mutex // keeps registrations in the order of the changes
	closed         atomic.Bool
	closing        chan struct{} // closed by Close
	closeOnce      sync.Once
	closeErr       error
	stopOffsetsRun func() // ends the goroutine that saves offsets
	dropped        *dropped
	delays         *delays
	stopDelaysRun  func() error // ends the goroutine that delivers, and saves
	timers         *timers
	stopTimersRun  func() error // the same for timed messages
	rejectHalf     bool
	transactions   *transactions
	stopTxRun      func() error // ends the goroutine that looks after transactions, and saves

	consumedByGroups store.Consumed // by the groups that count
	runtime          *runtimeInfo
}

var _ protocol.Broker = (*Broker)(nil)

// New reads topics and offsets, forgets those of deleted topics, adopts topics that
// only the store knows, registers with the name service, and begins to deliver
// delayed messages and to ask clients about open transactions. An error matches
// message.ErrCorrupt when a file and its backup are both damaged.
func New(ctx context.Context, cfg Config) (*Broker, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	b := &Broker{
		name: cfg.Name, cluster: cfg.Cluster,
		store: cfg.Store, host: cfg.Store.StoreHost(), names: cfg.NameService, log: cfg.Logger,
		autoCreate: !cfg.NoAutoCreateTopic, autoGroup: !cfg.NoAutoCreateGroup, queueNums: cfg.TopicQueueNums,
		perm: cfg.Permission, acceptFrom: cfg.AcceptSendFrom, maxSendWait: cfg.MaxSendWait,
		topicCreated: cfg.TopicCreated, storeReplies: !cfg.NoStoreReply, now: cfg.Now,
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
	if b.topics, adopted, err = openTopics(ctx, cfg); err != nil {
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
	if err = b.offsets.removeDeleted(b.topics); err != nil {
		return nil, err
	}
	b.consumedByGroups = b.offsets.consumed(slices.Clone(cfg.RetentionGroups))
	b.runtime = newRuntimeInfo(cfg.Now)
	b.dropped = &dropped{topics: b.topics, log: cfg.Logger, told: map[string]message.LogOffset{}}
	if b.delays, err = openDelays(cfg, b.dropped); err != nil {
		return nil, err
	}
	if err := b.makeTraceTopic(cfg.TraceTopicEnable); err != nil {
		return nil, err
	}
	if b.dedup, err = openDedup(ctx, cfg, b.topics); err != nil {
		return nil, err
	}
	b.timers = openTimers(cfg, b.dropped)
	if b.transactions, err = openTransactions(b, cfg); err != nil {
		return nil, err
	}
	if err := b.announce(ctx); err != nil {
		return nil, err
	}
	b.stopOffsetsRun = b.offsets.run(cfg.OffsetPersistInterval, cfg.Logger)
	b.stopDelaysRun = deliverWhenDue(b.delays, b.delays.kick, "delayed messages", cfg.Logger)
	b.stopTimersRun = deliverWhenDue(b.timers, b.timers.kick, "timed messages", cfg.Logger)
	b.store.SetHeldBack(b.timers.heldBack)
	b.stopTxRun = deliverWhenDue(b.transactions, b.transactions.kick, "transactions", cfg.Logger)
	b.store.SetConsumed(b.consumed)
	return b, nil
}

// Name is the broker's name, as in protocol.MessageQueue.
func (b *Broker) Name() string { return b.name }

// consumed is the broker's store.Consumed: groups have consumed what they have
// committed, a message that waits is consumed when it is delivered, a half message when
// its transaction has ended, and what is left of a deleted topic was consumed by all.
// Nobody need consume half messages that were given up.
func (b *Broker) consumed(topic string, queueID int32) (message.QueueOffset, bool) {
	switch {
	case topic == message.ScheduleTopic:
		return b.delays.consumed(queueID), true
	case topic == message.TimerTopic:
		return b.timers.consumed(), true
	case topic == message.HalfTopic:
		return message.QueueOffset(b.transactions.saved.Load()), true
	case topic == protocol.TransactionOpTopic:
		return message.QueueOffset(b.transactions.savedOps.Load()), true
	case topic == protocol.TransactionCheckMaxTopic, b.topics.isDeleted(topic):
		return math.MaxInt64, true
	}
	return b.consumedByGroups(topic, queueID)
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
	if t := b.replyTopic(); !b.topics.has(t.Name) {
		topics = append(topics, t)
	}
	for i := range topics {
		topics[i].Perm &= b.perm | protocol.PermInherit
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
		b.store.SetHeldBack(nil)
		b.stopOffsetsRun()
		b.closeErr = errors.Join(err, b.stopDelaysRun(), b.stopTimersRun(), b.stopTxRun(), b.offsets.close())
	})
	return b.closeErr
}

func refuse(code protocol.ResponseCode, remark string, err error) error {
	return &protocol.Error{Code: code, Remark: remark, Err: err}
}
