package dispatcher

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// TestRunsAreCompletedBeforeThePositionMoves: at most 128 records wait for a
// Complete, one while somebody waits for them, and none is passed before it.
func TestRunsAreCompletedBeforeThePositionMoves(t *testing.T) {
	const records = 1000
	src := newMemory(records)
	var d *Dispatcher
	var open, longest, completed int
	first, second := &sink{}, &sink{}
	first.do = func(int) error {
		open++
		longest = max(longest, open)
		return nil
	}
	first.complete = func() error {
		require.Len(t, second.took, len(first.took), "all sinks have what is completed")
		completed, open = len(first.took), 0
		return nil
	}
	second.do = func(int) error {
		require.LessOrEqual(t, int(d.Position()), completed*recordSize)
		return nil
	}
	second.complete = func() error {
		require.Equal(t, len(second.took), completed, "in the order of the sinks")
		require.Less(t, int(d.Position()), completed*recordSize)
		return nil
	}
	started := make(chan struct{})
	d = begin(t, Config{Source: src, Sinks: []Sink{first, second}, Awaited: func() bool { <-started; return true }})
	src.end.Store(int64(src.total()) / 2)
	close(started) // nobody waits: the first half is dispatched in runs
	d.Notify()
	for d.Position() < src.total()/2 {
		d.Notify()
	}
	require.NoError(t, d.Wait(t.Context(), src.total()/2))
	require.Equal(t, untold, longest)

	first.do = func(int) error {
		open++
		if d.waiting.Load() > 0 {
			require.Equal(t, 1, open)
		}
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- d.Wait(t.Context(), src.total()) }()
	for d.waiting.Load() == 0 {
		d.Notify()
	}
	src.advance(d, src.total())
	require.NoError(t, <-done)
	require.Equal(t, numbers(0, records), first.taken())
	require.Equal(t, records, completed)
}

// TestRunThatCanNotBeCompletedComesAgain, to all sinks; the error is that of the
// attempt.
func TestRunThatCanNotBeCompletedComesAgain(t *testing.T) {
	const fails = 3
	src := newMemory(5)
	var attempts atomic.Int32
	first, second := &sink{}, &sink{}
	second.complete = func() error {
		if attempts.Add(1) <= fails {
			return errInjected
		}
		return nil
	}
	failed := make(chan message.LogOffset, fails)
	d := begin(t, Config{Source: src, Sinks: []Sink{first, second}, Failed: func(at message.LogOffset, err error) {
		require.ErrorIs(t, err, errInjected)
		failed <- at
	}})
	src.advance(d, src.total())
	for range fails {
		require.Zero(t, <-failed, "nothing was passed")
	}
	outlast(d, src.total())
	want := numbers(0, 5)
	for range fails {
		want = append(want, numbers(0, 5)...)
	}
	require.Equal(t, want, first.taken())
	require.Equal(t, want, second.taken())
}

// TestWhatComesBeforeAFailureIsCompleted: a record that is refused holds up those
// behind it, and none before it.
func TestWhatComesBeforeAFailureIsCompleted(t *testing.T) {
	src := newMemory(5)
	var completed atomic.Int32
	s := &sink{do: func(n int) error {
		if n == 3 {
			return errInjected
		}
		return nil
	}}
	s.complete = func() error {
		completed.Store(int32(len(s.took)))
		return nil
	}
	failed := make(chan message.LogOffset, 1000)
	d := begin(t, Config{Source: src, Sinks: []Sink{s}, Failed: func(at message.LogOffset, _ error) { failed <- at }})
	src.advance(d, src.total())
	require.Equal(t, message.LogOffset(3*recordSize), <-failed)
	require.Equal(t, message.LogOffset(3*recordSize), d.Position())
	require.EqualValues(t, 3, completed.Load())
}

// TestFollowerKeepsWhatItsLeaderCanNotComplete: it is ahead until the leader has
// got there again, and is given nothing twice.
func TestFollowerKeepsWhatItsLeaderCanNotComplete(t *testing.T) {
	inBubble(t, 10, func(t *testing.T, p *pair) {
		var attempts atomic.Int32
		p.queues.complete = func() error {
			if attempts.Add(1) == 1 {
				return errInjected
			}
			return nil
		}
		p.advance(10)
		settle()
		require.Equal(t, append(numbers(0, 10), numbers(0, 10)...), p.queues.taken())
		require.Equal(t, numbers(0, 10), p.keys.taken())
		require.Equal(t, p.source.total(), p.leader.Position())
		require.Equal(t, p.source.total(), p.follower.Position())
		require.Zero(t, p.failed.count())
	})
}
