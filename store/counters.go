package store

import (
	"fmt"
	"strings"
	"sync"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/internal/recent"
	"github.com/pocketmq/pocketmq/message"
)

// counters finds the counter that numbers a queue's messages: RocketMQ's
// topicQueueTable. A topic that has a counter has passed message.CheckTopic.
type counters struct {
	recent recent.Slots[namedCounter]

	mu     sync.RWMutex
	m      map[queueKey]*namedCounter
	topics recent.Names

	folds  bool              // the file system takes names that differ in case for one
	folded map[string]string // topic, by its name in lower case; only where folds is set
}

type queueKey struct {
	topic string
	id    int32
}

type namedCounter struct {
	queueKey

	counter commitlog.Counter
}

// find returns the queue's counter, nil if it has none.
func (c *counters) find(topic string, id int32) *commitlog.Counter {
	slot := recent.Slot(&c.recent, topic, id)
	if n := slot.Load(); n != nil && n.id == id && n.topic == topic {
		return &n.counter
	}
	c.mu.RLock()
	n := c.m[queueKey{topic, id}]
	c.mu.RUnlock()
	if n == nil {
		return nil
	}
	slot.Store(n)
	return &n.counter
}

// add gives the queue a counter that goes on at next, if it has none. It refuses a
// topic whose directory would be that of another one.
func (c *counters) add(topic string, id int32, next message.QueueOffset) (*commitlog.Counter, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.folded[strings.ToLower(topic)]; other != "" && other != topic {
		return nil, sameName(topic, other)
	}
	return c.number(topic, id, next), nil
}

func sameName(topic, other string) error {
	return &message.IllegalError{Field: "topic", Value: topic,
		Reason: fmt.Sprintf("differs only in case from %q, and the file system takes the two for one", other)}
}

// set gives the queue a counter that goes on at next, if it has none.
func (c *counters) set(topic string, id int32, next message.QueueOffset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number(topic, id, next)
}

func (c *counters) number(topic string, id int32, next message.QueueOffset) *commitlog.Counter {
	if c.m == nil {
		c.m = make(map[queueKey]*namedCounter)
	}
	k := queueKey{c.topics.Of(topic), id}
	n := c.m[k]
	if n == nil {
		n = &namedCounter{k, *commitlog.NewCounter(next)}
		c.m[k] = n
		c.recent.Grow(len(c.m))
	}
	c.named(k.topic)
	return &n.counter
}

// named notes that a topic has a directory. The caller holds mu, or is Open.
func (c *counters) named(topic string) {
	if !c.folds {
		return
	}
	if c.folded == nil {
		c.folded = make(map[string]string)
	}
	c.folded[strings.ToLower(topic)] = topic
}
