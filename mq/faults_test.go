package mq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

const ms = time.Millisecond

// TestFaultPolicies has every row of both tables, with the last latency before it.
func TestFaultPolicies(t *testing.T) {
	modern, classic := FaultPolicy{}.withDefaults(), ClassicFaults().withDefaults()
	for _, test := range []struct {
		policy  *FaultPolicy
		latency time.Duration
		want    time.Duration
	}{
		{&modern, 0, 0}, {&modern, 50 * ms, 0}, {&modern, 549 * ms, 0}, {&modern, 550 * ms, 2000 * ms},
		{&modern, 1799 * ms, 2000 * ms}, {&modern, 1800 * ms, 5000 * ms}, {&modern, 2999 * ms, 5000 * ms},
		{&modern, 3000 * ms, 6000 * ms}, {&modern, 4999 * ms, 6000 * ms}, {&modern, 5000 * ms, 10000 * ms},
		{&modern, 14999 * ms, 10000 * ms}, {&modern, 15000 * ms, 30000 * ms}, {&modern, time.Hour, 30000 * ms},
		{&classic, 0, 0}, {&classic, 100 * ms, 0}, {&classic, 549 * ms, 0}, {&classic, 550 * ms, 30000 * ms},
		{&classic, 999 * ms, 30000 * ms}, {&classic, 1000 * ms, 60000 * ms}, {&classic, 1999 * ms, 60000 * ms},
		{&classic, 2000 * ms, 120000 * ms}, {&classic, 3000 * ms, 180000 * ms}, {&classic, 14999 * ms, 180000 * ms},
		{&classic, 15000 * ms, 600000 * ms},
	} {
		require.Equal(t, test.want, test.policy.notAvailable(test.latency), "%v", test.latency)
	}
	for i, want := range []time.Duration{10000 * ms, 20000 * ms, 40000 * ms, 60000 * ms, 60000 * ms} {
		require.Equal(t, want, modern.afterFailures(int32(i+1)))
		require.Equal(t, 600000*ms, classic.afterFailures(int32(i+1)))
	}
	require.Equal(t, time.Minute, modern.afterFailures(1<<30))
}

func TestFaultPolicyRefuses(t *testing.T) {
	require.NoError(t, ClassicFaults().validate())
	for _, test := range []struct {
		policy FaultPolicy
		text   string
	}{
		{FaultPolicy{LatencyMax: millis(1, 2), NotAvailable: millis(1)}, "NotAvailable: 1 entries (as many as LatencyMax), limit is 2"},
		{FaultPolicy{LatencyMax: millis(2, 1), NotAvailable: millis(1, 1)}, "LatencyMax"},
		{FaultPolicy{LatencyMax: millis(-1), NotAvailable: millis(1)}, "LatencyMax (negative)"},
		{FaultPolicy{LatencyMax: millis(1), NotAvailable: millis(-1)}, "NotAvailable (negative)"},
		{FaultPolicy{Isolation: -1}, "Isolation (negative)"},
		{FaultPolicy{MaxNotAvailable: -1}, "MaxNotAvailable (negative)"},
	} {
		_, err := NewProducer(ProducerConfig{Group: "g", Faults: test.policy})
		require.ErrorContains(t, err, "Config.Faults."+test.text)
	}
}

