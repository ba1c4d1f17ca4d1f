package broker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// NameService is the name service of the brokers of one process. The zero
// value is ready; its methods may be called concurrently.
type NameService struct {
	mu       sync.RWMutex
	brokers  []*registration   // by name and id
	orders   map[string]string // the order configuration of topics that have one
	watchers map[chan<- struct{}]struct{}
}

var _ protocol.NameService = (*NameService)(nil)

type registration struct {
	protocol.RegisterBrokerRequest

	topics map[string]protocol.TopicConfig
}

// find is the place of a broker, and whether it is there.
func (n *NameService) find(name string, id int64) (i int, found bool) {
	return slices.BinarySearchFunc(n.brokers, name, func(r *registration, name string) int {
		return cmp.Or(strings.Compare(r.Name, name), cmp.Compare(r.ID, id))
	})
}

// RouteOfTopic returns the brokers that have the topic, sorted by name. The
// template topic has a route wherever topics may be made on first use.
func (n *NameService) RouteOfTopic(_ context.Context, topic string) (protocol.TopicRoute, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	route := protocol.TopicRoute{OrderConf: n.orders[topic]}
	for _, r := range n.brokers {
		cfg, ok := r.topics[topic]
		if !ok {
			continue
		}
		if last := len(route.Brokers) - 1; last >= 0 && route.Brokers[last].Name == r.Name {
			route.Brokers[last].Addrs[r.ID] = r.Addr
			continue
		}
		route.Queues = append(route.Queues, protocol.QueueData{
			BrokerName: r.Name, ReadQueueNums: cfg.ReadQueueNums, WriteQueueNums: cfg.WriteQueueNums,
			Perm: cfg.Perm, SysFlag: cfg.SysFlag,
		})
		route.Brokers = append(route.Brokers, r.data())
	}
	if len(route.Queues) == 0 {
		return route, topicNotExist(topic)
	}
	return route, nil
}

// SetOrderConf says from which queues of a topic producers choose, as
// "broker:count;broker:count"; an empty text ends that. It is RocketMQ's
// key-value namespace ORDER_TOPIC_CONFIG, but kept in memory only: it ends with the
// name service. What is malformed is refused with a *message.IllegalError.
func (n *NameService) SetOrderConf(topic, conf string) error {
	if _, err := protocol.ParseOrderConf(conf); err != nil {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.orders == nil {
		n.orders = map[string]string{}
	}
	n.orders[topic] = conf
	if conf == "" {
		delete(n.orders, topic)
	}
	n.notify()
	return nil
}

// ListBrokers returns all brokers, sorted by name.
func (n *NameService) ListBrokers(context.Context) ([]protocol.BrokerData, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var brokers []protocol.BrokerData
	for _, r := range n.brokers {
		if last := len(brokers) - 1; last >= 0 && brokers[last].Name == r.Name {
			brokers[last].Addrs[r.ID] = r.Addr
			continue
		}
		brokers = append(brokers, r.data())
	}
	return brokers, nil
}

// data says how the broker is reached.
func (r *registration) data() protocol.BrokerData {
	return protocol.BrokerData{Cluster: r.Cluster, Name: r.Name, Addrs: map[int64]string{r.ID: r.Addr}}
}

// RegisterBroker adds a broker or replaces what is known about it.
func (n *NameService) RegisterBroker(_ context.Context, req protocol.RegisterBrokerRequest) error {
	topics := make(map[string]protocol.TopicConfig, len(req.Topics))
	for _, cfg := range req.Topics {
		topics[cfg.Name] = cfg
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	i, known := n.find(req.Name, req.ID)
	switch {
	case !known:
		n.brokers = insert(n.brokers, i, nil)
	case n.brokers[i].Broker != req.Broker:
		return &message.IllegalError{Field: "broker name", Value: req.Name, Reason: "is taken by another broker"}
	}
	n.brokers[i] = &registration{req, topics}
	n.notify()
	return nil
}

// UnregisterBroker forgets a broker.
func (n *NameService) UnregisterBroker(_ context.Context, name string, id int64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i, known := n.find(name, id); known {
		n.brokers = slices.Delete(n.brokers, i, i+1)
	}
	n.notify()
	return nil
}

// Connect returns the broker that registered with the name.
func (n *NameService) Connect(_ context.Context, b protocol.BrokerData) (protocol.Broker, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if i, known := n.find(b.Name, protocol.MasterID); known && n.brokers[i].Broker != nil {
		return n.brokers[i].Broker, nil
	}
	return nil, refuse(protocol.ServiceNotAvailable, "broker "+b.Name+" is not here", nil)
}

// WatchRoutes announces changes to ch without blocking.
func (n *NameService) WatchRoutes(ch chan<- struct{}) (stop func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.watchers == nil {
		n.watchers = map[chan<- struct{}]struct{}{}
	}
	n.watchers[ch] = struct{}{}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.watchers, ch)
	}
}

func (n *NameService) notify() {
	for ch := range n.watchers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
