package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pocketmq/pocketmq/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errInjected = errors.New("injected failure")

// recordSize is the size of each record in these tests.
const recordSize = 100

// memory is a Source: records one after the other.
type memory struct {
	log   []byte
	end   atomic.Int64 // of what may be dispatched
	seen  func()       // called when End was read
	scans atomic.Int32
	fail  func(from message.LogOffset) error
}

// newMemory returns n records.
func newMemory(n int) *memory {
	s := &memory{}
	for i := range n {
		m := message.MessageExt{Message: message.Message{Topic: "T"}, QueueOffset: message.QueueOffset(i), LogOffset: message.LogOffset(len(s.log))}
		m.Body = make([]byte, recordSize-m.RecordSize())
		rec := make([]byte, recordSize)
		m.PutRecord(rec)
		s.log = append(s.log, rec...)
	}
	return s
}

func (s *memory) total() message.LogOffset { return message.LogOffset(len(s.log)) }

func (s *memory) End() message.LogOffset {
	end := message.LogOffset(s.end.Load())
	if s.seen != nil {
		s.seen()
	}
	return end
}

// advance lets d have the records before to.
func (s *memory) advance(d *Dispatcher, to message.LogOffset) {
	for {
		end := s.end.Load()
		if int64(to) <= end || s.end.CompareAndSwap(end, int64(to)) {
			break
		}
	}
	d.Notify()
}

func (s *memory) Scan(from, to message.LogOffset, visit func(*message.DispatchRequest) error) (message.LogOffset, error) {
	s.scans.Add(1)
	if s.fail != nil {
		if err := s.fail(from); err != nil {
			return from, err
		}
	}
	for from < to {
		v, kind, err := message.ReadRecord(s.log[from:])
		if kind != message.KindRecord {
			return from, errors.Join(err, errors.New("no record"))
		}
		if err := visit(&message.DispatchRequest{View: v}); err != nil {
			return from, err
		}
		from += message.LogOffset(v.Size())
	}
	return from, nil
}

// sink is a Sink that keeps what it took, by number.
type sink struct {
	mu       sync.Mutex
	took     []int
	do       func(n int) error // before it is taken
	complete func() error      // nil does nothing
}

func (s *sink) Dispatch(r *message.DispatchRequest) error {
	n := int(r.QueueOffset())
	if s.do != nil {
		if err := s.do(n); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, n)
	return nil
}

func (s *sink) Complete() error {
	if s.complete == nil {
		return nil
	}
	return s.complete()
}

func (s *sink) taken() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.took)
}

func numbers(from, to int) []int {
	var all []int
	for n := from; n < to; n++ {
		all = append(all, n)
	}
	return all
}

func begin(t *testing.T, cfg Config) *Dispatcher {
	t.Helper()
	d := Start(cfg)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func wait(t *testing.T, d *Dispatcher, upTo message.LogOffset) {
	t.Helper()
	require.NoError(t, d.Wait(context.Background(), upTo))
}

// outlast waits for upTo through failed attempts.
func outlast(d *Dispatcher, upTo message.LogOffset) {
	for d.Wait(context.Background(), upTo) != nil {
		runtime.Gosched()
	}
}

func TestEveryRecordGoesToEverySinkInOrder(t *testing.T) {
	src := newMemory(200)
	var mu sync.Mutex
	var calls []string
	note := func(name string) func(int) error {
		return func(n int) error {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, fmt.Sprint(name, n))
			return nil
		}
	}
	a, b := &sink{do: note("a")}, &sink{do: note("b")}
	d := begin(t, Config{Source: src, Sinks: []Sink{a, b}})
	for end := message.LogOffset(recordSize); end <= src.total(); end += recordSize {
		src.advance(d, end)
		if end%1700 == 0 {
			wait(t, d, end)
			require.GreaterOrEqual(t, d.Position(), end)
		}
	}
	wait(t, d, src.total())
	require.Equal(t, numbers(0, 200), a.taken())
	require.Equal(t, numbers(0, 200), b.taken())
	var want []string
	for n := range 200 {
		want = append(want, fmt.Sprint("a", n), fmt.Sprint("b", n))
	}
	require.Equal(t, want, calls)
	require.Zero(t, d.Lag())
}

