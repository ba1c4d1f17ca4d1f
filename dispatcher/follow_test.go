package dispatcher

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// pair is a leader and its follower over the same records.
type pair struct {
	source           *memory // the leader's
	aside            *memory // the same records, as the follower reads them
	queues           *sink   // the leader's
	keys             *sink   // the follower's, in its own goroutine and in that of the leader
	leader, follower *Dispatcher

	try    func(n int) (taken bool, err error) // before the follower takes one from the leader; nil takes it
	tried  atomic.Int32                        // how many were given to it by the leader
	failed failures                            // of the follower
}

// failures is what Failed was told.
type failures struct {
	mu sync.Mutex
	at []message.LogOffset
	of []error
}

func (f *failures) add(at message.LogOffset, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.of = append(f.at, at), append(f.of, err)
}

func (f *failures) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.at)
}

// newPair is a pair over n records, not yet started.
func newPair(n int) *pair {
	p := &pair{source: newMemory(n), queues: &sink{}, keys: &sink{}}
	p.aside = &memory{log: p.source.log}
	return p
}

// start begins with both, the leader at from.
func (p *pair) start(from, followerFrom message.LogOffset) {
	p.follower = Start(Config{Source: p.aside, Sinks: []Sink{p.keys}, From: followerFrom, Failed: p.failed.add,
		Try: func(r *message.DispatchRequest) (bool, error) {
			p.tried.Add(1)
			if p.try != nil {
				if taken, err := p.try(int(r.QueueOffset())); err != nil || !taken {
					return false, err
				}
			}
			return true, p.keys.Dispatch(r)
		}})
	p.leader = Start(Config{Source: p.source, Sinks: []Sink{p.queues}, From: from, Follower: p.follower})
}

func (p *pair) close(t *testing.T) {
	t.Helper()
	require.NoError(t, p.follower.Close())
	require.NoError(t, p.leader.Close())
}

// advance lets both have the n records after the last.
func (p *pair) advance(n int) {
	end := min(message.LogOffset(p.source.end.Load())+message.LogOffset(n*recordSize), p.source.total())
	p.aside.end.Store(int64(end))
	p.source.advance(p.leader, end)
}

// inBubble runs test in a synctest bubble with a pair over n records, both at the start.
func inBubble(t *testing.T, n int, test func(t *testing.T, p *pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPair(n)
		p.start(0, 0)
		defer p.close(t)
		synctest.Wait()
		time.Sleep(gather)
		test(t, p)
	})
}

// settle waits until nothing happens any more.
func settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

func TestFollowerIsGivenWhatTheLeaderReads(t *testing.T) {
	inBubble(t, 3000, func(t *testing.T, p *pair) {
		for range 100 {
			p.advance(1)
			synctest.Wait()
			p.advance(29)
			time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
		}
		settle()
		require.Equal(t, numbers(0, 3000), p.queues.taken())
		require.Equal(t, numbers(0, 3000), p.keys.taken())
		require.Zero(t, p.aside.scans.Load(), "the follower has read nothing itself")
		require.Equal(t, p.source.total(), p.follower.Position())
		require.Zero(t, p.follower.Lag())
		require.Zero(t, p.failed.count())
	})
}

// TestFollowerIsNotBehindItsLeader, whatever that tells while somebody waits for
// it: it would go its own way, and wake up for that.
func TestFollowerIsNotBehindItsLeader(t *testing.T) {
	inBubble(t, 300, func(t *testing.T, p *pair) {
		behind := 0
		p.queues.do = func(int) error {
			if p.follower.wanted() {
				behind++
			}
			return nil
		}
		go func() { _ = p.leader.Wait(t.Context(), p.source.total()) }()
		synctest.Wait()
		p.advance(300)
		settle()
		require.Equal(t, numbers(0, 300), p.keys.taken())
		require.Zero(t, behind)
	})
}

// TestIdlePairDoesNothing: neither polls, and neither wakes the other.
func TestIdlePairDoesNothing(t *testing.T) {
	inBubble(t, 10, func(t *testing.T, p *pair) {
		var asked atomic.Int32
		p.advance(10)
		settle()
		synctest.Wait()
		p.source.seen = func() { asked.Add(1) }
		p.aside.seen = p.source.seen
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Zero(t, asked.Load())
		require.True(t, p.leader.idle.Load() && p.follower.idle.Load())
		require.Zero(t, p.aside.scans.Load())
	})
}