// TestOutcomes has what each answer tells about a broker.
func TestOutcomes(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	refused := func(code protocol.ResponseCode, err error) error { return &protocol.Error{Code: code, Err: err} }
	for _, test := range []struct {
		name string
		ctx  context.Context
		err  error
		took time.Duration
		want outcome
	}{
		{"success", t.Context(), nil, ms, answered},
		{"success, canceled", canceled, nil, ms, answered},
		{"not on disk", t.Context(), refused(protocol.FlushDiskTimeout, message.ErrFlushTimeout), ms, answered},
		{"not on disk, canceled", canceled, refused(protocol.FlushDiskTimeout, context.Canceled), ms, unrelated},
		{"canceled", canceled, refused(protocol.SystemError, context.Canceled), time.Hour, unrelated},
		{"sender in a hurry", expired, refused(protocol.SystemError, context.DeadlineExceeded), ms, unrelated},
		{"sender's time over", expired, refused(protocol.SystemError, context.DeadlineExceeded), time.Second, silent},
		{"attempt's time over, stored", t.Context(), refused(protocol.FlushDiskTimeout, context.DeadlineExceeded), ms, silent},
		{"attempt's time over", t.Context(), refused(protocol.SystemError, context.DeadlineExceeded), ms, silent},
		{"no answer", t.Context(), refused(protocol.AccessBrokerTimeout, nil), ms, silent},
		{"no connection", t.Context(), refused(protocol.ConnectBroker, nil), ms, unreached},
		{"busy", t.Context(), refused(protocol.SystemBusy, nil), ms, troubled},
		{"flow control", t.Context(), refused(protocol.FlowControl, nil), ms, troubled},
		{"full", t.Context(), refused(protocol.ServiceNotAvailable, message.ErrDiskFull), ms, troubled},
		{"error", t.Context(), refused(protocol.SystemError, nil), ms, troubled},
		{"going", t.Context(), refused(protocol.GoAway, nil), ms, troubled},
		{"no such queue", t.Context(), refused(protocol.SystemError, &message.LimitError{}), ms, answered},
		{"illegal", t.Context(), refused(protocol.MessageIllegal, nil), ms, answered},
		{"no permission", t.Context(), refused(protocol.NoPermission, nil), ms, answered},
		{"no topic", t.Context(), refused(protocol.TopicNotExist, nil), ms, answered},
		{"no group", t.Context(), refused(protocol.SubscriptionGroupNotExist, nil), ms, answered},
	} {
		require.Equal(t, test.want, outcomeOf(test.ctx, protocol.CodeOf(test.err), test.err, test.took), test.name)
	}
}

// TestReports has the state of a broker after each outcome.
func TestReports(t *testing.T) {
	type report struct {
		o       outcome
		latency time.Duration
	}
	for _, test := range []struct {
		name      string
		reports   []report
		until     time.Duration
		fails     int32
		latency   time.Duration
		reachable bool
	}{
		{"nothing", []report{{unrelated, time.Hour}}, 0, 0, 0, true},
		{"success", []report{{answered, 10 * ms}}, 0, 0, 10 * ms, true},
		{"weighted", []report{{answered, 100 * ms}, {answered, 20 * ms}}, 0, 0, 80 * ms, true},
		{"slow", []report{{answered, 550 * ms}}, 2 * time.Second, 0, 550 * ms, true},
		{"slow, then slower, then not as slow", []report{{answered, 550 * ms}, {answered, 3000 * ms}, {answered, 550 * ms}},
			6 * time.Second, 0, (3*((3*550+3000)*ms/4) + 550*ms) / 4, true},
		{"slow, then fast", []report{{answered, 15000 * ms}, {answered, 0}}, 0, 0, 11250 * ms, true},
		{"troubled", []report{{troubled, 8 * ms}}, 10 * time.Second, 1, 8 * ms, true},
		{"troubled twice", []report{{troubled, 8 * ms}, {troubled, 8 * ms}}, 20 * time.Second, 2, 8 * ms, true},
		{"troubled, then fast", []report{{troubled, 8 * ms}, {answered, 8 * ms}}, 0, 0, 8 * ms, true},
		{"troubled, then slow", []report{{troubled, 0}, {answered, 600 * ms}}, 10 * time.Second, 1, 600 * ms, true},
		{"silent", []report{{silent, 500 * ms}}, 10 * time.Second, 1, 500 * ms, true},
		{"unreached", []report{{unreached, ms}}, 10 * time.Second, 1, 0, false},
		{"unreached, then silent", []report{{unreached, ms}, {silent, ms}}, 20 * time.Second, 2, ms, false},
		{"unreached, then troubled", []report{{unreached, ms}, {troubled, ms}}, 20 * time.Second, 2, ms, true},
		{"unreached, then success", []report{{unreached, ms}, {answered, ms}}, 0, 0, ms, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			start := time.Unix(1000, 0)
			table := newFaultTable(FaultPolicy{ProbeInterval: -1}.withDefaults(), func() time.Time { return start }, nil)
			h := table.healthOf("a", &fakeBroker{})
			for _, r := range test.reports {
				table.report(h, r.o, r.latency)
			}
			require.EqualValues(t, test.until, h.until.Load())
			require.Equal(t, test.fails, h.fails.Load())
			require.EqualValues(t, test.latency, h.latency.Load())
			require.Equal(t, test.reachable, h.reachable(0))
			require.Equal(t, test.until == 0, h.available(0))
			require.True(t, h.available(int64(test.until)))
			require.True(t, h.reachable(int64(test.until)))
		})
	}
}

