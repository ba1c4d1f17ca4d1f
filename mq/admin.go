package mq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// AdminConfig says how an Admin works. NameService and Connect are required.
type AdminConfig struct {
	NameService protocol.NameService
	Connect     Connect
	// MaxInflatedBody limits a body that was stored compressed, in bytes;
	// DefaultMaxInflatedBody when zero.
	MaxInflatedBody int
}

// Admin asks all brokers of a name service what people and tools want to know, and
// tells them what these want changed. See protocol.Admin for what each call means
// on one broker. It holds nothing and needs no Close; methods may be called
// concurrently.
//
// A call goes to the brokers one after the other, those of the topic's route where
// there is a topic. Broker errors are joined, each with the broker's name:
// errors.Is finds protocol's response codes. A broker that does not know a topic or
// a group is no error where another one does. Names are whole: of a client with a
// Namespace, "<namespace>%<name>".
//
// Source: RocketMQ tools/admin/DefaultMQAdminExt.java.
type Admin struct {
	names   protocol.NameService
	connect Connect
	maxBody int
}

// NewAdmin makes an Admin.
func NewAdmin(cfg AdminConfig) (*Admin, error) {
	err := checkNames(cfg.NameService, cfg.Connect)
	if err := errors.Join(err, checkNotNegative("MaxInflatedBody", int64(cfg.MaxInflatedBody))); err != nil {
		return nil, err
	}
	return &Admin{cfg.NameService, cfg.Connect, cmp.Or(cfg.MaxInflatedBody, DefaultMaxInflatedBody)}, nil
}

// each calls do for each broker. The error is that of the brokers that failed; of
// those that answered with the code unknown, only when all did.
func (a *Admin) each(ctx context.Context, brokers []protocol.BrokerData, unknown protocol.ResponseCode, do func(name string, b protocol.Broker) error) error {
	var errs []error
	var notKnown error
	known := false
	for _, data := range brokers {
		b, err := a.connect(ctx, data)
		if err == nil {
			err = do(data.Name, b)
		}
		switch {
		case err == nil:
			known = true
		case errors.Is(err, unknown):
			notKnown = err
		default:
			errs = append(errs, fmt.Errorf("broker %s: %w", data.Name, err))
		}
	}
	if !known && len(errs) == 0 {
		return notKnown
	}
	return errors.Join(errs...)
}

// everywhere is each for all brokers.
func (a *Admin) everywhere(ctx context.Context, unknown protocol.ResponseCode, do func(name string, b protocol.Broker) error) error {
	brokers, err := a.names.ListBrokers(ctx)
	if err != nil {
		return notAsked(err)
	}
	if len(brokers) == 0 {
		return &protocol.Error{Code: protocol.BrokerNotExist, Remark: "there is no broker"}
	}
	return a.each(ctx, brokers, unknown, do)
}

// ofTopic is each for the brokers of a topic.
func (a *Admin) ofTopic(ctx context.Context, topic string, unknown protocol.ResponseCode, do func(name string, b protocol.Broker) error) error {
	route, err := a.names.RouteOfTopic(ctx, topic)
	if errors.Is(err, protocol.TopicNotExist) {
		return err
	}
	if err != nil {
		return notAsked(err)
	}
	return a.each(ctx, route.Brokers, unknown, do)
}

// Topic is a topic as a broker has it.
type Topic struct {
	Broker string
	protocol.TopicConfig
}

// CreateTopic makes a topic on all brokers, or replaces its configuration.
func (a *Admin) CreateTopic(ctx context.Context, cfg protocol.TopicConfig) error {
	return a.everywhere(ctx, protocol.NoCode, func(_ string, b protocol.Broker) error { return b.CreateTopic(ctx, cfg) })
}

// UpdateTopic has change make of the configuration that each broker has of a topic
// the one that it gets. What change leaves alone stays.
func (a *Admin) UpdateTopic(ctx context.Context, topic string, change func(*protocol.TopicConfig)) error {
	return a.ofTopic(ctx, topic, protocol.TopicNotExist, func(_ string, b protocol.Broker) error {
		cfg, err := b.GetTopic(ctx, topic)
		if err != nil {
			return err
		}
		change(&cfg)
		return b.CreateTopic(ctx, cfg)
	})
}

// DeleteTopic removes a topic from all brokers that have it.
func (a *Admin) DeleteTopic(ctx context.Context, topic string) error {
	if err := protocol.CheckTopic(topic); err != nil {
		return err
	}
	return a.ofTopic(ctx, topic, protocol.TopicNotExist, func(_ string, b protocol.Broker) error { return b.DeleteTopic(ctx, topic) })
}

// Topics returns the topics of all brokers but the brokers' own, sorted by name and
// broker.
func (a *Admin) Topics(ctx context.Context) ([]Topic, error) {
	var all []Topic
	err := a.everywhere(ctx, protocol.NoCode, func(name string, b protocol.Broker) error {
		topics, err := b.ListTopics(ctx)
		for _, cfg := range topics {
			all = append(all, Topic{name, cfg})
		}
		return err
	})
	slices.SortFunc(all, func(x, y Topic) int { return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Broker, y.Broker)) })
	return all, err
}

// TopicStats is a queue of a topic.
type TopicStats struct {
	Queue protocol.MessageQueue
	protocol.QueueStats
}

// TopicStats tells of each queue of a topic, by broker and id.
func (a *Admin) TopicStats(ctx context.Context, topic string) ([]TopicStats, error) {
	var all []TopicStats
	err := a.ofTopic(ctx, topic, protocol.TopicNotExist, func(name string, b protocol.Broker) error {
		stats, err := b.TopicStats(ctx, topic)
		for _, s := range stats {
			all = append(all, TopicStats{protocol.MessageQueue{Topic: topic, BrokerName: name, QueueID: s.QueueID}, s})
		}
		return err
	})
	slices.SortFunc(all, func(x, y TopicStats) int { return x.Queue.Compare(y.Queue) })
	return all, err
}

// SearchOffset is the offset of a queue's first message that was stored at or after
// a time, in ms since the Unix epoch.
func (a *Admin) SearchOffset(ctx context.Context, q protocol.MessageQueue, time int64) (off message.QueueOffset, err error) {
	err = a.at(ctx, q, func(b protocol.Broker) error {
		off, err = b.SearchOffset(ctx, q.Topic, q.QueueID, time)
		return err
	})
	return off, err
}

// at calls do for the broker of a queue.
func (a *Admin) at(ctx context.Context, q protocol.MessageQueue, do func(protocol.Broker) error) error {
	called := false
	err := a.ofTopic(ctx, q.Topic, protocol.NoCode, func(name string, b protocol.Broker) error {
		if name != q.BrokerName {
			return nil
		}
		called = true
		return do(b)
	})
	if err == nil && !called {
		return &protocol.Error{Code: protocol.BrokerNotExist, Remark: "topic " + q.Topic + " is not on broker " + q.BrokerName}
	}
	return err
}

// RuntimeInfo is how the brokers are, by name, under RocketMQ's keys.
func (a *Admin) RuntimeInfo(ctx context.Context) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	err := a.everywhere(ctx, protocol.NoCode, func(name string, b protocol.Broker) error {
		info, err := b.RuntimeInfo(ctx)
		if err == nil {
			all[name] = info
		}
		return err
	})
	return all, err
}
