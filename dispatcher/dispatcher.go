// Package dispatcher follows a log in order and feeds what is derived from it:
// consume queues, an index, whoever waits for arrivals. RocketMQ calls it reput.
// It knows neither log nor queue, only a Source and Sinks.
//
// Laws of the package:
//
//   - Every record is given to every sink, in log order, by one goroutine at a
//     time: its own, or that of the dispatcher that it follows.
//   - The position moves past a record only after all sinks have taken it and
//     completed what they make of it, so a record may be given twice (after an
//     error, or a restart) but is never left out. Sinks ignore what they already
//     have.
//   - Nothing polls: Notify wakes the goroutine when it sleeps, and who waits
//     for a record gets it at once.
package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/message"
)

// Source is the log.
type Source interface {
	// End is the end of what may be dispatched now: the end of a record. It
	// never decreases, and is called by any goroutine.
	End() message.LogOffset
	// Scan calls visit for each record in [from, to), in order, from the
	// calling goroutine. to is the end of a record. The request and its memory
	// are valid during the call only. Scan returns the position after the last
	// record whose visit returned nil, and the first error.
	Scan(from, to message.LogOffset, visit func(*message.DispatchRequest) error) (message.LogOffset, error)
}

// Sink takes records.
type Sink interface {
	// Dispatch takes one record. It is called by one goroutine at a time, in
	// log order, possibly again for a record that it has taken before. It must
	// not keep the request or its memory. What it makes of the record may wait for
	// Complete. After an error the records since the last Complete come again, to
	// all sinks.
	Dispatch(*message.DispatchRequest) error

	// Complete ends a run of at most 128 records, which are passed when it returns
	// nil. It is called like Dispatch, of the sinks in their order.
	Complete() error
}

// Config wires a Dispatcher.
type Config struct {
	Source Source
	Sinks  []Sink // called in this order for each record
	From   message.LogOffset

	// Awaited, if not nil, tells whether somebody waits for the next record;
	// then it is dispatched at once. Otherwise records may gather for a tenth
	// of a millisecond while more keep coming. Called from the dispatcher's
	// goroutine.
	Awaited func() bool

	// Failed, if not nil, is told about each failed attempt: the position that
	// could not be passed, and why. Called from the dispatcher's goroutine, or, of a
	// follower, from that of the other one.
	Failed func(message.LogOffset, error)

	// Follower, if not nil, is another Dispatcher of the same log. As long as it is
	// where this one is, it is given each record that this one has dispatched, so
	// that the log is read once; when it is elsewhere, its sinks fail, or would
	// have to wait, it goes its own way and holds up nobody. Close the follower
	// first.
	Follower *Dispatcher

	// Try is what a Follower gives its records to in the goroutine of the other one:
	// it does what its sinks do, and completes that, unless it would have to wait for
	// a disk or a lock; then it reports that it has not taken the record.
	Try func(*message.DispatchRequest) (taken bool, err error)

	// Passed, if not nil, is told each time that Position has moved past records:
	// how many, at most 128, and when the first of them was stored, in ms. Called
	// like Failed. It must not panic.
	Passed func(records int, stored int64)
}

// Dispatcher moves records from a Source to Sinks. Its methods may be called
// concurrently.
type Dispatcher struct {
	cfg   Config
	visit func(*message.DispatchRequest) error // d.dispatch, made once

	idle atomic.Bool // the goroutine sleeps, or is about to
	kick chan struct{}

	_        [64]byte     // what the writer reads for each record is apart from what is written for each
	position atomic.Int64 // end of what was dispatched, as far as told
	_        [64]byte

	leader atomic.Pointer[Dispatcher] // nil if there is none
	stuck  atomic.Bool                // the last attempt failed

	turn    sync.Mutex // held by who dispatches: the goroutine in a round, or that of the leader; guards what follows
	next    int64      // end of what was given to the sinks
	taken   int        // records since position was told
	stored  int64      // when the first of them was stored, ms
	leading bool       // the follower's turn is held, too

	timer    *time.Timer // of the goroutine
	stop     chan struct{}
	stopOnce sync.Once
	stopping atomic.Bool
	done     chan struct{}

	attempt atomic.Uint64 // number of the last one begun
	waiting atomic.Int32  // number of waiters, read without the lock
	mu      sync.Mutex
	waiters map[*waiter]struct{}
	closed  bool
}

