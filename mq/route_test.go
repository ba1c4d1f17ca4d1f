package mq

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/protocol"
)

func published(r protocol.TopicRoute) *publishRoute {
	return &publishRoute{targets: &targets{queues: r.WriteQueues("t"), several: len(r.Brokers) > 1}, counter: new(atomic.Uint32)}
}

// TestPickOverTheCounter starts close to the places where a signed and an
// unsigned counter wrap.
func TestPickOverTheCounter(t *testing.T) {
	for _, start := range []uint32{0, math.MaxInt32 - 50, math.MaxUint32 - 50} {
		r := published(routeOf(8, "a"))
		r.counter.Store(start)
		hits := make([]int, 8)
		for range 100 {
			hits[r.pick(nil, 0)]++
		}
		for q, n := range hits {
			require.GreaterOrEqual(t, n, 12, "queue %d, start %d", q, start)
		}
	}
}

func TestPickConcurrently(t *testing.T) {
	r := published(routeOf(4, "a", "b"))
	var hits [8]atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 1000 {
				hits[r.pick(nil, 0)].Add(1)
			}
		})
	}
	wg.Wait()
	for q := range hits {
		require.EqualValues(t, 4000, hits[q].Load(), "a true rotation over queue %d", q)
	}
}

func TestPickAvoidsWhatFailed(t *testing.T) {
	r := published(routeOf(3, "a", "b", "c"))
	for range 50 {
		require.NotEqual(t, "b", r.queues[r.pick([]string{"b"}, 0)].BrokerName)
	}
	require.True(t, r.others("a"))
	one := published(routeOf(3, "a"))
	for range 5 {
		require.Equal(t, "a", one.queues[one.pick([]string{"a"}, 0)].BrokerName)
	}
	require.False(t, one.others("a"))
}

func cacheOf(n *fakeNames) *routeCache {
	c := &routeCache{
		names: n, connect: n.connect, template: protocol.TemplateTopic, queues: 4,
		interval: time.Minute, log: ProducerConfig{}.withDefaults().Logger, changed: make(chan struct{}, 1),
	}
	c.routes.Store(&map[string]*publishRoute{})
	return c
}

// TestNoQueues lists routes without anything to write to.
func TestNoQueues(t *testing.T) {
	readOnly := routeOf(4, "a", "b")
	readOnly.Queues[0].Perm, readOnly.Queues[1].Perm = protocol.PermRead, 0
	noMaster := routeOf(4, "a")
	noMaster.Brokers[0].Addrs = map[int64]string{1: "replica"}
	notExist := func(string) (protocol.TopicRoute, error) {
		return protocol.TopicRoute{}, &protocol.Error{Code: protocol.TopicNotExist}
	}
	always := func(r protocol.TopicRoute) func(string) (protocol.TopicRoute, error) {
		return func(string) (protocol.TopicRoute, error) { return r, nil }
	}
	for name, route := range map[string]func(string) (protocol.TopicRoute, error){
		"no queues": always(routeOf(0, "a")),
		"read-only": always(readOnly),
		"no master": always(noMaster),
		"empty":     always(protocol.TopicRoute{}),
		"no topic":  notExist,
	} {
		t.Run(name, func(t *testing.T) {
			c := cacheOf(&fakeNames{route: route, brokers: map[string]protocol.Broker{"a": &fakeBroker{}, "b": &fakeBroker{}}})
			_, err := c.get(t.Context(), "t", time.Now())
			require.ErrorIs(t, err, ErrNoRoute)
		})
	}
	c := cacheOf(&fakeNames{route: always(routeOf(1, "a"))})
	_, err := c.get(t.Context(), "t", time.Now())
	require.ErrorIs(t, err, protocol.ServiceNotAvailable, "a broker that can not be connected says why")
}

// TestRouteRefresh counts how often the name service is asked.
func TestRouteRefresh(t *testing.T) {
	asked := 0
	var failure error
	n := &fakeNames{brokers: map[string]protocol.Broker{"a": &fakeBroker{}}}
	n.route = func(string) (protocol.TopicRoute, error) { asked++; return routeOf(2, "a"), failure }
	c := cacheOf(n)
	now := time.Now()
	get := func(wantAsked int) *publishRoute {
		t.Helper()
		r, err := c.get(t.Context(), "t", now)
		require.NoError(t, err)
		require.Equal(t, wantAsked, asked)
		return r
	}
	first := get(1)
	get(1)
	c.changed <- struct{}{}
	get(2)
	get(2)
	now = now.Add(2 * time.Minute)
	require.Same(t, first.counter, get(3).counter, "the rotation goes on")
	failure = errors.New("name service is down")
	c.outdated()
	require.Len(t, get(4).queues, 2, "the old route is better than none")
}

// TestTemplateRoute asks for a topic that does not exist.
func TestTemplateRoute(t *testing.T) {
	n := &fakeNames{brokers: map[string]protocol.Broker{"a": &fakeBroker{}}}
	n.route = func(topic string) (protocol.TopicRoute, error) {
		if topic == protocol.TemplateTopic {
			return routeOf(8, "a"), nil
		}
		return protocol.TopicRoute{}, &protocol.Error{Code: protocol.TopicNotExist}
	}
	r, err := cacheOf(n).get(t.Context(), "t", time.Now())
	require.NoError(t, err)
	require.Len(t, r.queues, 4, "limited to what the producer wants")
	require.Equal(t, "t", r.queues[0].Topic)
}
