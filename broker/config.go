package broker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// Defaults of Config.
const (
	DefaultCluster               = "DefaultCluster"
	DefaultTopicQueueNums        = 4
	DefaultOffsetPersistInterval = 5 * time.Second
	DefaultTimerHorizon          = 40 * 24 * time.Hour

	DefaultTransactionTimeout       = 6 * time.Second
	DefaultTransactionCheckInterval = time.Minute
	DefaultTransactionCheckMax      = 15
	DefaultTransactionCheckRate     = 200
	DefaultTransactionMaxAge        = 72 * time.Hour
)

// MaxQueueNums limits the queues of a topic on one broker.
const MaxQueueNums = 1 << 16

// Config says how a broker works. Store is required; the zero value of
// everything else is right for most.
type Config struct {
	// Store is where messages go. The broker does not close it, and must be
	// closed before it.
	Store *store.DefaultMessageStore

	// Name tells brokers of one name service apart. When empty it is made from
	// the store's host, which belongs to the directory.
	Name string
	// Cluster is DefaultCluster when empty.
	Cluster string
	// NameService learns of the broker and its topics; nil for none.
	NameService protocol.NameService

	// TopicQueueNums is the number of queues of a topic that is made by its
	// first message (RocketMQ's defaultTopicQueueNums), 4 when zero. A producer
	// may ask for fewer.
	TopicQueueNums int32
	// NoAutoCreateTopic refuses messages to topics that do not exist.
	NoAutoCreateTopic bool
	// TopicCreated, if not nil, is called when a message has made its topic, by
	// the goroutine that sends it. It must return soon.
	TopicCreated func(protocol.TopicConfig)
	// Deletions are topics that were deleted elsewhere, perhaps while this directory
	// was not open: see Broker.ApplyDeletions.
	Deletions Deletions
	// NoAutoCreateGroup refuses consumer groups that have no configuration: their
	// pulls, and what they send back.
	NoAutoCreateGroup bool
	// NoClusterProperty leaves out the property CLUSTER=<cluster>, which
	// RocketMQ's broker adds to every message that it stores. Who receives a
	// request can then not reply to it.
	NoClusterProperty bool
	// NoStoreReply hands replies to requests over and keeps no copy of them in the
	// topic <cluster>_REPLY_TOPIC (RocketMQ's storeReplyMessageEnable, reversed).
	NoStoreReply bool

	// Permission is what may be done with any topic of this broker: PermReadWrite when
	// zero. It limits the permissions of routes, so that clients turn to other brokers.
	Permission protocol.Perm
	// AcceptSendFrom, if set, is when the broker begins to take messages. Before, it
	// answers SystemError (RocketMQ's startAcceptSendRequestTimeStamp).
	AcceptSendFrom time.Time
	// MaxSendWait is how long a message may wait for a store that has too much to do
	// (see store.WaitReady) before the answer is SystemBusy; RocketMQ's
	// waitTimeMillsInSendQueue is 200 ms. When zero the context of the send is the only
	// bound.
	MaxSendWait time.Duration
	// TraceTopicEnable makes protocol.TraceTopic, with one queue.
	TraceTopicEnable bool
	// Dedup stores a message that is sent again only once; off when zero.
	Dedup DedupWindow

	// OffsetPersistInterval is how long a consumer's offset may stay unsaved.
	OffsetPersistInterval time.Duration

	// RetentionGroups names the consumer groups that count for the store's
	// Retention.Groups, in topics in which they have offsets. Without it all
	// groups that have offsets count, also those that nobody uses any more.
	RetentionGroups []string

	// TimerHorizon is how far ahead the delivery time of a message may be, 40 days
	// when zero (RocketMQ's timerMaxDelaySec, which is three days there). Those that
	// wait already are delivered whatever it is.
	TimerHorizon time.Duration
	// RejectTransactionMessage refuses messages in transaction (RocketMQ's
	// rejectTransactionMessage). Those that are there can still be ended.
	RejectTransactionMessage bool
	// TransactionTimeout is how old a half message is when a client of its group is
	// first asked about it, 6 s when zero (RocketMQ's transactionTimeOut). The pauses
	// before further questions are five times longer each, up to
	// TransactionCheckInterval, a minute when zero.
	TransactionTimeout       time.Duration
	TransactionCheckInterval time.Duration
	// TransactionCheckMax is how many questions are asked about a half message, 15
	// when zero. When the last one brought no end either, the message is given up: it goes
	// to protocol.TransactionCheckMaxTopic. A question that no client took is none.
	// They are counted in memory, and in the record when it is rolled forward: after
	// a restart the count may be lower.
	TransactionCheckMax int
	// TransactionCheckRate bounds the questions to one client in a second, 200 when zero.
	TransactionCheckRate int
	// TransactionMaxAge is how old a half message is when it is given up whatever was
	// asked, 72 h when zero (RocketMQ's fileReservedTime). Time in which no broker
	// ran does not count.
	TransactionMaxAge time.Duration

	// Now is the clock, time.Now when nil.
	Now func() time.Time
	// Logger gets rare events; nil logs nothing.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Name == "" && c.Store != nil {
		c.Name = nameOf(c.Store.StoreHost())
	}
	if c.Cluster == "" {
		c.Cluster = DefaultCluster
	}
	if c.TopicQueueNums == 0 {
		c.TopicQueueNums = DefaultTopicQueueNums
	}
	if c.Permission == 0 {
		c.Permission = protocol.PermReadWrite
	}
	c.Dedup = c.Dedup.withDefaults()
	if c.OffsetPersistInterval == 0 {
		c.OffsetPersistInterval = DefaultOffsetPersistInterval
	}
	if c.TimerHorizon == 0 {
		c.TimerHorizon = DefaultTimerHorizon
	}
	c.TransactionTimeout = cmp.Or(c.TransactionTimeout, DefaultTransactionTimeout)
	c.TransactionCheckInterval = cmp.Or(c.TransactionCheckInterval, DefaultTransactionCheckInterval)
	c.TransactionCheckMax = cmp.Or(c.TransactionCheckMax, DefaultTransactionCheckMax)
	c.TransactionCheckRate = cmp.Or(c.TransactionCheckRate, DefaultTransactionCheckRate)
	c.TransactionMaxAge = cmp.Or(c.TransactionMaxAge, DefaultTransactionMaxAge)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// validate reports every field that is out of range. c has its defaults.
