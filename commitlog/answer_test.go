package commitlog

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestVisibleBeforeTheAnswer: who follows the log is told before those who wait for the sync.
func TestVisibleBeforeTheAnswer(t *testing.T) {
	cfg := config(t, true)
	synctest.Test(t, func(t *testing.T) {
		var l *Log
		var answered, told atomic.Int32
		cfg.Visible = func() {
			told.Add(1)
			require.Equal(t, l.Visible(), l.Durable())
			require.EqualValues(t, 200, l.Visible())
			synctest.Wait() // whoever has been answered has gone on now
			require.Zero(t, answered.Load())
		}
		l = start(t, cfg)
		defer func() { require.NoError(t, l.Close()) }()
		p := add(t, l, NewCounter(0), 200, 'A')
		go func() {
			require.NoError(t, l.Wait(context.Background(), p, time.Hour))
			answered.Add(1)
		}()
		synctest.Wait()
		require.NoError(t, l.Flush())
		synctest.Wait()
		require.EqualValues(t, 1, told.Load())
		require.EqualValues(t, 1, answered.Load())
		require.NoError(t, l.Flush())
		require.EqualValues(t, 1, told.Load(), "nothing was synced")
	})
}

// TestVisibleIsNotToldOfAFailure: nothing has become visible then.
func TestVisibleIsNotToldOfAFailure(t *testing.T) {
	fsys := newFaultFS()
	cfg := config(t, true)
	cfg.FS = fsys
	cfg.Visible = func() { t.Error("told") }
	l := start(t, cfg)
	p := add(t, l, NewCounter(0), 200, 'A')
	fsys.set(func(op, _ string) error {
		if op == "sync" {
			return errInjected
		}
		return nil
	})
	require.ErrorIs(t, l.Flush(), errInjected)
	require.ErrorIs(t, l.Wait(context.Background(), p, time.Hour), errInjected)
	require.Zero(t, l.Visible())
}

// TestZerosAreWrittenBehindTheData: the work ahead of the writer begins when a group has been written, not when its
// first message is placed, and goes with the next sync.
func TestZerosAreWrittenBehindTheData(t *testing.T) {
	fsys := newFaultFS()
	cfg := config(t, true)
	cfg.FS, cfg.FileSize = fsys, 4<<20
	synctest.Test(t, func(t *testing.T) {
		l := start(t, cfg)
		defer func() { require.NoError(t, l.Close()) }()
		c := NewCounter(0)
		add(t, l, c, 200, 'A') // has the file made
		require.NoError(t, l.Flush())
		synctest.Wait()
		ready := l.ahead.Ready()
		for l.end < ready-1000 {
			add(t, l, c, 1000, 'B')
		}
		synctest.Wait()
		require.Equal(t, ready, l.ahead.Ready(), "all of it may be used before the next sync")
		fsys.set(func(op, path string) error {
			if op == "sync" && path == pathOf(cfg, 0) {
				synctest.Wait()
			}
			return nil
		})
		require.NoError(t, l.Flush())
		require.Greater(t, l.ahead.Ready(), ready, "during the sync")
		require.GreaterOrEqual(t, l.ahead.Ready()-l.end, int64(leastStaged))
	})
}
