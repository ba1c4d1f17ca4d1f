package store

import (
	"sync"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/message"
)

// counters finds the counter that numbers a queue's messages: RocketMQ's
// topicQueueTable.
type counters struct {
	mu sync.RWMutex
	m  map[queueKey]*commitlog.Counter
}

type queueKey struct {
	topic string
	id    int32
}

// get returns the queue's counter; one that is new starts at 0.
func (c *counters) get(topic string, id int32) *commitlog.Counter {
	k := queueKey{topic, id}
	c.mu.RLock()
	counter := c.m[k]
	c.mu.RUnlock()
	if counter != nil {
		return counter
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = make(map[queueKey]*commitlog.Counter)
	}
	if c.m[k] == nil {
		k.topic = string([]byte(topic)) // the caller's string may be part of something large
		c.m[k] = commitlog.NewCounter(0)
	}
	return c.m[k]
}

func (c *counters) set(topic string, id int32, next message.QueueOffset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = make(map[queueKey]*commitlog.Counter)
	}
	c.m[queueKey{topic, id}] = commitlog.NewCounter(next)
}