func (c Config) validate() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, &message.IllegalError{Field: "Config.Store", Reason: "is missing"})
	} else if err := checkConfigName("Config.Name", c.Name); err != nil {
		errs = append(errs, err)
	}
	if err := checkConfigName("Config.Cluster", c.Cluster); err != nil {
		errs = append(errs, err)
	}
	if c.TopicQueueNums < 1 || c.TopicQueueNums > MaxQueueNums {
		errs = append(errs, queueNumsError("Config.TopicQueueNums", c.TopicQueueNums))
	}
	for _, f := range [...]struct {
		name, unit string
		value      int64
	}{
		{"OffsetPersistInterval", "ns", int64(c.OffsetPersistInterval)},
		{"MaxSendWait", "ns", int64(c.MaxSendWait)},
		{"TimerHorizon", "ns", int64(c.TimerHorizon)},
		{"TransactionTimeout", "ns", int64(c.TransactionTimeout)},
		{"TransactionCheckInterval", "ns", int64(c.TransactionCheckInterval)},
		{"TransactionCheckMax", "questions", int64(c.TransactionCheckMax)},
		{"TransactionCheckRate", "questions", int64(c.TransactionCheckRate)},
		{"TransactionMaxAge", "ns", int64(c.TransactionMaxAge)},
	} {
		if f.value < 0 {
			errs = append(errs, &message.LimitError{Field: "Config." + f.name + " (negative)", Value: f.value, Unit: f.unit})
		}
	}
	if c.Permission&^(protocol.PermReadWrite|protocol.PermInherit) != 0 {
		errs = append(errs, &message.IllegalError{Field: "Config.Permission", Value: strconv.Itoa(int(c.Permission)), Reason: "has bits other than read, write and inherit"})
	}
	if c.TimerHorizon < 0 {
		errs = append(errs, &message.LimitError{Field: "Config.TimerHorizon (negative)", Value: int64(c.TimerHorizon), Unit: "ns"})
	}
	return errors.Join(append(errs, c.Dedup.validate())...)
}

// checkConfigName wants a name that can be a topic, because RocketMQ's routes
// have topics of these names.
func checkConfigName(field, name string) error {
	if err := protocol.CheckTopic(name); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

func queueNumsError(field string, n int32) error {
	if n < 1 {
		return &message.LimitError{Field: field, Limit: 1, Value: int64(n), Unit: "queues", AtLeast: true}
	}
	return &message.LimitError{Field: field, Limit: MaxQueueNums, Value: int64(n), Unit: "queues"}
}

// nameOf makes "broker-127-1-2-3-10911" from an address.
func nameOf(h message.Host) string {
	return "broker-" + strings.Trim(strings.NewReplacer(".", "-", ":", "-", "[", "", "]", "").Replace(h.String()), "-")
}