type waiter struct {
	upTo   int64
	since  uint64     // the attempt under way when it came, whose failure is not its answer
	result chan error // buffered, gets one value
}

// Start begins to dispatch from cfg.From. Close ends it.
func Start(cfg Config) *Dispatcher {
	d := &Dispatcher{
		cfg:     cfg,
		kick:    make(chan struct{}, 1),
		timer:   time.NewTimer(time.Hour),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		waiters: make(map[*waiter]struct{}),
	}
	d.visit = d.dispatch
	d.next = int64(cfg.From)
	d.position.Store(d.next)
	if cfg.Follower != nil {
		cfg.Follower.leader.Store(d)
	}
	go d.run()
	return d
}

// Notify says that the source has more. Call it after End has grown. It neither
// blocks nor allocates.
func (d *Dispatcher) Notify() {
	if d.idle.Load() && d.idle.CompareAndSwap(true, false) { // one of many is enough
		d.wake()
	}
}

func (d *Dispatcher) wake() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// Position is the end of what all sinks have completed. It lags behind what they
// were given by at most 127 records; while somebody waits, by none but the one that
// is under way.
func (d *Dispatcher) Position() message.LogOffset { return message.LogOffset(d.position.Load()) }

// Lag is the number of bytes that may be dispatched and are not yet.
func (d *Dispatcher) Lag() int64 { return max(0, int64(d.cfg.Source.End())-d.position.Load()) }