func TestFollowerTakesWhatItWouldHaveWaitedFor(t *testing.T) {
	inBubble(t, 100, func(t *testing.T, p *pair) {
		p.try = func(n int) (bool, error) { return n != 10, nil }
		p.advance(40)
		settle()
		require.Equal(t, numbers(0, 40), p.keys.taken())
		scans := p.aside.scans.Load()
		require.Positive(t, scans)
		require.LessOrEqual(t, scans, int32(2))
		p.advance(60)
		settle()
		require.Equal(t, numbers(0, 100), p.keys.taken())
		require.Equal(t, numbers(0, 100), p.queues.taken())
		require.Equal(t, scans, p.aside.scans.Load(), "it follows again")
		require.Zero(t, p.failed.count(), "that is no failure")
	})
}

// TestFollowerDoesNotWaitForTheEndOfARound: it goes on by itself as soon as the
// leader is ahead of it.
func TestFollowerDoesNotWaitForTheEndOfARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(100)
		gate := make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		p.try = func(n int) (bool, error) { return n != 10, nil }
		p.queues.do = func(n int) error {
			if n == 50 {
				<-gate
			}
			return nil
		}
		p.start(0, 0)
		defer p.close(t)
		defer open()
		p.advance(100)
		settle()
		require.Equal(t, numbers(0, 50), p.queues.taken())
		require.Equal(t, numbers(0, 100), p.keys.taken())
		wait(t, p.follower, p.source.total())
		open()
		settle()
		require.Equal(t, numbers(0, 100), p.queues.taken())
		require.Equal(t, numbers(0, 100), p.keys.taken())
	})
}

// TestErrorOfTry is reported once, and the leader goes on; the follower tries again
// after pauses.
func TestErrorOfTry(t *testing.T) {
	for _, panics := range []bool{false, true} {
		inBubble(t, 100, func(t *testing.T, p *pair) {
			broken := true
			p.try = func(n int) (bool, error) {
				if n == 10 && broken && panics {
					panic("boom")
				} else if n == 10 && broken {
					return false, errInjected
				}
				return true, nil
			}
			attempts := 0
			p.keys.do = func(n int) error {
				if n == 10 && broken {
					if attempts++; attempts <= 3 {
						return errInjected
					}
				}
				return nil
			}
			p.advance(40)
			synctest.Wait()
			time.Sleep(10 * time.Millisecond)
			require.Equal(t, numbers(0, 40), p.queues.taken(), "the leader is not held up")
			require.Equal(t, numbers(0, 10), p.keys.taken())
			require.Equal(t, message.LogOffset(10*recordSize), p.follower.Position())
			require.Equal(t, 2, p.failed.count(), "of the leader's attempt, and its own")
			p.advance(10)
			time.Sleep(10 * time.Millisecond)
			require.Equal(t, 2, p.failed.count(), "a pause is a pause")
			require.Equal(t, int32(11), p.tried.Load(), "the leader leaves it alone")
			settle()
			require.Equal(t, 4, p.failed.count())
			for i := range 4 {
				require.Equal(t, message.LogOffset(10*recordSize), p.failed.at[i])
				if panics && i == 0 {
					require.ErrorContains(t, p.failed.of[i], "boom")
					require.ErrorContains(t, p.failed.of[i], "follow_test.go", "it says where")
				} else {
					require.ErrorIs(t, p.failed.of[i], errInjected)
				}
			}
			require.Equal(t, numbers(0, 50), p.keys.taken())
			broken = false
			scans := p.aside.scans.Load()
			p.advance(50)
			settle()
			require.Equal(t, numbers(0, 100), p.keys.taken())
			require.Equal(t, scans, p.aside.scans.Load(), "it follows again")
			require.Equal(t, 4, p.failed.count())
		})
	}
}