func TestOnlyWhatTheSourceHasIsDispatched(t *testing.T) {
	src := newMemory(10)
	s := &sink{}
	d := begin(t, Config{Source: src, Sinks: []Sink{s}, From: 2 * recordSize})
	require.Equal(t, message.LogOffset(2*recordSize), d.Position())
	require.Zero(t, d.Lag())
	wait(t, d, 2*recordSize)
	src.advance(d, recordSize) // before where it begins
	require.Zero(t, d.Lag())
	src.advance(d, 5*recordSize)
	wait(t, d, 5*recordSize)
	require.Equal(t, numbers(2, 5), s.taken())
	src.advance(d, 6*recordSize)
	wait(t, d, 6*recordSize)
	require.Equal(t, numbers(2, 6), s.taken())
}

func TestIdleDispatcherDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newMemory(3)
		d := Start(Config{Source: src})
		defer d.Close()
		src.advance(d, src.total())
		wait(t, d, src.total())
		synctest.Wait()
		before := src.scans.Load()
		time.Sleep(time.Hour) // of the test's own clock
		require.Equal(t, before, src.scans.Load())
	})
}

func TestNotifyWakesASleepingDispatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newMemory(50)
		s := &sink{}
		d := Start(Config{Source: src, Sinks: []Sink{s}, Awaited: func() bool { return true }})
		defer d.Close()
		began := time.Now()
		for n := range 50 {
			synctest.Wait() // it sleeps
			src.advance(d, message.LogOffset(n+1)*recordSize)
			synctest.Wait()
			require.Equal(t, numbers(0, n+1), s.taken())
		}
		require.Zero(t, time.Since(began), "while somebody waits nothing is held back")
	})
}

func TestRecordsGatherWhileNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newMemory(1000)
		s := &sink{}
		d := Start(Config{Source: src, Sinks: []Sink{s}})
		defer d.Close()
		for n := range 1000 {
			src.advance(d, message.LogOffset(n+1)*recordSize)
			time.Sleep(time.Microsecond)
		}
		require.LessOrEqual(t, src.scans.Load(), int32(12))
		time.Sleep(gather)
		synctest.Wait()
		require.Equal(t, numbers(0, 1000), s.taken())
		began := time.Now()
		wait(t, d, src.total())
		require.Zero(t, time.Since(began))
	})
}

func TestRecordComesAgainAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newMemory(10)
		attempts := 0
		first := &sink{}
		second := &sink{do: func(n int) error {
			if n == 4 {
				if attempts++; attempts <= 7 {
					return errInjected
				}
			}
			return nil
		}}
		var at []time.Duration
		began := time.Now()
		d := Start(Config{Source: src, Sinks: []Sink{first, second}, Failed: func(pos message.LogOffset, err error) {
			require.ErrorIs(t, err, errInjected)
			require.Equal(t, message.LogOffset(4*recordSize), pos)
			at = append(at, time.Since(began).Truncate(10*time.Millisecond))
		}})
		defer d.Close()
		src.advance(d, src.total())
		time.Sleep(time.Minute)
		require.Equal(t, src.total(), d.Position())
		require.Equal(t, numbers(0, 10), second.taken(), "none is left out, none came twice")
		require.Equal(t, []int{0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5, 6, 7, 8, 9}, first.taken(), "the failed one comes again to all")
		ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
		require.Equal(t, []time.Duration{0, ms(50), ms(150), ms(350), ms(750), ms(1550), ms(2550)}, at)
	})
}

func TestNotifyDoesNotShortenThePauseAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newMemory(100)
		var tries atomic.Int32
		d := Start(Config{Source: src, Sinks: []Sink{&sink{do: func(int) error { tries.Add(1); return errInjected }}}})
		defer d.Close()
		for n := range 100 {
			src.advance(d, message.LogOffset(n+1)*recordSize)
			time.Sleep(100 * time.Microsecond)
		}
		require.LessOrEqual(t, tries.Load(), int32(2))
		require.Equal(t, int64(100*recordSize), d.Lag())
	})
}