// state is how a broker is in a test of picks: when its time is over (0 is
// healthy), whether it is reachable, its latency.
type state struct {
	until     int64
	cutOff    bool
	latencyMs int64
}

func TestPick(t *testing.T) {
	healthy, away := state{}, state{until: 10}
	for _, test := range []struct {
		name  string
		a, b  state
		c     state
		tried []string
		want  []string // the brokers that are chosen in the end
	}{
		{"all healthy", healthy, healthy, healthy, nil, []string{"a", "b", "c"}},
		{"one tried", healthy, healthy, healthy, []string{"a"}, []string{"b", "c"}},
		{"two tried", healthy, healthy, healthy, []string{"a", "b"}, []string{"c"}},
		{"one away", away, healthy, healthy, nil, []string{"b", "c"}},
		{"one away, one tried", away, healthy, healthy, []string{"b"}, []string{"c"}},
		{"only the tried is healthy: another first", away, state{until: 5}, healthy, []string{"c"}, []string{"b"}},
		{"the others are cut off: the tried again", state{10, true, 0}, state{5, true, 0}, healthy, []string{"c"}, []string{"c"}},
		{"all tried: not the last", healthy, healthy, healthy, []string{"a", "b", "c"}, []string{"a", "b"}},
		{"all tried, only the last is healthy", away, away, healthy, []string{"a", "b", "c"}, []string{"c"}},
		{"none healthy: the earliest", state{until: 7}, state{until: 5}, state{until: 6}, nil, []string{"b"}},
		{"none healthy, equally early: the fastest", state{5, false, 3}, state{5, false, 2}, state{5, false, 9}, nil, []string{"b"}},
		{"none reachable", state{7, true, 0}, state{6, true, 0}, state{8, true, 0}, []string{"b"}, []string{"b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := published(routeOf(2, "a", "b", "c"))
			states := map[string]state{"a": test.a, "b": test.b, "c": test.c}
			health := map[string]*brokerHealth{}
			for name, s := range states {
				h := &brokerHealth{}
				h.until.Store(s.until)
				h.unreachable.Store(s.cutOff)
				h.latency.Store(s.latencyMs)
				health[name] = h
			}
			for _, q := range r.queues {
				r.health = append(r.health, health[q.BrokerName])
			}
			before := slices.Clone(r.queues)
			hits := map[protocol.MessageQueue]int{}
			for range 60 {
				turn := r.counter.Load()
				hits[r.queues[r.pick(test.tried, 1)]]++
				require.Equal(t, turn+1, r.counter.Load(), "one step of the rotation")
			}
			var brokers []string
			for q := range hits {
				brokers = append(brokers, q.BrokerName)
			}
			slices.Sort(brokers)
			require.Equal(t, test.want, slices.Compact(brokers))
			require.Len(t, hits, 2*len(test.want), "all queues of each")
			require.Equal(t, before, r.queues, "no pick changes the queues")
		})
	}
}

