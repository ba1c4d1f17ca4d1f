package mq

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// TestRouteChanges tells changes of a route from answers that only look different.
func TestRouteChanges(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*protocol.TopicRoute, *fakeNames)
		changed bool
	}{
		"the same": {func(*protocol.TopicRoute, *fakeNames) {}, false},
		"another order": {func(r *protocol.TopicRoute, _ *fakeNames) {
			slices.Reverse(r.Queues)
			slices.Reverse(r.Brokers)
		}, false},
		"fewer queues to read": {func(r *protocol.TopicRoute, _ *fakeNames) { r.Queues[0].ReadQueueNums = 1 }, false},
		"another queue":        {func(r *protocol.TopicRoute, _ *fakeNames) { r.Queues[0].WriteQueueNums = 3 }, true},
		"not writable":         {func(r *protocol.TopicRoute, _ *fakeNames) { r.Queues[1].Perm = protocol.PermRead }, true},
		"no master":            {func(r *protocol.TopicRoute, _ *fakeNames) { r.Brokers[1].Addrs = map[int64]string{1: "x"} }, true},
		"without b":            {func(r *protocol.TopicRoute, _ *fakeNames) { r.Queues, r.Brokers = r.Queues[:1], r.Brokers[:1] }, true},
		"another broker of that name": {func(_ *protocol.TopicRoute, n *fakeNames) {
			n.brokers["b"] = &fakeBroker{}
		}, true},
		"b can not be connected":    {func(_ *protocol.TopicRoute, n *fakeNames) { delete(n.brokers, "b") }, true},
		"an order":                  {func(r *protocol.TopicRoute, _ *fakeNames) { r.OrderConf = "b:2;a:2" }, true},
		"an order that is the same": {func(r *protocol.TopicRoute, _ *fakeNames) { r.OrderConf = "a:2;b:2" }, false},
		"an order that is none":     {func(r *protocol.TopicRoute, _ *fakeNames) { r.OrderConf = "a:b:c" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			route := routeOf(2, "a", "b")
			n := &fakeNames{brokers: map[string]protocol.Broker{"a": &fakeBroker{}, "b": &fakeBroker{}}}
			n.route = func(string) (protocol.TopicRoute, error) {
				return protocol.TopicRoute{Queues: slices.Clone(route.Queues), Brokers: slices.Clone(route.Brokers), OrderConf: route.OrderConf}, nil
			}
			c := cacheOf(n)
			c.faults = newFaultTable(FaultPolicy{}.withDefaults(), time.Now, c.uses)
			defer c.faults.close()
			first, err := c.get(t.Context(), "t", time.Now())
			require.NoError(t, err)
			test.change(&route, n)
			c.changed <- struct{}{}
			second, err := c.get(t.Context(), "t", time.Now())
			require.NoError(t, err)
			require.NotSame(t, first, second, "the name service was asked")
			if test.changed {
				require.NotSame(t, first.targets, second.targets)
			} else {
				require.Same(t, first.targets, second.targets)
			}
			require.Same(t, first.counter, second.counter, "the rotation goes on either way")
		})
	}
}

// TestOldRouteStays has the name service give answers that say nothing about a
// topic that had a route, and one that does.
func TestOldRouteStays(t *testing.T) {
	unknown := &protocol.Error{Code: protocol.TopicNotExist}
	for name, test := range map[string]struct {
		topic, template error
		route           protocol.TopicRoute
		queues          int // 0: no route
	}{
		"no answer":                {errors.New("down"), nil, protocol.TopicRoute{}, 2},
		"unknown, no template":     {unknown, unknown, protocol.TopicRoute{}, 2},
		"unknown, no answer then":  {unknown, errors.New("down"), protocol.TopicRoute{}, 2},
		"unknown, with a template": {unknown, nil, routeOf(3, "a"), 3},
		"nobody can be connected":  {nil, nil, routeOf(1, "x"), 2},
		"nothing to write to":      {nil, nil, protocol.TopicRoute{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := &fakeNames{brokers: map[string]protocol.Broker{"a": &fakeBroker{}}}
			n.route = func(string) (protocol.TopicRoute, error) { return routeOf(2, "a"), nil }
			c := cacheOf(n)
			_, err := c.get(t.Context(), "t", time.Now())
			require.NoError(t, err)
			n.route = func(topic string) (protocol.TopicRoute, error) {
				if topic == protocol.TemplateTopic {
					return test.route, test.template
				}
				return test.route, test.topic
			}
			c.outdated()
			r, err := c.get(t.Context(), "t", time.Now())
			if test.queues == 0 {
				require.ErrorIs(t, err, ErrNoRoute)
				return
			}
			require.NoError(t, err)
			require.Len(t, r.queues, test.queues)
		})
	}
}

