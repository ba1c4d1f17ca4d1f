package mq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/protocol"
)

// Connect returns the broker that a route names. It is asked again at every
// change of a route and every now and then, so it should keep what is expensive.
// What it returns must be comparable, as pointers are: the same broker is the
// same value.
type Connect func(context.Context, protocol.BrokerData) (protocol.Broker, error)

// DefaultRouteInterval is how long a route counts without a change being
// announced.
const DefaultRouteInterval = 30 * time.Second

// publishRoute is where messages of a topic may go. It is immutable but for
// the counter, which outlives it.
type publishRoute struct {
	*targets

	counter    *atomic.Uint32
	counted    uint32 // the counter when the route was last refreshed for being used
	generation uint32
	until      time.Time
}

// targets are the queues of a route. They are immutable, and the same as long as
// the route does not change.
type targets struct {
	queues  []protocol.MessageQueue
	brokers []protocol.Broker // by position in queues
	several bool              // there is more than one broker
	health  []*brokerHealth   // of the brokers, by position in queues; nil when it does not matter
}

// same reports whether messages go where they did. Another broker of the same
// name is a change.
func (t *targets) same(old *targets) bool {
	return slices.Equal(t.queues, old.queues) && slices.Equal(t.brokers, old.brokers)
}

// routeCache keeps the routes of a producer. A change that the name service
// announces, and age, make it ask again. Topics are named as the application
// names them.
//
// Source: RocketMQ client/impl/factory/MQClientInstance.java, updateTopicRouteInfoFromNameServer.
type routeCache struct {
	names    protocol.NameService
	connect  Connect
	ns       namespace
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
	c.notice()
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

// notice counts a change that was announced.
func (c *routeCache) notice() {
	select {
	case <-c.changed:
		c.generation.Add(1)
	default:
	}
}

func (c *routeCache) fresh(topic string, now time.Time) *publishRoute {
	r := c.known(topic)
	if r == nil || r.generation != c.generation.Load() || now.After(r.until) {
		return nil
	}
	return r
}

// known is the route of a topic, of whatever age; nil for none.
func (c *routeCache) known(topic string) *publishRoute { return (*c.routes.Load())[topic] }

// outdated makes the next get ask the name service.
func (c *routeCache) outdated() { c.generation.Add(1) }

// refresh replaces the route of a topic. The mutex is held.
func (c *routeCache) refresh(ctx context.Context, topic string, now time.Time) (*publishRoute, error) {
	r, err := c.ask(ctx, topic, c.known(topic), now)
	if err != nil {
		return nil, err
	}
	routes := maps.Clone(*c.routes.Load())
	routes[topic] = r
	c.routes.Store(&routes)
	c.faults.askReturned(r.health)
	return r, nil
}

// refreshUsed asks about the topics that messages were sent to since the last
// call, so that sends need not wait for it. Routes that nobody uses grow old.
func (c *routeCache) refreshUsed(ctx context.Context, now time.Time) {
	c.notice()
	before := *c.routes.Load()
	asked := map[string]*publishRoute{}
	for topic, old := range before {
		sent := old.counter.Load()
		if sent == old.counted {
			continue
		}
		r, err := c.ask(ctx, topic, old, now)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.log.Warn("route not refreshed", "topic", topic, "err", err)
		default:
			r.counted = sent
			asked[topic] = r
		}
	}
	if len(asked) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	routes := maps.Clone(*c.routes.Load())
	for topic, r := range asked {
		if routes[topic] == before[topic] { // nobody else asked meanwhile
			routes[topic] = r
		}
	}
	c.routes.Store(&routes)
	for _, r := range asked {
		c.faults.askReturned(r.health)
	}
}

// ask makes the route that comes after old, which may be nil. When the name
// service can not be asked, or does not know the topic any more, old goes on.
func (c *routeCache) ask(ctx context.Context, topic string, old *publishRoute, now time.Time) (*publishRoute, error) {
	r := &publishRoute{generation: c.generation.Load(), until: now.Add(c.interval)}
	if old == nil {
		r.counter = new(atomic.Uint32)
		r.counter.Store(rand.Uint32())
	} else {
		r.counter, r.counted = old.counter, old.counted
	}
	t, err := c.find(ctx, topic)
	switch {
	case err != nil && old != nil && (!errors.Is(err, ErrNoRoute) || errors.Is(err, protocol.TopicNotExist)):
		c.log.Warn("route not refreshed", "topic", topic, "err", err)
		r.targets = old.targets
	case err != nil:
		return nil, err
	case old != nil && t.same(old.targets):
		r.targets = old.targets
	default:
		c.log.Debug("route changed", "topic", topic, "queues", len(t.queues))
		c.watchHealth(t)
		r.targets = t
	}
	return r, nil
}

// find asks the name service and connects.
func (c *routeCache) find(ctx context.Context, topic string) (*targets, error) {
	route, err := c.lookup(ctx, topic)
	if err != nil {
		return nil, err
	}
	return c.fill(ctx, topic, route)
}

// lookup asks for the topic, and when it does not exist for the template that
// it will be made after, limited to the number of queues wanted.
func (c *routeCache) lookup(ctx context.Context, topic string) (protocol.TopicRoute, error) {
	route, err := c.names.RouteOfTopic(ctx, c.ns.wrap(topic))
	if !errors.Is(err, protocol.TopicNotExist) {
		return route, notAsked(err)
	}
	route, err = c.names.RouteOfTopic(ctx, c.template)
	if errors.Is(err, protocol.TopicNotExist) {
		return route, noRoute(fmt.Errorf("%w: topic %s does not exist, and is not made on first use: %w", ErrNoRoute, topic, err))
	}
	for i := range route.Queues {
		q := &route.Queues[i]
		q.ReadQueueNums = min(c.queues, q.ReadQueueNums)
		q.WriteQueueNums = q.ReadQueueNums
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
func (c *routeCache) fill(ctx context.Context, topic string, route protocol.TopicRoute) (*targets, error) {
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
	if _, err := protocol.ParseOrderConf(route.OrderConf); err != nil {
		c.log.Warn("order configuration of a topic not used", "topic", topic, "err", err)
	}
	t := &targets{}
	for _, q := range route.WriteQueues(topic) {
		if b := connected[q.BrokerName]; b != nil {
			t.queues, t.brokers = append(t.queues, q), append(t.brokers, b)
			t.several = t.several || q.BrokerName != t.queues[0].BrokerName
		}
	}
	if len(t.queues) > 0 {
		return t, nil
	}
	if len(errs) > 0 {
		return nil, &protocol.Error{Code: protocol.ConnectBroker, Err: errors.Join(errs...)}
	}
	return nil, noRoute(fmt.Errorf("%w: topic %s has no queue to write to", ErrNoRoute, topic))
}

func noRoute(err error) error { return &protocol.Error{Code: protocol.NotFoundTopic, Err: err} }

// watchHealth finds the health of the brokers, where there is a choice.
func (c *routeCache) watchHealth(t *targets) {
	if c.faults == nil || !t.several {
		return
	}
	for i, q := range t.queues {
		t.health = append(t.health, c.faults.healthOf(q.BrokerName, t.brokers[i]))
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
