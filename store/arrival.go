package store

import (
	"sync"
	"sync/atomic"
)

// arrivals tells waiting readers that a topic has a new message.
type arrivals struct {
	waiting atomic.Int32 // looked at for all messages, before the lock

	mu     sync.RWMutex
	topics map[string]map[*subscription]struct{}
}

type subscription struct{ ch chan<- struct{} }

// NotifyArrival sends to ch, without ever blocking, after a message of topic
// became readable. Register first, then read, then wait for ch: nothing is
// missed, when ch has room for one value. stop ends it; it is idempotent.
func (s *DefaultMessageStore) NotifyArrival(topic string, ch chan<- struct{}) (stop func()) {
	return s.arrivals.add(topic, ch)
}

func (a *arrivals) add(topic string, ch chan<- struct{}) (stop func()) {
	sub := &subscription{ch}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.topics == nil {
		a.topics = make(map[string]map[*subscription]struct{})
	}
	if a.topics[topic] == nil {
		a.topics[topic] = make(map[*subscription]struct{})
	}
	a.topics[topic][sub] = struct{}{}
	a.waiting.Add(1)
	return sync.OnceFunc(func() { a.remove(topic, sub) })
}

func (a *arrivals) remove(topic string, sub *subscription) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.topics[topic], sub)
	if len(a.topics[topic]) == 0 {
		delete(a.topics, topic)
	}
	a.waiting.Add(-1)
}

// awaited reports whether any reader waits.
func (a *arrivals) awaited() bool { return a.waiting.Load() > 0 }

// came says that the topic has messages that can be read now, and could not before.
func (a *arrivals) came(topic string) {
	if a.waiting.Load() == 0 {
		return
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	for sub := range a.topics[topic] {
		select {
		case sub.ch <- struct{}{}:
		default:
		}
	}
}