// classicPick is the choice of RocketMQ 4.9.3 with its fault table, faults and
// all. best is the broker that its table has as the least bad.
func classicPick(queues []*protocol.MessageQueue, turn *int, available func(string) bool, stick bool, last, best string) *protocol.MessageQueue {
	*turn++
	for i := range queues {
		q := queues[(*turn+i)%len(queues)]
		if available(q.BrokerName) && (!stick || last == "" || q.BrokerName == last) {
			return q
		}
	}
	*turn++
	q := queues[*turn%len(queues)]
	q.BrokerName, q.QueueID = best, int32(*turn%(len(queues)/2))
	return q
}

// TestClassicFaults shows three faults of RocketMQ's choice and that ours does
// not have them: a retry stays with the broker that failed; a retry does not
// know which one failed; the list of queues is written to.
func TestClassicFaults(t *testing.T) {
	classic := func() []*protocol.MessageQueue {
		var queues []*protocol.MessageQueue
		for _, q := range queuesOf(2, "a", "b") {
			queues = append(queues, &q)
		}
		return queues
	}
	all := func(string) bool { return true }
	none := func(string) bool { return false }
	turn, stuck, again := 0, 0, 0
	for range 40 {
		if classicPick(classic(), &turn, all, true, "a", "b").BrokerName == "a" {
			stuck++
		}
		if classicPick(classic(), &turn, all, false, "a", "b").BrokerName == "a" {
			again++
		}
	}
	require.Equal(t, 40, stuck, "releases before the fix: always the broker that failed")
	require.Positive(t, again, "4.9.3: the broker that failed again")
	queues := classic()
	for range 40 {
		classicPick(queues, &turn, none, false, "", "b")
	}
	distinct := map[protocol.MessageQueue]bool{}
	for _, q := range queues {
		distinct[*q] = true
	}
	require.Less(t, len(distinct), 4, "queues have vanished for every sender, others are there twice")

	r := published(routeOf(2, "a", "b"))
	a, b := &brokerHealth{}, &brokerHealth{}
	r.health = []*brokerHealth{a, a, b, b}
	before := slices.Clone(r.queues)
	for range 40 {
		require.Equal(t, "b", r.queues[r.pick([]string{"a"}, 0)].BrokerName)
	}
	a.until.Store(9)
	b.until.Store(8)
	for range 40 {
		require.Equal(t, "b", r.queues[r.pick(nil, 0)].BrokerName, "the least bad")
	}
	require.Equal(t, before, r.queues)
}

// flaky is a broker that fails as a test wants.
type flaky struct {
	protocol.Broker

	mu      sync.Mutex
	fail    func(context.Context) error // of a send; nil: none
	refuses error                       // what Writable says
	thinks  time.Duration               // before it does

	sends, probes atomic.Int64
}

// set says how sends fail, and what Writable answers.
func (b *flaky) set(fail func(context.Context) error, refuses error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail, b.refuses = fail, refuses
}

func (b *flaky) SendMessage(ctx context.Context, req protocol.SendMessageRequest) (protocol.SendMessageResponse, error) {
	b.sends.Add(1)
	b.mu.Lock()
	fail := b.fail
	b.mu.Unlock()
	if fail != nil {
		if err := fail(ctx); err != nil {
			return protocol.SendMessageResponse{Code: protocol.CodeOf(err)}, err
		}
	}
	if b.Broker == nil {
		return protocol.SendMessageResponse{}, nil
	}
	return b.Broker.SendMessage(ctx, req)
}

func (b *flaky) Writable(context.Context) error {
	b.probes.Add(1)
	b.mu.Lock()
	refuses, thinks := b.refuses, b.thinks
	b.mu.Unlock()
	time.Sleep(thinks)
	return refuses
}

