package commitlog

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// heard counts calls of Complete, which come from one goroutine.
type heard struct {
	t     *testing.T
	calls atomic.Int64
	last  message.LogOffset
	err   error // that each must match
}

func (h *heard) Complete(p Placement, err error) {
	if p.LogOffset < h.last {
		h.t.Errorf("%d after %d", p.LogOffset, h.last)
	}
	h.last = p.LogOffset
	if h.err == nil && err != nil || h.err != nil && err == nil {
		h.t.Errorf("%v, not %v", err, h.err)
	}
	h.calls.Add(1)
}

// TestCompletionsAreBounded: beyond the bound an append waits for its context;
// after a sync there is room.
func TestCompletionsAreBounded(t *testing.T) {
	cfg := config(t, true)
	cfg.FileSize, cfg.SyncTimeout = 8<<20, time.Hour
	synctest.Test(t, func(t *testing.T) {
		l := start(t, cfg)
		c := NewCounter(0)
		h := &heard{t: t}
		m := msg(100, 'A')
		for range maxCompletions {
			_, err := l.AppendThen(t.Context(), m, c, h)
			require.NoError(t, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := l.AppendThen(ctx, m, c, h)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = l.Append(t.Context(), m, c)
		require.NoError(t, err, "who waits for himself needs no room")
		more := make(chan error, 1)
		go func() {
			_, err := l.AppendThen(t.Context(), m, c, h)
			more <- err
		}()
		synctest.Wait()
		require.Empty(t, more)
		require.Zero(t, h.calls.Load())
		require.NoError(t, l.Flush())
		require.NoError(t, <-more)
		synctest.Wait()
		require.EqualValues(t, maxCompletions, h.calls.Load())
		require.NoError(t, l.Flush())
		require.NoError(t, l.Close())
		require.EqualValues(t, maxCompletions+1, h.calls.Load())
	})
}

// TestCloseCompletesWithoutASync: nobody is left without an answer.
func TestCloseCompletesWithoutASync(t *testing.T) {
	cfg := config(t, true)
	cfg.SyncTimeout = time.Hour
	l := start(t, cfg)
	h := &heard{t: t, err: message.ErrClosed}
	for range 10 {
		_, err := l.AppendThen(t.Context(), msg(100, 'A'), NewCounter(0), h)
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	require.EqualValues(t, 10, h.calls.Load())
	require.NoError(t, l.Close())
	_, err := l.AppendThen(t.Context(), msg(100, 'A'), NewCounter(0), h)
	require.ErrorIs(t, err, message.ErrClosed)
	require.EqualValues(t, 10, h.calls.Load())
}

// TestCompletionsWhileFlushing: every append is completed once, in order, whatever
// the syncs take along.
func TestCompletionsWhileFlushing(t *testing.T) {
	cfg := config(t, true)
	cfg.FileSize, cfg.SyncTimeout = 64<<10, time.Hour
	l := start(t, cfg)
	h := &heard{t: t}
	var writers, flushers sync.WaitGroup
	stop := make(chan struct{})
	flushers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				require.NoError(t, l.Flush())
			}
		}
	})
	const each = 2000
	for range 4 {
		writers.Go(func() {
			c := NewCounter(0)
			for range each {
				_, err := l.AppendThen(context.Background(), msg(120, 'A'), c, h)
				require.NoError(t, err)
			}
		})
	}
	writers.Wait()
	close(stop)
	flushers.Wait()
	require.NoError(t, l.Flush())
	require.NoError(t, l.Close())
	require.EqualValues(t, 4*each, h.calls.Load())
}
