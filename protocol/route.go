package protocol

import (
	"maps"
	"slices"
)

// MasterID is the broker id of the member that takes writes.
const MasterID int64 = 0

// TopicRoute says which brokers have a topic. Its slices are sorted by broker
// name, and whoever receives one owns it.
type TopicRoute struct {
	Queues  []QueueData
	Brokers []BrokerData

	// OrderConf, if not empty, says which queues producers choose from, and in
	// which order, whatever Queues says: see ParseOrderConf.
	OrderConf string
}

// QueueData is one broker's part of a topic.
type QueueData struct {
	BrokerName     string
	ReadQueueNums  int32
	WriteQueueNums int32
	Perm           Perm
	SysFlag        int32
}

// BrokerData says how a broker is reached. Addrs has an address per broker id;
// what an address looks like is between the name service and whoever connects.
type BrokerData struct {
	Cluster string
	Name    string
	Addrs   map[int64]string
}

// Broker finds the data of a broker.
func (r *TopicRoute) Broker(name string) (BrokerData, bool) {
	i := slices.IndexFunc(r.Brokers, func(b BrokerData) bool { return b.Name == name })
	if i < 0 {
		return BrokerData{}, false
	}
	return r.Brokers[i], true
}

// WriteQueues are the queues that a producer of the topic may choose from, in
// order: those of OrderConf if there is one that can be read, else those of
// brokers with a master, where the topic can be written.
func (r *TopicRoute) WriteQueues(topic string) []MessageQueue {
	var queues []MessageQueue
	if order, err := ParseOrderConf(r.OrderConf); err == nil && len(order) > 0 {
		for _, o := range order {
			for id := range o.Queues {
				queues = append(queues, MessageQueue{topic, o.BrokerName, id})
			}
		}
		return queues
	}
	for _, d := range r.sorted() {
		b, ok := r.Broker(d.BrokerName)
		if !ok || b.Addrs[MasterID] == "" || !d.Perm.Writable() {
			continue
		}
		for id := range d.WriteQueueNums {
			queues = append(queues, MessageQueue{topic, d.BrokerName, id})
		}
	}
	return queues
}

// ReadQueues are the queues that a consumer of the topic reads, in order.
func (r *TopicRoute) ReadQueues(topic string) []MessageQueue {
	var queues []MessageQueue
	for _, d := range r.sorted() {
		if !d.Perm.Readable() {
			continue
		}
		for id := range d.ReadQueueNums {
			queues = append(queues, MessageQueue{topic, d.BrokerName, id})
		}
	}
	return queues
}

// sorted is for routes of name services that do not sort. A broker is in a route once.
func (r *TopicRoute) sorted() []QueueData {
	byName := make(map[string]QueueData, len(r.Queues))
	for _, d := range r.Queues {
		byName[d.BrokerName] = d
	}
	queues := make([]QueueData, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		queues = append(queues, byName[name])
	}
	return queues
}