// failing fails every send with err; nil fails none.
func failing(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

// flakyProducer is a producer of brokers a and b. The configuration is
// completed.
func flakyProducer(t *testing.T, cfg ProducerConfig) (p *Producer, a, b *flaky) {
	t.Helper()
	a, b = &flaky{}, &flaky{}
	n := &fakeNames{brokers: map[string]protocol.Broker{"a": a, "b": b}}
	n.route = func(string) (protocol.TopicRoute, error) { return routeOf(2, "a", "b"), nil }
	cfg.Group, cfg.NameService, cfg.Connect = "g", n, n.connect
	p, err := NewProducer(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p, a, b
}

// pass lets the bubble's time go on, and everything that is due happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func sendMany(t *testing.T, p *Producer, n int) (retried int) {
	t.Helper()
	for range n {
		r, err := p.Send(t.Context(), text(t, "t", "x"))
		require.NoError(t, err)
		if r.Attempts > 1 {
			require.Equal(t, []string{"a", "b"}, r.Tried)
			retried++
		} else {
			require.Nil(t, r.Tried)
		}
	}
	return retried
}

// TestAvoid has one broker refuse everything for a while: one message meets it,
// then none, until a probe finds that it is well again.
func TestAvoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, a, b := flakyProducer(t, ProducerConfig{})
		refusal := &protocol.Error{Code: protocol.ServiceNotAvailable, Err: message.ErrDiskFull}
		a.set(failing(refusal), refusal)
		require.Equal(t, 1, sendMany(t, p, 20))
		require.EqualValues(t, 1, a.sends.Load())
		pass(time.Minute)
		require.EqualValues(t, 1+1+1+(60-7)/8, a.probes.Load(), "after 1, 3 and 7 s, and then every 8 s")
		require.Zero(t, sendMany(t, p, 20), "its time would have been over")
		require.EqualValues(t, 1, a.sends.Load())

		a.set(nil, nil)
		pass(8 * time.Second)
		require.Zero(t, sendMany(t, p, 20))
		require.EqualValues(t, 11, a.sends.Load())
		require.EqualValues(t, 50, b.sends.Load())
		probes := a.probes.Load()
		pass(time.Hour)
		require.EqualValues(t, probes, a.probes.Load(), "nobody is asked who is well")
		require.False(t, p.faults.probing)
	})
}

// TestProbeEnds has three ends of the goroutine besides a broker that is well:
// the producer is closed, no route names the broker, the broker has no such call.
func TestProbeEnds(t *testing.T) {
	for name, end := range map[string]func(p *Producer, a *flaky){
		"closed":   func(p *Producer, _ *flaky) { p.Close() },
		"no route": func(p *Producer, _ *flaky) { p.routes.routes.Store(&map[string]*publishRoute{}) },
		"no probe": func(_ *Producer, a *flaky) { a.set(nil, protocol.RequestCodeNotSupported) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, a, _ := flakyProducer(t, ProducerConfig{})
				a.set(failing(&protocol.Error{Code: protocol.ConnectBroker}), errors.New("down"))
				require.Equal(t, 1, sendMany(t, p, 8))
				pass(3500 * ms)
				require.EqualValues(t, 2, a.probes.Load())
				require.True(t, p.faults.probing)
				end(p, a)
				pass(time.Hour)
				require.False(t, p.faults.probing)
				require.LessOrEqual(t, a.probes.Load(), int64(3))
			})
		})
	}
}

// lostBroker is a producer one of whose brokers failed, and leaves the routes with
// the next send.
func lostBroker(t *testing.T) (p *Producer, a *flaky, names *fakeNames) {
	t.Helper()
	p, a, _ = flakyProducer(t, ProducerConfig{})
	refusal := &protocol.Error{Code: protocol.ServiceNotAvailable, Err: message.ErrClosed}
	a.set(failing(refusal), refusal)
	require.Equal(t, 1, sendMany(t, p, 8))
	names = p.routes.names.(*fakeNames)
	names.route = func(string) (protocol.TopicRoute, error) { return routeOf(2, "b"), nil }
	p.routes.outdated()
	return p, a, names
}