// TestFollowerOfALeaderThatIsStuck goes on to the end by itself, and later follows again.
func TestFollowerOfALeaderThatIsStuck(t *testing.T) {
	inBubble(t, 200, func(t *testing.T, p *pair) {
		var mended atomic.Bool
		p.queues.do = func(n int) error {
			if n == 10 && !mended.Load() {
				return errInjected
			}
			return nil
		}
		p.advance(50)
		time.Sleep(2 * gather)
		require.Equal(t, numbers(0, 50), p.keys.taken())
		settle()
		p.advance(50)
		time.Sleep(2 * retryMax)
		require.Equal(t, numbers(0, 100), p.keys.taken())
		require.Equal(t, numbers(0, 10), p.queues.taken())
		mended.Store(true)
		settle()
		require.Equal(t, numbers(0, 100), p.queues.taken())
		scans := p.aside.scans.Load()
		p.advance(100)
		settle()
		require.Equal(t, numbers(0, 200), p.keys.taken())
		require.Equal(t, numbers(0, 200), p.queues.taken())
		require.Equal(t, scans, p.aside.scans.Load(), "it follows again")
	})
}

// TestPairBeginsApart: whoever of them is behind at the start.
func TestPairBeginsApart(t *testing.T) {
	for _, from := range [][2]int{{0, 300}, {300, 0}, {0, 400}, {400, 0}, {50, 60}, {60, 50}, {400, 400}} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(600)
			p.aside.end.Store(400 * recordSize)
			p.source.end.Store(400 * recordSize)
			p.start(message.LogOffset(from[0]*recordSize), message.LogOffset(from[1]*recordSize))
			defer p.close(t)
			settle()
			require.Equal(t, numbers(from[0], 400), p.queues.taken(), "%v", from)
			require.Equal(t, numbers(from[1], 400), p.keys.taken(), "%v", from)
			scans := p.aside.scans.Load()
			p.advance(200)
			settle()
			require.Equal(t, numbers(from[0], 600), p.queues.taken(), "%v", from)
			require.Equal(t, numbers(from[1], 600), p.keys.taken(), "%v", from)
			require.Equal(t, scans, p.aside.scans.Load(), "%v: it follows", from)
		})
	}
}

// TestFollowerPassesWhatHasNoRecord together with the leader.
func TestFollowerPassesWhatHasNoRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(20)
		p.follower = Start(Config{Source: blankAtEnd{p.aside}, Sinks: []Sink{p.keys}, Try: func(r *message.DispatchRequest) (bool, error) {
			return true, p.keys.Dispatch(r)
		}})
		p.leader = Start(Config{Source: blankAtEnd{p.source}, Sinks: []Sink{p.queues}, Follower: p.follower})
		defer p.close(t)
		end := p.source.total() + 24
		settle()
		p.aside.end.Store(int64(end))
		p.source.advance(p.leader, end)
		settle()
		require.Equal(t, end, p.leader.Position())
		require.Equal(t, end, p.follower.Position())
		require.Equal(t, numbers(0, 20), p.keys.taken())
		require.Zero(t, p.aside.scans.Load())
	})
}

// TestFollowerBehindABlank is led on though its leader comes from before that.
func TestFollowerBehindABlank(t *testing.T) {
	src, s := newMemory(3), &sink{}
	d := begin(t, Config{Source: &memory{}, From: 2 * recordSize, Try: func(r *message.DispatchRequest) (bool, error) {
		return true, s.Dispatch(r)
	}})
	v, _, err := message.ReadRecord(src.log[2*recordSize:])
	require.NoError(t, err)
	d.turn.Lock()
	defer d.turn.Unlock() // before Close
	require.True(t, d.follow(2*recordSize-24, &message.DispatchRequest{View: v}))
	require.Equal(t, []int{2}, s.taken())
	require.EqualValues(t, 3*recordSize, d.next)
}

// TestWaitForAFollower is answered as soon as its record was taken, by whomever.
func TestWaitForAFollower(t *testing.T) {
	p := newPair(3)
	gate := make(chan struct{})
	p.queues.do = func(int) error { <-gate; return nil }
	p.start(0, 0)
	defer p.close(t)
	told := make([]chan error, 3)
	for n := range told {
		told[n] = make(chan error, 1)
	}
	p.advance(3)
	gate <- struct{}{} // the leader is at work
	for n := range told {
		go func() { told[n] <- p.follower.Wait(context.Background(), message.LogOffset(n+1)*recordSize) }()
	}
	for p.follower.waiting.Load()+int32(len(told[0])) < 3 {
		runtime.Gosched()
	}
	gate <- struct{}{}
	require.NoError(t, <-told[0])
	require.NoError(t, <-told[1])
	close(gate)
	require.NoError(t, <-told[2])
	require.Equal(t, numbers(0, 3), p.keys.taken())

	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, p.follower.Wait(canceled, p.source.total()+1), context.Canceled)
}

