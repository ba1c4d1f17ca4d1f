package mq

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// FaultPolicy says when a producer keeps away from a broker, where a topic has
// more than one: after an answer that took LatencyMax[i] or longer, for
// NotAvailable[i], and after a failure as if an answer had taken Isolation. The
// zero value is the policy of RocketMQ 5, in milliseconds:
//
//	latency     50  100   550  1800  3000   5000  15000
//	kept away    0    0  2000  5000  6000  10000  30000
//
// Source: RocketMQ client/latency/MQFaultStrategy.java.
type FaultPolicy struct {
	// Off makes a send know only of its own failed attempts.
	Off bool
	// LatencyMax, which ascends, and NotAvailable have equal length.
	LatencyMax, NotAvailable []time.Duration
	// Isolation is the latency that a failure counts as: 10 s when zero. What
	// follows from it doubles with each failure in a row.
	Isolation time.Duration
	// MaxNotAvailable limits the time after failures: 60 s when zero.
	MaxNotAvailable time.Duration
	// ProbeInterval is how long after a failure, and then how often, a broker is
	// asked whether it takes messages again, by protocol.Broker.Writable: 1 s
	// when zero, and up to eight times as long while it goes on refusing.
	// Negative: never; then a message tries it when its time is over.
	ProbeInterval time.Duration
}

// ClassicFaults is the policy of RocketMQ 4.9.3, in milliseconds:
//
//	latency     50  100    550   1000    2000    3000   15000
//	kept away    0    0  30000  60000  120000  180000  600000
//
// One failure keeps a producer away from a broker for ten minutes, unless a
// probe ends it.
func ClassicFaults() FaultPolicy {
	return FaultPolicy{
		LatencyMax:      millis(50, 100, 550, 1000, 2000, 3000, 15000),
		NotAvailable:    millis(0, 0, 30000, 60000, 120000, 180000, 600000),
		Isolation:       30 * time.Second,
		MaxNotAvailable: 10 * time.Minute,
	}
}

func millis(ms ...int) []time.Duration {
	ds := make([]time.Duration, len(ms))
	for i, n := range ms {
		ds[i] = time.Duration(n) * time.Millisecond
	}
	return ds
}

func (f FaultPolicy) withDefaults() FaultPolicy {
	if len(f.LatencyMax) == 0 && len(f.NotAvailable) == 0 {
		f.LatencyMax = millis(50, 100, 550, 1800, 3000, 5000, 15000)
		f.NotAvailable = millis(0, 0, 2000, 5000, 6000, 10000, 30000)
	}
	setDefault(&f.Isolation, 10*time.Second)
	setDefault(&f.MaxNotAvailable, time.Minute)
	setDefault(&f.ProbeInterval, time.Second)
	f.LatencyMax, f.NotAvailable = slices.Clone(f.LatencyMax), slices.Clone(f.NotAvailable)
	return f
}

func (f FaultPolicy) validate() error {
	var errs []error
	if a, b := len(f.LatencyMax), len(f.NotAvailable); a != b {
		errs = append(errs, &message.LimitError{Field: "Config.Faults.NotAvailable", Limit: int64(a), Value: int64(b), Unit: "entries (as many as LatencyMax)"})
	}
	if !slices.IsSorted(f.LatencyMax) {
		errs = append(errs, &message.IllegalError{Field: "Config.Faults.LatencyMax", Reason: "does not ascend"})
	}
	for name, d := range map[string]time.Duration{
		"Isolation": f.Isolation, "MaxNotAvailable": f.MaxNotAvailable,
		"LatencyMax": least(f.LatencyMax), "NotAvailable": least(f.NotAvailable),
	} {
		if d < 0 {
			errs = append(errs, negative("Faults."+name, int64(d)))
		}
	}
	return errors.Join(errs...)
}

func least(ds []time.Duration) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	return slices.Min(ds)
}

// notAvailable is how long to keep away from a broker after such an answer.
func (f *FaultPolicy) notAvailable(latency time.Duration) time.Duration {
	for i := len(f.LatencyMax) - 1; i >= 0; i-- {
		if latency >= f.LatencyMax[i] {
			return f.NotAvailable[i]
		}
	}
	return 0
}

// afterFailures is how long to keep away after so many failures in a row.
func (f *FaultPolicy) afterFailures(n int32) time.Duration {
	return min(f.notAvailable(f.Isolation)<<min(n-1, 20), f.MaxNotAvailable)
}

// outcome is what an attempt tells about its broker.
type outcome uint8

const (
	unrelated outcome = iota // nothing: the sender gave up
	answered                 // it works: it stored the message, or refused it for what it is
	troubled                 // it said that it can not
	silent                   // it did not answer in time
	unreached                // there is no connection to it
)