// TestProbeWaitsForTheRoute has a broker come back with the first of two topics,
// and the name service take its time for the second one.
func TestProbeWaitsForTheRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, a, names := lostBroker(t)
		use := func() {
			for _, topic := range []string{"t", "u"} {
				_, err := p.Send(t.Context(), text(t, topic, "x"))
				require.NoError(t, err)
			}
		}
		use()
		pass(8 * time.Second)
		require.False(t, p.faults.probing)
		probes := a.probes.Load()

		a.set(nil, nil)
		use()
		asked := 0
		names.route = func(string) (protocol.TopicRoute, error) {
			if asked++; asked == 1 {
				return routeOf(2, "a", "b"), nil
			}
			time.Sleep(time.Second)
			return routeOf(2, "b"), nil
		}
		p.routes.refreshUsed(t.Context(), p.now())
		pass(ms)
		require.Equal(t, 2, asked)
		require.EqualValues(t, probes+1, a.probes.Load())
	})
}

// TestProbeOfOneThatCameBack: a broker that failed and left the routes is asked as
// soon as a route names it again, whatever is left of its time.
func TestProbeOfOneThatCameBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, a, names := lostBroker(t)
		require.Zero(t, sendMany(t, p, 8))
		pass(8 * time.Second)
		require.False(t, p.faults.probing)
		probes := a.probes.Load()

		a.set(nil, nil)
		a.thinks = ms
		names.route = func(string) (protocol.TopicRoute, error) { return routeOf(2, "a", "b"), nil }
		p.routes.outdated()
		require.Zero(t, sendMany(t, p, 1), "it has not answered yet")
		require.EqualValues(t, 1, a.sends.Load())
		pass(ms)
		require.EqualValues(t, probes+1, a.probes.Load())
		require.Zero(t, sendMany(t, p, 20))
		require.EqualValues(t, 11, a.sends.Load())
		p.routes.outdated()
		require.Zero(t, sendMany(t, p, 20))
		pass(time.Hour)
		require.EqualValues(t, probes+1, a.probes.Load(), "once")
	})
}

// TestAvoidWithoutProbe lets a message find out.
func TestAvoidWithoutProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, a, _ := flakyProducer(t, ProducerConfig{Faults: FaultPolicy{ProbeInterval: -1}})
		a.set(failing(&protocol.Error{Code: protocol.SystemError}), nil)
		require.Equal(t, 1, sendMany(t, p, 20))
		pass(10 * time.Second)
		require.Equal(t, 1, sendMany(t, p, 20))
		pass(10 * time.Second)
		require.Zero(t, sendMany(t, p, 20), "twice as long after the second failure")
		a.set(nil, nil)
		pass(10 * time.Second)
		require.Zero(t, sendMany(t, p, 20))
		require.EqualValues(t, 12, a.sends.Load())
		require.Zero(t, a.probes.Load())
	})
}

// TestAvoidSlow keeps away from a broker that stores, but not in time. No probe
// shortens that.
func TestAvoidSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, a, _ := flakyProducer(t, ProducerConfig{})
		a.set(func(context.Context) error { time.Sleep(600 * ms); return nil }, nil)
		require.Zero(t, sendMany(t, p, 20))
		require.EqualValues(t, 1, a.sends.Load())
		pass(1500 * ms)
		require.Zero(t, sendMany(t, p, 20))
		require.EqualValues(t, 1, a.sends.Load())
		require.Zero(t, a.probes.Load())
		pass(500 * ms)
		require.Zero(t, sendMany(t, p, 20))
		require.EqualValues(t, 2, a.sends.Load())
	})
}