// TestWaitForAFollowerThatFails gets the error of an attempt after the call.
func TestWaitForAFollowerThatFails(t *testing.T) {
	inBubble(t, 20, func(t *testing.T, p *pair) {
		p.try = func(n int) (bool, error) {
			if n == 5 {
				return false, errInjected
			}
			return true, nil
		}
		p.keys.do = func(n int) error {
			if n == 5 {
				return errInjected
			}
			return nil
		}
		p.advance(20)
		require.NoError(t, p.follower.Wait(t.Context(), 5*recordSize))
		require.ErrorIs(t, p.follower.Wait(t.Context(), 6*recordSize), errInjected)
		require.NoError(t, p.leader.Wait(t.Context(), p.source.total()))
	})
}

// TestCloseOfAFollowerWhileItsLeaderIsAtWork ends after the record under way; the
// leader goes on alone.
func TestCloseOfAFollowerWhileItsLeaderIsAtWork(t *testing.T) {
	p := newPair(100)
	entered, release := make(chan struct{}), make(chan struct{})
	p.try = func(n int) (bool, error) {
		if n == 10 {
			close(entered)
			<-release
		}
		return true, nil
	}
	p.start(0, 0)
	p.advance(100)
	<-entered
	closed := make(chan error, 1)
	go func() { closed <- p.follower.Close() }()
	<-p.follower.done
	require.Empty(t, closed, "a record is under way")
	close(release)
	require.NoError(t, <-closed)
	taken, position := p.keys.taken(), p.follower.Position()
	wait(t, p.leader, p.source.total())
	require.Equal(t, numbers(0, len(taken)), taken)
	require.GreaterOrEqual(t, len(taken), 11)
	require.Equal(t, message.LogOffset(len(taken)*recordSize), position)
	require.Equal(t, numbers(0, 100), p.queues.taken())
	require.NoError(t, p.leader.Close())
	require.Equal(t, taken, p.keys.taken(), "nothing after Close")
	require.Equal(t, position, p.follower.Position())
	require.ErrorIs(t, p.follower.Wait(context.Background(), p.source.total()+1), message.ErrClosed)
}

// TestNothingIsLostBetweenThem: records come at random, both fail at random, and
// the end of all is reached each time without another Notify.
func TestNothingIsLostBetweenThem(t *testing.T) {
	for range 30 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) { atRandom(t, seed, 100, settle) })
	}
}

// TestNothingIsLostInARace is the same with the machine's own timing.
func TestNothingIsLostInARace(t *testing.T) {
	for range 10 {
		atRandom(t, rand.Uint64(), 3, func() {}) // a failure is a pause
	}
}

// atRandom fails for at most that many of 1000 records.
func atRandom(t *testing.T, seed uint64, most int, settle func()) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	n := 1 + rnd.IntN(600)
	p := newPair(n)
	rate := []int{0, most / 3, most}[rnd.IntN(3)]
	var mu sync.Mutex
	fails := func() error {
		mu.Lock()
		defer mu.Unlock()
		if rnd.IntN(1000) < rate {
			return errInjected
		}
		return nil
	}
	p.queues.do = func(int) error { return fails() }
	p.keys.do = func(int) error { return fails() }
	p.try = func(int) (bool, error) {
		err := fails()
		return err == nil && fails() == nil, err
	}
	p.start(0, message.LogOffset(rand.IntN(2)*recordSize))
	for p.source.End() < p.source.total() {
		p.advance(1 + rand.IntN(20))
		switch rand.IntN(4) {
		case 0:
			time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
		case 1:
			runtime.Gosched()
		case 2:
			_ = p.follower.Wait(t.Context(), p.source.End())
		}
	}
	settle()
	// Nobody waits: that would wake them.
	for p.leader.Position() < p.source.total() || p.follower.Position() < p.source.total() {
		time.Sleep(time.Millisecond)
	}
	took, first := p.keys.taken(), int(p.follower.cfg.From)/recordSize
	require.Equal(t, numbers(0, n), p.queues.taken(), "seed %d", seed)
	require.Equal(t, numbers(first, n), took, "seed %d", seed)
	p.close(t)
}