// Wait blocks until everything before upTo has been dispatched. It returns
// earlier with ctx's error, with the error of an attempt that began after the
// call (the dispatcher itself goes on trying), or with message.ErrClosed.
func (d *Dispatcher) Wait(ctx context.Context, upTo message.LogOffset) error {
	if d.Position() >= upTo {
		return nil
	}
	d.mu.Lock()
	w := &waiter{upTo: int64(upTo), since: d.attempt.Load(), result: make(chan error, 1)}
	if d.closed {
		d.mu.Unlock()
		return message.ErrClosed
	}
	d.waiters[w] = struct{}{}
	d.waiting.Add(1)
	d.mu.Unlock()
	defer d.forget(w)
	if d.Position() >= upTo { // it may have passed between check and registration
		return nil
	}
	d.wake() // after a failure, try now rather than later
	select {
	case err := <-w.result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *Dispatcher) forget(w *waiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.waiters[w]; ok {
		delete(d.waiters, w)
		d.waiting.Add(-1)
	}
}

// answer tells the waiters whose time has come: after an error all who were
// there before the attempt began.
func (d *Dispatcher) answer(err error) {
	if d.waiting.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	position := d.position.Load()
	closed := errors.Is(err, message.ErrClosed)
	for w := range d.waiters {
		switch {
		case w.upTo <= position:
			w.result <- nil
		case closed, err != nil && w.since < d.attempt.Load():
			w.result <- err
		default:
			continue
		}
		delete(d.waiters, w)
		d.waiting.Add(-1)
	}
}

// Close stops after the record that is under way and ends the goroutine. What
// was not dispatched comes again after the next start. It is idempotent.
func (d *Dispatcher) Close() error {
	d.stopOnce.Do(func() {
		d.stopping.Store(true)
		close(d.stop)
	})
	<-d.done
	d.turn.Lock()   // a leader may be at work
	d.turn.Unlock() //nolint:staticcheck // from here on it finds that this one is stopping
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.answer(message.ErrClosed)
	return nil
}

// Pauses after a failed attempt. A kick ends a pause early.
const (
	retryFirst = 50 * time.Millisecond
	retryMax   = time.Second
)

func (d *Dispatcher) run() {
	defer close(d.done)
	pause := time.Duration(0)
	for d.await(pause) {
		err := d.round()
		d.answer(err)
		switch {
		case err == nil:
			pause = 0
		case pause == 0:
			pause = retryFirst
		default:
			pause = min(2*pause, retryMax)
		}
	}
}

// gather is how long the goroutine lets records gather between two rounds while
// they keep coming and nobody waits for them. Waking it for every few records
// would cost the writer more than the records do.
const gather = 100 * time.Microsecond

// await returns true when there is work, false when it is time to stop. After a
// failure it waits for pause or a kick first.
func (d *Dispatcher) await(pause time.Duration) bool {
	switch {
	case pause > 0:
		return d.sleep(pause)
	case d.cfg.Awaited != nil && d.cfg.Awaited():
	case !d.sleep(gather):
		return false
	}
	if d.wanted() {
		return true
	}
	d.idle.Store(true)
	defer d.idle.Store(false)
	if d.wanted() { // it came before idle was seen
		return true
	}
	select {
	case <-d.kick:
		return true
	case <-d.stop:
		return false
	}
}

// sleep returns true after pause or a kick, false when it is time to stop.
func (d *Dispatcher) sleep(pause time.Duration) bool {
	d.timer.Reset(pause)
	defer d.timer.Stop()
	select {
	case <-d.timer.C:
	case <-d.kick:
	case <-d.stop:
		return false
	}
	return true
}

// round dispatches up to the source's end of now. A panic in a sink is an error
// like any other: the goroutine lives on, and the position stays.
func (d *Dispatcher) round() (err error) {
	d.turn.Lock()
	defer d.turn.Unlock()
	d.attempt.Add(1)
	d.lead()
	defer d.release()
	defer func() {
		if r := recover(); r != nil {
			err = panicked(r)
		}
		d.next, d.taken = d.position.Load(), 0 // what was given and not completed comes again
		d.stuck.Store(err != nil)
		d.report(err)
	}()
	from, to := d.Position(), d.cfg.Source.End()
	if from >= to {
		return nil
	}
	_, err = d.cfg.Source.Scan(from, to, d.visit)
	if done := d.complete(); err == nil {
		err = done
	}
	if err == nil {
		d.move(int64(to)) // past a blank at the end of a file, too
		d.tell()
	}
	return err
}

func panicked(r any) error { return fmt.Errorf("dispatcher: panic: %v\n%s", r, debug.Stack()) }

func (d *Dispatcher) report(err error) {
	if err != nil && !errors.Is(err, message.ErrClosed) && d.cfg.Failed != nil {
		d.cfg.Failed(d.Position(), err)
	}
}

// untold is the most records that position may lag behind.
const untold = 128

// dispatch gives one record to every sink, and to the follower.
func (d *Dispatcher) dispatch(r *message.DispatchRequest) error {
	if err := d.give(r); err != nil {
		return err
	}
	left := d.leading && !d.cfg.Follower.follow(d.next, r)
	d.next = int64(r.LogOffset()) + int64(r.Size())
	if !d.count(r) && !left {
		return nil
	}
	if err := d.complete(); err != nil {
		return err
	}
	if left { // it need not wait for the end of the round
		d.part()
		d.cfg.Follower.Notify()
	}
	return nil
}

// give gives one record to every sink.
func (d *Dispatcher) give(r *message.DispatchRequest) error {
	if d.stopping.Load() {
		return message.ErrClosed
	}
	for _, s := range d.cfg.Sinks {
		if err := s.Dispatch(r); err != nil {
			return err
		}
	}
	return nil
}

// count counts a record that next is behind, and reports whether it is time to tell.
func (d *Dispatcher) count(r *message.DispatchRequest) bool {
	if d.taken == 0 {
		d.stored = r.StoreTimestamp()
	}
	d.taken++
	return d.taken >= untold || d.waiting.Load() > 0
}

// complete lets the sinks complete what they were given, and tells.
func (d *Dispatcher) complete() error {
	if d.taken == 0 {
		return nil
	}
	for _, s := range d.cfg.Sinks {
		if err := s.Complete(); err != nil {
			return err
		}
	}
	d.tell()
	return nil
}

// tell publishes the position, and answers who waited for it. That of a follower that
// is led comes first: it is not to take itself for one that is behind.
func (d *Dispatcher) tell() {
	if d.leading {
		d.cfg.Follower.tell()
	}
	d.position.Store(d.next)
	d.answer(nil)
	if d.taken > 0 && d.cfg.Passed != nil {
		d.cfg.Passed(d.taken, d.stored)
	}
	d.taken = 0
}