// TestFairShare has a broker that never answers, and a sender with three
// seconds and three attempts: the first takes one of them.
func TestFairShare(t *testing.T) {
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return &protocol.Error{Code: protocol.SystemError, Err: ctx.Err()}
	}
	for _, test := range []struct {
		name    string
		cfg     ProducerConfig
		timeout time.Duration
		want    time.Duration // of the first attempt
	}{
		{"a third", ProducerConfig{}, 3 * time.Second, time.Second},
		{"at least", ProducerConfig{}, 900 * ms, 500 * ms},
		{"given", ProducerConfig{AttemptTimeout: 20 * ms}, 3 * time.Second, 20 * ms},
		{"given, no deadline", ProducerConfig{AttemptTimeout: 20 * ms}, time.Hour, 20 * ms},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, a, _ := flakyProducer(t, test.cfg)
				a.set(hang, nil)
				retried := 0
				for range 4 {
					ctx, cancel := context.WithTimeout(t.Context(), test.timeout)
					began := time.Now()
					r, err := p.Send(ctx, text(t, "t", "x"))
					cancel()
					require.NoError(t, err)
					if r.Attempts == 2 {
						require.Equal(t, test.want, time.Since(began))
						retried++
					}
				}
				require.Equal(t, 1, retried)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		p, a, b := flakyProducer(t, ProducerConfig{})
		a.set(hang, nil)
		b.set(hang, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := p.Send(ctx, text(t, "t", "x"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, protocol.AccessBrokerTimeout, CodeOf(err))
		require.EqualValues(t, 3, a.sends.Load()+b.sends.Load())
		var sendErr *SendError
		require.ErrorAs(t, err, &sendErr)
		require.Len(t, sendErr.Tried, 3)
	})
}

// TestBusyPause has the only broker with too much to do: it is asked again after
// pauses, and not for ever.
func TestBusyPause(t *testing.T) {
	for _, busy := range []*protocol.Error{
		{Code: protocol.SystemBusy}, {Code: protocol.FlowControl},
		{Code: protocol.SystemError, Remark: "[PC_SYNCHRONIZED]broker busy, start flow control for a while"},
	} {
		t.Run(fmt.Sprint(busy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &flaky{fail: failing(busy)}
				n := &fakeNames{brokers: map[string]protocol.Broker{"a": a}}
				n.route = func(string) (protocol.TopicRoute, error) { return routeOf(2, "a"), nil }
				p, err := NewProducer(ProducerConfig{Group: "g", NameService: n, Connect: n.connect, Retries: 5})
				require.NoError(t, err)
				defer p.Close()
				began := time.Now()
				_, err = p.Send(t.Context(), text(t, "t", "x"))
				require.ErrorIs(t, err, busy)
				require.EqualValues(t, 6, a.sends.Load())
				require.InDelta(t, (50+100+200+400+400)*ms, time.Since(began), float64(230*ms))

				ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
				defer cancel()
				_, err = p.Send(ctx, text(t, "t", "x"))
				require.ErrorIs(t, err, busy)
				require.EqualValues(t, 8, a.sends.Load())
			})
		})
	}
}

func TestRetryNotStoreOK(t *testing.T) {
	late := &protocol.Error{Code: protocol.FlushDiskTimeout, Err: message.ErrFlushTimeout}
	for _, test := range []struct {
		name      string
		bErr      error
		status    SendStatus
		tried     []string
		errBroker string // of the error, "" for none
	}{
		{"kept by the other", nil, SendOK, []string{"a", "b"}, ""},
		{"kept by none", &protocol.Error{Code: protocol.FlushSlaveTimeout}, SendFlushSlaveTimeout, nil, "a"},
		{"stored by one", &protocol.Error{Code: protocol.MessageIllegal}, SendFlushDiskTimeout, nil, "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, a, b := flakyProducer(t, ProducerConfig{RetryNotStoreOK: true})
			a.set(failing(late), nil)
			b.set(failing(test.bErr), nil)
			met := false
			for range 4 {
				a.sends.Store(0)
				b.sends.Store(0)
				r, err := p.Send(t.Context(), text(t, "t", "x"))
				if a.sends.Load() == 0 || b.sends.Load() == 0 || r.Tried != nil && r.Tried[0] == "b" {
					continue
				}
				met = true
				require.Equal(t, test.status == SendOK, err == nil)
				if test.name == "kept by none" {
					require.True(t, r.Status != SendOK && r.Status != SendNotStored)
					continue
				}
				require.Equal(t, test.status, r.Status)
				if test.tried != nil {
					require.Equal(t, test.tried, r.Tried)
				}
				if test.errBroker != "" {
					require.ErrorIs(t, err, late, "the error of the attempt that stored it")
					require.Equal(t, test.errBroker, r.Queue.BrokerName)
					require.Equal(t, protocol.FlushDiskTimeout, CodeOf(err))
				}
			}
			require.True(t, met)
		})
	}
}