func TestErrorOfTheSourceIsTriedAgain(t *testing.T) {
	src := newMemory(5)
	failures := 0
	src.fail = func(message.LogOffset) error {
		if failures++; failures == 1 {
			return errInjected
		}
		return nil
	}
	reported := make(chan error, 10)
	s := &sink{}
	d := begin(t, Config{Source: src, Sinks: []Sink{s}, Failed: func(_ message.LogOffset, err error) { reported <- err }})
	src.advance(d, src.total())
	require.ErrorIs(t, <-reported, errInjected)
	outlast(d, src.total())
	require.Equal(t, numbers(0, 5), s.taken())
}

func TestPanicInASinkIsAnError(t *testing.T) {
	src := newMemory(5)
	panics := 0
	s := &sink{do: func(n int) error {
		if n == 2 && panics < 1 {
			panics++
			panic("boom")
		}
		return nil
	}}
	reported := make(chan error, 10)
	d := begin(t, Config{Source: src, Sinks: []Sink{s}, Failed: func(_ message.LogOffset, err error) { reported <- err }})
	src.advance(d, src.total())
	err := <-reported
	require.ErrorContains(t, err, "boom")
	require.ErrorContains(t, err, "dispatcher_test.go", "it says where")
	outlast(d, src.total())
	require.Equal(t, append(numbers(0, 2), numbers(0, 5)...), s.taken(), "what was not completed comes again")
	require.Empty(t, reported)
}

func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newMemory(4)
		broken := atomic.Bool{}
		s := &sink{do: func(n int) error {
			if n == 2 && broken.Load() {
				return errInjected
			}
			return nil
		}}
		d := Start(Config{Source: src, Sinks: []Sink{s}})
		defer d.Close()
		src.advance(d, 2*recordSize)
		wait(t, d, 2*recordSize)
		canceled, cancel := context.WithCancel(context.Background())
		cancel()
		require.NoError(t, d.Wait(canceled, recordSize), "it is there already")
		require.ErrorIs(t, d.Wait(canceled, 3*recordSize), context.Canceled)
		short, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.ErrorIs(t, d.Wait(short, 3*recordSize), context.DeadlineExceeded, "there is no such record yet")

		broken.Store(true)
		src.advance(d, src.total())
		require.ErrorIs(t, d.Wait(context.Background(), src.total()), errInjected)
		require.ErrorIs(t, d.Wait(context.Background(), 3*recordSize), errInjected, "tried again, and failed again")
		broken.Store(false)
		began := time.Now()
		wait(t, d, src.total())
		require.Less(t, time.Since(began), retryFirst, "a waiter does not wait for the pause")

		ended := make(chan error)
		go func() { ended <- d.Wait(context.Background(), src.total()+1) }()
		synctest.Wait()
		require.NoError(t, d.Close())
		require.ErrorIs(t, <-ended, message.ErrClosed)
		require.ErrorIs(t, d.Wait(context.Background(), src.total()+1), message.ErrClosed)
		require.NoError(t, d.Wait(context.Background(), src.total()), "what is there is there")
		require.Empty(t, d.waiters)
		require.Zero(t, d.waiting.Load())
	})
}

func TestWaitersAreToldAsSoonAsTheirRecordIsThere(t *testing.T) {
	src := newMemory(3)
	gate := make(chan struct{})
	s := &sink{do: func(int) error { <-gate; return nil }}
	d := begin(t, Config{Source: src, Sinks: []Sink{s}})
	told := make([]chan error, 3)
	for n := range told {
		told[n] = make(chan error, 1)
		go func() { told[n] <- d.Wait(context.Background(), message.LogOffset(n+1)*recordSize) }()
	}
	for d.waiting.Load() < 3 { // who comes while the next record is under way is told after that
		runtime.Gosched()
	}
	src.advance(d, src.total())
	for n := range told { // the round is under way all the time
		gate <- struct{}{}
		require.NoError(t, <-told[n])
	}
}

func TestPositionLagsBehindByFewRecords(t *testing.T) {
	src := newMemory(1000)
	entered, release := make(chan struct{}), make(chan struct{})
	s := &sink{do: func(n int) error {
		if n == 700 {
			close(entered)
			<-release
		}
		return nil
	}}
	d := begin(t, Config{Source: src, Sinks: []Sink{s}})
	src.advance(d, src.total())
	<-entered
	require.LessOrEqual(t, d.Position(), message.LogOffset(700*recordSize))
	require.GreaterOrEqual(t, d.Position(), message.LogOffset((700-untold)*recordSize))
	close(release)
	wait(t, d, src.total())
}