// TestRefreshUsed counts what a scheduled refresh asks for.
func TestRefreshUsed(t *testing.T) {
	asked := map[string]int{}
	n := &fakeNames{brokers: map[string]protocol.Broker{"a": &fakeBroker{}}}
	n.route = func(topic string) (protocol.TopicRoute, error) { asked[topic]++; return routeOf(2, "a"), nil }
	c := cacheOf(n)
	now := time.Now()
	for _, topic := range []string{"busy", "idle", "gone"} {
		_, err := c.get(t.Context(), topic, now)
		require.NoError(t, err)
	}
	c.refreshUsed(t.Context(), now)
	clear(asked)
	now = now.Add(50 * time.Second)
	c.known("busy").pick(nil, 0)
	c.known("gone").pick(nil, 0)
	route := n.route
	n.route = func(topic string) (protocol.TopicRoute, error) {
		if topic == "gone" {
			asked[topic]++
			return protocol.TopicRoute{}, nil
		}
		return route(topic)
	}
	gone := c.known("gone")
	c.refreshUsed(t.Context(), now)
	require.Equal(t, map[string]int{"busy": 1, "gone": 1}, asked, "idle topics are not asked for")
	require.Same(t, gone, c.known("gone"), "a send will find out")

	now = now.Add(50 * time.Second)
	_, err := c.get(t.Context(), "busy", now)
	require.NoError(t, err)
	require.Equal(t, 1, asked["busy"], "a send did not have to wait")
	c.refreshUsed(t.Context(), now)
	require.Equal(t, 1, asked["busy"], "and nothing was sent since")
	_, err = c.get(t.Context(), "idle", now)
	require.NoError(t, err)
	require.Equal(t, 1, asked["idle"], "an old route is asked for when it is used")

	c.known("busy").pick(nil, 0)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	before := c.known("busy")
	c.refreshUsed(ended, now)
	require.Same(t, before, c.known("busy"))
}

// TestInstanceRefreshesRoutes is a scheduled refresh of real producers.
func TestInstanceRefreshesRoutes(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	_, err := p.Send(t.Context(), text(t, "orders", "x"))
	require.NoError(t, err)
	h.createTopic(t, "orders", 7)
	p.instance.refreshRoutes(t.Context())
	require.Len(t, p.routes.known("orders").queues, 7)
}

// TestAutoCreate sends to a topic that does not exist, and watches what the name
// service is asked and answers.
func TestAutoCreate(t *testing.T) {
	h := openHouse(t)
	type answer struct {
		topic string
		code  protocol.ResponseCode
	}
	var asked []answer
	n := &fakeNames{route: func(topic string) (protocol.TopicRoute, error) {
		r, err := h.names.RouteOfTopic(t.Context(), topic)
		asked = append(asked, answer{topic, protocol.CodeOf(err)})
		return r, err
	}}
	p, err := NewProducer(ProducerConfig{Group: "g", NameService: n, Connect: h.names.Connect})
	require.NoError(t, err)
	defer p.Close()
	r, err := p.Send(t.Context(), text(t, "orders", "x"))
	require.NoError(t, err)
	require.Equal(t, SendOK, r.Status)
	require.Equal(t, []answer{{"orders", protocol.TopicNotExist}, {"TBW102", protocol.Success}}, asked)
	route, err := h.names.RouteOfTopic(t.Context(), "orders")
	require.NoError(t, err)
	require.Equal(t, []protocol.QueueData{{BrokerName: "house", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6}}, route.Queues)
	p.routes.outdated()
	queues, err := p.Queues(t.Context(), "orders")
	require.NoError(t, err)
	require.Len(t, queues, 4)
	require.Equal(t, answer{"orders", protocol.Success}, asked[2])
}

// TestTemplateQueues has what a producer asks for, and what comes of it.
func TestTemplateQueues(t *testing.T) {
	for _, test := range []struct {
		wanted, template, queues int32
	}{{0, 8, 4}, {3, 8, 3}, {16, 8, 8}, {1, 1, 1}} {
		n := &fakeNames{brokers: map[string]protocol.Broker{"a": &fakeBroker{}}}
		n.route = func(topic string) (protocol.TopicRoute, error) {
			if topic == "mother" {
				return routeOf(test.template, "a"), nil
			}
			return protocol.TopicRoute{}, &protocol.Error{Code: protocol.TopicNotExist}
		}
		p, err := NewProducer(ProducerConfig{
			Group: "g", NameService: n, Connect: n.connect, TemplateTopic: "mother", TopicQueueNums: test.wanted,
		})
		require.NoError(t, err)
		queues, err := p.Queues(t.Context(), "t")
		require.NoError(t, err)
		require.Len(t, queues, int(test.queues))
		require.NoError(t, p.Close())
	}
}

// TestUnitMode makes topics for a unit.
func TestUnitMode(t *testing.T) {
	h := openHouse(t)
	p, err := NewProducer(ProducerConfig{Group: "g", UnitMode: true, NameService: h.names, Connect: h.names.Connect})
	require.NoError(t, err)
	defer p.Close()
	_, err = p.Send(t.Context(), text(t, "orders", "x"))
	require.NoError(t, err)
	topic, err := h.broker.GetTopic(t.Context(), "orders")
	require.NoError(t, err)
	require.Equal(t, protocol.TopicUnit, topic.SysFlag)
}

