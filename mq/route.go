package mq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/protocol"
)

// Connect returns the broker that a route names. It is asked again at every
// change of a route, so it should keep what is expensive.
type Connect func(context.Context, protocol.BrokerData) (protocol.Broker, error)

// DefaultRouteInterval is how long a route counts without a change being
// announced.
const DefaultRouteInterval = 30 * time.Second

// publishRoute is where messages of a topic may go. It is immutable but for
// the counter, which outlives it.
type publishRoute struct {
	queues     []protocol.MessageQueue
	brokers    []protocol.Broker // by position in queues
	several    bool              // there is more than one broker
	health     []*brokerHealth   // of the brokers, by position in queues; nil when it does not matter
	counter    *atomic.Uint32
	generation uint32
	until      time.Time
}

// routeCache keeps the routes of a producer. A change that the name service
// announces, and age, make it ask again.
type routeCache struct {
	names    protocol.NameService
	connect  Connect
	template string
	queues   int32 // wanted when a topic is made
	interval time.Duration
	log      *slog.Logger
	faults   *faultTable // nil: brokers are not kept away from

	changed    chan struct{} // from the name service
	generation atomic.Uint32 // counts changes
	routes     atomic.Pointer[map[string]*publishRoute]
	mu         sync.Mutex // one refresh at a time
}

// get returns a route with at least one queue.
func (c *routeCache) get(ctx context.Context, topic string, now time.Time) (*publishRoute, error) {
	select {
	case <-c.changed:
		c.generation.Add(1)
	default:
	}
	if r := c.fresh(topic, now); r != nil {
		return r, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.fresh(topic, now); r != nil {
		return r, nil
	}
	return c.refresh(ctx, topic, now)
}

func (c *routeCache) fresh(topic string, now time.Time) *publishRoute {
	r := (*c.routes.Load())[topic]
	if r == nil || r.generation != c.generation.Load() || now.After(r.until) {
		return nil
	}
	return r
}

// outdated makes the next get ask the name service.
func (c *routeCache) outdated() { c.generation.Add(1) }

// refresh replaces the route of a topic. When the name service can not be
// asked, the old one goes on.
func (c *routeCache) refresh(ctx context.Context, topic string, now time.Time) (*publishRoute, error) {
	old := (*c.routes.Load())[topic]
	r := &publishRoute{generation: c.generation.Load(), until: now.Add(c.interval)}
	route, err := c.lookup(ctx, topic)
	if err == nil {
		err = c.fill(ctx, r, topic, route)
	}
	switch {
	case err != nil && old != nil && !errors.Is(err, ErrNoRoute):
		c.log.Warn("route not refreshed", "topic", topic, "err", err)
		r.queues, r.brokers, r.several, r.health = old.queues, old.brokers, old.several, old.health
	case err != nil:
		return nil, err
	}
	if old != nil {
		r.counter = old.counter
	} else {
		r.counter = new(atomic.Uint32)
		r.counter.Store(rand.Uint32())
	}
	routes := maps.Clone(*c.routes.Load())
	routes[topic] = r
	c.routes.Store(&routes)
	return r, nil
}

// lookup asks for the topic, and when it does not exist for the template that
// it will be made after, limited to the number of queues wanted.
func (c *routeCache) lookup(ctx context.Context, topic string) (protocol.TopicRoute, error) {
	route, err := c.names.RouteOfTopic(ctx, topic)
	if !errors.Is(err, protocol.TopicNotExist) {
		return route, notAsked(err)
	}
	route, err = c.names.RouteOfTopic(ctx, c.template)
	if errors.Is(err, protocol.TopicNotExist) {
		return route, noRoute(fmt.Errorf("%w: topic %s does not exist, and is not made on first use: %w", ErrNoRoute, topic, err))
	}
	for i := range route.Queues {
		q := &route.Queues[i]
		q.WriteQueueNums = min(c.queues, q.ReadQueueNums)
	}
	return route, notAsked(err)
}

// notAsked is the error of a name service that gives no answer.
func notAsked(err error) error {
	if err == nil {
		return nil
	}
	return &protocol.Error{Code: protocol.NoNameServer, Err: err}
}

// fill connects the queues of a route. A broker that can not be connected is
// left out as long as there is another.
func (c *routeCache) fill(ctx context.Context, r *publishRoute, topic string, route protocol.TopicRoute) error {
	connected := map[string]protocol.Broker{}
	var errs []error
	for _, data := range route.Brokers {
		b, err := c.connect(ctx, data)
		if err != nil {
			errs = append(errs, fmt.Errorf("broker %s: %w", data.Name, err))
			continue
		}
		connected[data.Name] = b
	}
	for _, q := range route.WriteQueues(topic) {
		if b := connected[q.BrokerName]; b != nil {
			r.queues, r.brokers = append(r.queues, q), append(r.brokers, b)
		}
	}
	if len(r.queues) > 0 {
		c.watchHealth(r)
		return nil
	}
	if len(errs) > 0 {
		return &protocol.Error{Code: protocol.ConnectBroker, Err: errors.Join(errs...)}
	}
	return noRoute(fmt.Errorf("%w: topic %s has no queue to write to", ErrNoRoute, topic))
}

func noRoute(err error) error { return &protocol.Error{Code: protocol.NotFoundTopic, Err: err} }

// watchHealth finds the health of the brokers, where there is a choice.
func (c *routeCache) watchHealth(r *publishRoute) {
	for _, q := range r.queues {
		r.several = r.several || q.BrokerName != r.queues[0].BrokerName
	}
	if c.faults == nil || !r.several {
		return
	}
	for i, q := range r.queues {
		r.health = append(r.health, c.faults.healthOf(q.BrokerName, r.brokers[i]))
	}
}

// uses reports whether any route names the broker.
func (c *routeCache) uses(broker string) bool {
	for _, r := range *c.routes.Load() {
		for _, q := range r.queues {
			if q.BrokerName == broker {
				return true
			}
		}
	}
	return false
}