func TestManyWaitersAndNotifiers(t *testing.T) {
	const total = 400
	src := newMemory(total)
	s := &sink{}
	d := begin(t, Config{Source: src, Sinks: []Sink{s}})
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 4 {
		wg.Go(func() {
			for {
				n := next.Add(1)
				if n > total {
					return
				}
				src.advance(d, message.LogOffset(n)*recordSize)
				if n%3 == 0 {
					wait(t, d, message.LogOffset(n)*recordSize)
					require.GreaterOrEqual(t, d.Position(), message.LogOffset(n)*recordSize)
				}
				require.GreaterOrEqual(t, d.Lag(), int64(0))
			}
		})
	}
	wg.Wait()
	wait(t, d, src.total())
	require.Equal(t, numbers(0, total), s.taken())
}

func TestPositionPassesWhatHasNoRecord(t *testing.T) {
	src := newMemory(2)
	d := begin(t, Config{Source: blankAtEnd{src}, Sinks: []Sink{&sink{}}})
	end := src.total() + 24
	src.advance(d, end)
	wait(t, d, end)
	require.Equal(t, end, d.Position())
}

// blankAtEnd is a source with 24 bytes behind the last record that are none.
type blankAtEnd struct{ *memory }

func (b blankAtEnd) Scan(from, to message.LogOffset, visit func(*message.DispatchRequest) error) (message.LogOffset, error) {
	if end, err := b.memory.Scan(from, min(to, b.total()), visit); err != nil {
		return end, err
	}
	return to, nil
}

func TestCloseDuringARoundStopsAfterTheRecordUnderWay(t *testing.T) {
	src := newMemory(100)
	entered, release := make(chan struct{}), make(chan struct{})
	s := &sink{do: func(n int) error {
		if n == 10 {
			close(entered)
			<-release
		}
		return nil
	}}
	failed := false
	d := Start(Config{Source: src, Sinks: []Sink{s}, Failed: func(message.LogOffset, error) { failed = true }})
	src.advance(d, src.total())
	<-entered
	var closers sync.WaitGroup
	for range 3 {
		closers.Go(func() { require.NoError(t, d.Close()) })
	}
	for stopping := false; !stopping; runtime.Gosched() {
		select {
		case <-d.stop:
			stopping = true
		default:
		}
	}
	close(release)
	closers.Wait()
	require.Equal(t, numbers(0, 11), s.taken())
	require.Equal(t, message.LogOffset(11*recordSize), d.Position())
	require.Equal(t, int64(89*recordSize), d.Lag())
	require.False(t, failed, "to be closed is no failure")
	require.NoError(t, d.Close())
	d.Notify() // of no use, and no harm

	s.do = nil
	rest := begin(t, Config{Source: src, Sinks: []Sink{s}, From: d.Position()})
	src.advance(rest, src.total())
	wait(t, rest, src.total())
	require.Equal(t, numbers(0, 100), s.taken())
}

func TestCloseWhileItSleepsAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newMemory(1)
		d := Start(Config{Source: src, Sinks: []Sink{&sink{do: func(int) error { return errInjected }}}})
		src.advance(d, recordSize)
		time.Sleep(10 * time.Second)
		began := time.Now()
		require.NoError(t, d.Close())
		require.Zero(t, time.Since(began))
	})
}

// TestNotifyJustBeforeSleepIsNotLost lets a record come after the dispatcher has
// seen that there is none, and before it says that it sleeps.
func TestNotifyJustBeforeSleepIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newMemory(1)
		var d *Dispatcher
		var once sync.Once
		started := make(chan struct{})
		src.seen = func() {
			once.Do(func() {
				<-started
				src.advance(d, src.total())
			})
		}
		d = Start(Config{Source: src, Awaited: func() bool { return true }})
		defer d.Close()
		close(started)
		synctest.Wait()
		require.Equal(t, src.total(), d.Position())
	})
}

func TestNotifyAllocatesNothing(t *testing.T) {
	src := newMemory(0)
	stuck := make(chan struct{})
	src.fail = func(message.LogOffset) error { <-stuck; return errInjected }
	d := begin(t, Config{Source: src})
	to := message.LogOffset(0)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		to += 100
		src.advance(d, to)
	}))
	close(stuck)
}
