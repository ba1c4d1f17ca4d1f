package mq

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/broker"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

func TestClientID(t *testing.T) {
	require.Equal(t, "127.0.0.1@shop", clientID("shop", ""))
	require.Equal(t, "127.0.0.1@shop@unit1", clientID("shop", "unit1"))
	names := map[string]bool{}
	for range 1000 {
		name := newInstanceName()
		require.Regexp(t, `^\d+#\d+$`, name)
		require.NoError(t, checkInstanceName("InstanceName", name))
		names[name] = true
	}
	require.Len(t, names, 1000, "also within one tick of the clock")
}

// member makes a producer whose broker is a register.
func member(t *testing.T, names *broker.NameService, cfg ProducerConfig) (*Producer, error) {
	t.Helper()
	cfg.NameService, cfg.Connect = names, names.Connect
	p, err := NewProducer(cfg)
	if err == nil {
		t.Cleanup(func() { p.Close() })
	}
	return p, err
}

func (r *register) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for id := range r.clients {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// TestProducersShareAClient goes through the life of an instance.
func TestProducersShareAClient(t *testing.T) {
	var names, others broker.NameService
	var known, elsewhere register
	known.join(t, &names, "a")
	elsewhere.join(t, &others, "a")
	const id = "127.0.0.1@shop@u"
	of := func(group string) ProducerConfig {
		return ProducerConfig{Group: group, InstanceName: "shop", UnitName: "u"}
	}
	orders, err := member(t, &names, of("orders"))
	require.NoError(t, err)
	require.Equal(t, []string{"orders"}, known.groups(id))

	bills, err := member(t, &names, of("bills"))
	require.NoError(t, err)
	require.Same(t, orders.instance, bills.instance)
	require.Equal(t, []string{"bills", "orders"}, known.groups(id))

	_, err = member(t, &names, of("orders"))
	require.ErrorIs(t, err, ErrGroupExists)
	require.EqualError(t, err, "the producer group has been created before: orders, in the client "+id)
	require.Equal(t, protocol.NoCode, CodeOf(err))
	require.Equal(t, StateRunning, orders.State(), "the first one is not touched")

	cfg := of("orders")
	cfg.Namespace = "ns"
	wrapped, err := member(t, &names, cfg)
	require.NoError(t, err, "a group of another namespace is another group")
	require.Equal(t, []string{"bills", "ns%orders", "orders"}, known.groups(id))

	far, err := member(t, &others, of("orders"))
	require.NoError(t, err, "a client of other brokers is another client")
	require.NotSame(t, orders.instance, far.instance)
	require.Equal(t, []string{"orders"}, elsewhere.groups(id))

	require.NoError(t, orders.Close())
	require.Equal(t, []string{"bills", "ns%orders"}, known.groups(id))
	require.NoError(t, wrapped.Close())
	require.NoError(t, bills.Close())
	require.Empty(t, known.ids(), "the last one takes the client along")
	require.Equal(t, []string{id}, elsewhere.ids())

	again, err := member(t, &names, of("orders"))
	require.NoError(t, err)
	require.NotSame(t, orders.instance, again.instance)
	require.Equal(t, []string{"orders"}, known.groups(id))
	require.NoError(t, again.Close())
	require.NoError(t, far.Close())
	require.Empty(t, instances.byKey)
}

// TestUnnamedProducersAreClientsOfTheirOwn also takes RocketMQ's default name.
func TestUnnamedProducersAreClientsOfTheirOwn(t *testing.T) {
	var names broker.NameService
	var known register
	known.join(t, &names, "a")
	for _, name := range []string{"", "", "DEFAULT", "DEFAULT"} {
		_, err := member(t, &names, ProducerConfig{Group: "orders", InstanceName: name})
		require.NoError(t, err)
	}
	require.Len(t, known.ids(), 4)
	for _, id := range known.ids() {
		require.Regexp(t, `^127\.0\.0\.1@\d+#\d+$`, id)
	}
}

// slowToForget is a register that says when it is to forget a client, and then
// waits.
type slowToForget struct {
	register

	begun, end chan struct{}
}

func (r *slowToForget) UnregisterClient(ctx context.Context, id string) error {
	close(r.begun)
	<-r.end
	return r.register.UnregisterClient(ctx, id)
}

// TestCloseWhileTheLastOneCloses: who leaves a client that is about to end is
// known no more when its Close returns, no less than the last one.
func TestCloseWhileTheLastOneCloses(t *testing.T) {
	known := &slowToForget{register{clients: map[string][]string{}}, make(chan struct{}), make(chan struct{})}
	names := &fakeNames{brokers: map[string]protocol.Broker{"a": known}}
	list := func() ([]protocol.BrokerData, error) { return []protocol.BrokerData{{Name: "a"}}, nil }
	names.list = list
	cfg := ProducerConfig{
		Group: "first", InstanceName: "shop", NameService: names, Connect: names.connect, RouteInterval: time.Hour,
	}
	first, err := NewProducer(cfg)
	require.NoError(t, err)
	cfg.Group = "last"
	last, err := NewProducer(cfg)
	require.NoError(t, err)
	require.Equal(t, []string{"first", "last"}, known.groups("127.0.0.1@shop"))

	leaving, closed := make(chan struct{}), make(chan error, 2)
	names.list = func() ([]protocol.BrokerData, error) {
		close(leaving)
		<-known.begun
		return list()
	}
	var left atomic.Bool
	go func() {
		err := first.Close()
		left.Store(true)
		closed <- err
	}()
	<-leaving
	go func() { closed <- last.Close() }()
	<-known.begun
	for range 100_000 { // a chance to return too early
		runtime.Gosched()
	}
	require.False(t, left.Load(), "the broker still knows it")
	close(known.end)
	require.NoError(t, <-closed)
	require.NoError(t, <-closed)
	require.Empty(t, known.groups("127.0.0.1@shop"))
}

// TestJoinAndLeaveAtOnce has one client end and begin again all the time. Whoever
// is there is known.
func TestJoinAndLeaveAtOnce(t *testing.T) {
	var names broker.NameService
	var known register
	known.join(t, &names, "a")
	var wg sync.WaitGroup
	for _, group := range []string{"a", "b", "c"} {
		wg.Go(func() {
			for range 100 {
				p, err := NewProducer(ProducerConfig{
					Group: group, InstanceName: "shop", NameService: &names, Connect: names.Connect,
				})
				if err != nil {
					t.Error(err)
					return
				}
				if !slices.Contains(known.groups("127.0.0.1@shop"), group) {
					t.Errorf("group %s is not known", group)
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
				if slices.Contains(known.groups("127.0.0.1@shop"), group) {
					t.Errorf("group %s is still known", group)
				}
			}
		})
	}
	wg.Wait()
	require.Empty(t, known.ids())
}

// incomparable is a name service that can be no key of a map.
type incomparable struct {
	protocol.NameService

	_ func()
}

func TestInstanceNamesRefused(t *testing.T) {
	var names broker.NameService
	for text, cfg := range map[string]ProducerConfig{
		"Config.InstanceName": {InstanceName: "a b"},
		`"a@b"`:               {InstanceName: "a@b"},
		"Config.UnitName":     {UnitName: "ä"},
		"Config.UnitName: 256 bytes, limit is 255":        {UnitName: strings.Repeat("u", 256)},
		"NameService \"\": can not be compared with that": {InstanceName: "a", NameService: incomparable{NameService: &names}},
	} {
		cfg.Group, cfg.Connect = "g", names.Connect
		if cfg.NameService == nil {
			cfg.NameService = &names
		}
		_, err := NewProducer(cfg)
		require.ErrorContains(t, err, text)
	}
	p, err := NewProducer(ProducerConfig{Group: "g", NameService: incomparable{NameService: &names}, Connect: names.Connect})
	require.NoError(t, err, "without a name there is nothing to compare")
	require.NoError(t, p.Close())
}

// TestInstanceTicks has the client registered again and the routes in use
// refreshed at each interval, and neither after the end.
func TestInstanceTicks(t *testing.T) {
	var names broker.NameService
	var known register
	known.join(t, &names, "a")
	var also atomic.Int64
	p := presence{
		names: &names, connect: names.Connect, interval: time.Millisecond, log: slog.New(slog.DiscardHandler),
		request: func() protocol.RegisterClientRequest { return protocol.RegisterClientRequest{ClientID: "me"} },
		also:    func(context.Context) { also.Add(1) },
	}
	p.start(t.Context())
	<-known.told
	known.mu.Lock()
	clear(known.clients) // it lost its memory
	known.mu.Unlock()
	<-known.told
	<-known.told
	require.Positive(t, also.Load())
	require.NoError(t, p.close())
	require.Empty(t, known.ids())
	n := also.Load()
	p.update(t.Context())
	require.Empty(t, known.ids(), "a client that is closed is not made known again")
	require.Equal(t, n, also.Load())
}

// TestCheckTransactionStateByGroup asks an instance about transactions.
func TestCheckTransactionStateByGroup(t *testing.T) {
	var names broker.NameService
	errOwn := errors.New("own")
	var asked []string
	cfg := ProducerConfig{Group: "orders", InstanceName: "shop", NameService: &names, Connect: names.Connect}
	p, err := newProducer(cfg, func(_ context.Context, req protocol.CheckTransactionStateRequest) error {
		asked = append(asked, req.Group)
		return errOwn
	})
	require.NoError(t, err)
	defer p.Close()
	plain, err := member(t, &names, ProducerConfig{Group: "plain", InstanceName: "shop"})
	require.NoError(t, err)
	require.Same(t, p.instance, plain.instance)
	check := func(group string) error {
		return p.instance.CheckTransactionState(t.Context(), protocol.CheckTransactionStateRequest{Group: group})
	}
	require.ErrorIs(t, check("orders"), errOwn)
	for _, group := range []string{"plain", "nobody"} {
		require.ErrorIs(t, check(group), protocol.SystemError)
		require.ErrorContains(t, check(group), group)
	}
	require.Equal(t, []string{"orders"}, asked)
}

// TestNameServiceDown makes a producer that nobody can be told of.
func TestNameServiceDown(t *testing.T) {
	n := &fakeNames{brokers: map[string]protocol.Broker{}, list: func() ([]protocol.BrokerData, error) { return nil, message.ErrClosed }}
	p, err := NewProducer(ProducerConfig{Group: "g", NameService: n, Connect: n.connect})
	require.NoError(t, err)
	require.Equal(t, StateRunning, p.State())
	require.NoError(t, p.Close())
}