// TestLateSync has a broker whose disk hangs: what waits for its sync when the
// attempt's time is over goes to another broker, without RetryNotStoreOK. When
// that does not take it either, the message is stored, and the error says so.
func TestLateSync(t *testing.T) {
	for _, test := range []struct {
		name   string
		bErr   error
		want   SendStatus
		broker string
	}{
		{"kept by the other", nil, SendOK, "b"},
		{"by none", &protocol.Error{Code: protocol.MessageIllegal}, SendFlushDiskTimeout, "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, a, b := flakyProducer(t, ProducerConfig{AttemptTimeout: 100 * ms})
				a.set(func(ctx context.Context) error {
					<-ctx.Done()
					return &protocol.Error{Code: protocol.FlushDiskTimeout, Err: ctx.Err()}
				}, errors.New("it hangs"))
				b.set(failing(test.bErr), nil)
				for a.sends.Load() == 0 {
					b.sends.Store(0)
					began := time.Now()
					r, err := p.Send(t.Context(), text(t, "t", "x"))
					if a.sends.Load() == 0 {
						continue
					}
					require.Equal(t, test.want, r.Status)
					require.Equal(t, test.broker, r.Queue.BrokerName)
					require.Equal(t, 100*ms, time.Since(began))
					require.EqualValues(t, 1, b.sends.Load())
					if test.want == SendOK {
						require.NoError(t, err)
						require.Equal(t, []string{"a", "b"}, r.Tried)
					} else {
						require.ErrorIs(t, err, context.DeadlineExceeded)
						require.Equal(t, protocol.FlushDiskTimeout, CodeOf(err))
					}
				}
				pass(5 * time.Second)
				for range 8 {
					_, _ = p.Send(t.Context(), text(t, "t", "x"))
				}
				require.EqualValues(t, 1, a.sends.Load(), "it is kept away from, and no probe ends that")
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // the sender's own time: nobody waits for another broker
		p, a, b := flakyProducer(t, ProducerConfig{Retries: -1})
		late := func(ctx context.Context) error {
			<-ctx.Done()
			return &protocol.Error{Code: protocol.FlushDiskTimeout, Err: ctx.Err()}
		}
		a.set(late, nil)
		b.set(late, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := p.Send(ctx, text(t, "t", "x"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, SendFlushDiskTimeout, r.Status)
		require.EqualValues(t, 1, a.sends.Load()+b.sends.Load())
	})
}

// TestRetryCodes retries an answer only where it is told to.
func TestRetryCodes(t *testing.T) {
	const code = protocol.SubscriptionGroupNotExist
	for retry, want := range map[bool]int{false: 1, true: 2} {
		cfg := ProducerConfig{}
		if retry {
			cfg.RetryCodes = []protocol.ResponseCode{code}
		}
		p, a, b := flakyProducer(t, cfg)
		a.set(failing(&protocol.Error{Code: code}), nil)
		b.set(failing(&protocol.Error{Code: code}), nil)
		p.retries = 1
		_, err := p.Send(t.Context(), text(t, "t", "x"))
		require.ErrorIs(t, err, code)
		require.Equal(t, code, CodeOf(err))
		require.EqualValues(t, want, a.sends.Load()+b.sends.Load())
	}
}