// brokerHealth is what a producer knows about a broker. Reading it takes no
// lock; times count from the table's start.
type brokerHealth struct {
	latency     atomic.Int64 // ns, weighted
	until       atomic.Int64 // ns: kept away from before
	fails       atomic.Int32 // in a row
	unreachable atomic.Bool
	probed      atomic.Bool  // it failed, and a probe may end its time, or lengthen it
	trial       atomic.Int64 // ns: a send finds out how it is, which takes no longer than until then

	// Guarded by the table's mutex.
	broker  protocol.Broker
	probeAt int64
	gone    bool // no route named it when it was to be asked
}

// available reports whether a broker is one to choose. When the time of one is
// over it is, whatever it was before, for one send; the others wait for what
// becomes of that, or a broker that is still slow would hold up all of them.
func (h *brokerHealth) available(now int64) bool {
	until := h.until.Load()
	return until == 0 || now >= until && now >= h.trial.Load()
}

// tryOut makes a send that chose the broker the one that finds out, if its time is
// over and no other one is. Of two at once only one is, though both go there.
func (h *brokerHealth) tryOut(now int64) bool {
	if until := h.until.Load(); until == 0 || now < until {
		return false
	}
	trial := h.trial.Load()
	return now >= trial && h.trial.CompareAndSwap(trial, now+int64(longestTrial))
}

// longestTrial is when another send finds out, should the first one never end.
const longestTrial = time.Minute

func (h *brokerHealth) reachable(now int64) bool { return !h.unreachable.Load() || h.available(now) }

// over has the time of a broker be over, as far as is known.
func (h *brokerHealth) over(now int64) { h.until.Store(max(now, 1)) }

// compare has first what is the better choice where none is a good one.
func (h *brokerHealth) compare(other *brokerHealth) int {
	return cmp.Or(
		cmp.Compare(h.until.Load(), other.until.Load()),
		cmp.Compare(h.latency.Load(), other.latency.Load()),
		cmp.Compare(h.fails.Load(), other.fails.Load()),
	)
}

// sample adds a latency to the weighted one. Of two at once one may get lost.
func (h *brokerHealth) sample(latency time.Duration) {
	if old := h.latency.Load(); old > 0 {
		latency = (3*time.Duration(old) + latency) / 4
	}
	h.latency.Store(int64(latency))
}

// faultTable has the health of a producer's brokers. While a broker is kept
// away from after a failure, a goroutine asks it whether it takes messages again.
type faultTable struct {
	policy FaultPolicy
	now    func() time.Time
	start  time.Time
	inUse  func(broker string) bool // whether any route names it

	mu      sync.Mutex
	brokers map[string]*brokerHealth
	probing bool // the goroutine runs
	wake    chan struct{}
	ctx     context.Context // ends with close
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

func newFaultTable(policy FaultPolicy, now func() time.Time, inUse func(string) bool) *faultTable {
	t := &faultTable{
		policy: policy, now: now, start: now(), inUse: inUse,
		brokers: map[string]*brokerHealth{}, wake: make(chan struct{}, 1),
	}
	t.ctx, t.stop = context.WithCancel(context.Background())
	return t
}

// at is a time as the health of brokers has it.
func (t *faultTable) at(now time.Time) int64 { return int64(now.Sub(t.start)) }

// healthOf finds or makes the health of a broker that a route names, and that b
// connects to.
func (t *faultTable) healthOf(name string, b protocol.Broker) *brokerHealth {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.brokers[name]
	if h == nil {
		h = &brokerHealth{}
		t.brokers[name] = h
	}
	h.broker = b
	return h
}

// report takes the outcome of an attempt that took so long.
func (t *faultTable) report(h *brokerHealth, o outcome, latency time.Duration) {
	if o == unrelated {
		return
	}
	if o != unreached {
		h.sample(latency)
	}
	if o != answered {
		t.failed(h, o)
		return
	}
	avoid := t.policy.notAvailable(latency)
	if avoid == 0 && h.until.Load() == 0 && h.fails.Load() == 0 {
		return // as nearly always
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	h.unreachable.Store(false)
	h.probed.Store(false)
	if avoid == 0 {
		h.until.Store(0)
		h.fails.Store(0)
		return
	}
	h.until.Store(max(h.until.Load(), t.at(t.now())+int64(avoid)))
}

// failed keeps away from a broker.
func (t *faultTable) failed(h *brokerHealth, o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch o {
	case unreached:
		h.unreachable.Store(true)
	case troubled:
		h.unreachable.Store(false)
	}
	t.isolate(h)
	if t.policy.ProbeInterval > 0 && t.ctx.Err() == nil {
		h.probed.Store(true)
		t.probeSoon()
	}
}

// isolate counts a failure. The mutex is held.
func (t *faultTable) isolate(h *brokerHealth) {
	fails := h.fails.Add(1)
	now := t.at(t.now())
	h.until.Store(max(h.until.Load(), now+int64(t.policy.afterFailures(fails))))
	h.probeAt = now + int64(t.policy.ProbeInterval)<<min(fails-1, 3)
}