// TestOrderConf sends to the queues that the order configuration names, and to
// none of a broker that is away.
func TestOrderConf(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	h.createTopic(t, "orders", 4)
	require.NoError(t, h.names.SetOrderConf("orders", "elsewhere:2;house:3"))
	queues, err := p.Queues(t.Context(), "orders")
	require.NoError(t, err)
	require.Equal(t, []protocol.MessageQueue{queue("orders", 0), queue("orders", 1), queue("orders", 2)}, queues)
	require.ErrorIs(t, h.names.SetOrderConf("orders", "house"), message.ErrIllegal)
	require.NoError(t, h.names.SetOrderConf("orders", ""))
	queues, err = p.Queues(t.Context(), "orders")
	require.NoError(t, err)
	require.Len(t, queues, 4)
}

// TestRetrySameQueue sends to a given queue of a broker that is away at first.
func TestRetrySameQueue(t *testing.T) {
	for name, test := range map[string]struct {
		cfg    ProducerConfig
		code   protocol.ResponseCode
		fails  int
		sends  int
		stored bool
	}{
		"off":            {ProducerConfig{}, protocol.ConnectBroker, 1, 1, false},
		"back soon":      {ProducerConfig{RetrySameQueue: true}, protocol.ConnectBroker, 2, 3, true},
		"away":           {ProducerConfig{RetrySameQueue: true, Retries: 1}, protocol.ConnectBroker, 9, 2, false},
		"never":          {ProducerConfig{RetrySameQueue: true, Retries: -1}, protocol.ConnectBroker, 1, 1, false},
		"another answer": {ProducerConfig{RetrySameQueue: true}, protocol.SystemError, 1, 1, false},
		"no answer":      {ProducerConfig{RetrySameQueue: true}, protocol.AccessBrokerTimeout, 1, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b *fakeBroker
			b = &fakeBroker{send: func(req protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
				require.EqualValues(t, 1, req.QueueID)
				if b.sends <= test.fails {
					return protocol.SendMessageResponse{Code: test.code}, &protocol.Error{Code: test.code}
				}
				return protocol.SendMessageResponse{}, nil
			}}
			n := &fakeNames{brokers: map[string]protocol.Broker{"a": b, "b": &fakeBroker{}}}
			n.route = func(string) (protocol.TopicRoute, error) { return routeOf(2, "a", "b"), nil }
			cfg := test.cfg
			cfg.Group, cfg.NameService, cfg.Connect = "g", n, n.connect
			p, err := NewProducer(cfg)
			require.NoError(t, err)
			defer p.Close()
			q := protocol.MessageQueue{Topic: "t", BrokerName: "a", QueueID: 1}
			r, err := p.SendToQueue(t.Context(), text(t, "t", "x"), q)
			require.Equal(t, test.sends, b.sends)
			require.Equal(t, test.stored, err == nil)
			if test.stored {
				require.Equal(t, q, r.Queue)
				require.Equal(t, test.sends, r.Attempts)
				return
			}
			require.Equal(t, test.code, CodeOf(err))
		})
	}
}

// TestBrokerChoosesQueue sends to queue -1, alone, delayed and as a batch.
func TestBrokerChoosesQueue(t *testing.T) {
	h := openHouse(t)
	p := h.producer(t)
	h.createTopic(t, "orders", 3)
	used := map[int32]bool{}
	for range 100 {
		r, err := p.SendToQueue(t.Context(), text(t, "orders", "x"), queue("orders", -1))
		require.NoError(t, err)
		stored, err := h.store.LookMessageByOffset(t.Context(), r.OffsetMsgID.Offset)
		require.NoError(t, err)
		require.Equal(t, stored.QueueID, r.Queue.QueueID, "the result tells which")
		used[r.Queue.QueueID] = true
	}
	require.Len(t, used, 3)
	results, err := p.SendBatchToQueue(t.Context(), []*message.Message{text(t, "orders", "x"), text(t, "orders", "y")}, queue("orders", -1))
	require.NoError(t, err)
	stored, err := h.store.LookMessageByOffset(t.Context(), results[1].OffsetMsgID.Offset)
	require.NoError(t, err)
	require.Equal(t, stored.QueueID, results[1].Queue.QueueID)

	r, err := p.SendToQueue(t.Context(), text(t, "orders", "later", "DELAY", "18"), queue("orders", -1))
	require.NoError(t, err)
	stored, err = h.store.LookMessageByOffset(t.Context(), r.OffsetMsgID.Offset)
	require.NoError(t, err)
	id, _ := stored.Properties.Get("REAL_QID")
	require.Contains(t, []string{"0", "1", "2"}, id, "a message that waits has its queue already")
	require.Equal(t, id, strconv.Itoa(int(r.Queue.QueueID)))
}
