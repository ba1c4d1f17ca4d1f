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

func TestOneSyncServesManyWriters(t *testing.T) {
	fsys := newFaultFS()
	cfg := config(t, true)
	cfg.FS, cfg.FileSize = fsys, 256<<10
	l := start(t, cfg)
	add(t, l, NewCounter(0), 200, 'A') // makes the first file
	require.NoError(t, l.Flush())
	var syncs atomic.Int32
	fsys.set(func(op, path string) error {
		if op == "sync" && path == pathOf(cfg, 0) { // the next file may be made meanwhile
			syncs.Add(1)
		}
		return nil
	})
	const writers = 16
	var placed, waited sync.WaitGroup
	placed.Add(writers)
	for i := range writers {
		waited.Go(func() {
			p, err := l.Append(context.Background(), msg(300, 'A'+byte(i)), NewCounter(0))
			placed.Done()
			require.NoError(t, err)
			require.NoError(t, l.Wait(context.Background(), p, time.Hour))
			require.GreaterOrEqual(t, l.Durable(), p.End())
			require.GreaterOrEqual(t, l.Visible(), p.End())
		})
	}
	placed.Wait()
	require.NoError(t, l.Flush())
	waited.Wait()
	require.Equal(t, int32(1), syncs.Load())
	require.Len(t, scanned(t, l), writers+1)
}

func TestFailedSyncIsFinal(t *testing.T) {
	for _, op := range []string{"write", "sync"} {
		t.Run("staged "+op, func(t *testing.T) {
			fsys := newFaultFS()
			cfg := config(t, true)
			cfg.FS, cfg.FileSize = fsys, 64<<10
			l := start(t, cfg)
			c := NewCounter(0)
			kept := add(t, l, c, 200, 'K')
			require.NoError(t, l.Flush())
			const writers = 8
			var placed, waited sync.WaitGroup
			placed.Add(writers)
			for range writers {
				waited.Go(func() {
					p, err := l.Append(context.Background(), msg(300, 'L'), c)
					placed.Done()
					require.NoError(t, err)
					err = l.Wait(context.Background(), p, time.Hour)
					require.ErrorIs(t, err, message.ErrFlush)
					require.ErrorIs(t, err, errInjected)
				})
			}
			placed.Wait()
			fsys.set(failing(op, errInjected))
			first := l.Flush()
			require.ErrorIs(t, first, message.ErrFlush)
			require.ErrorIs(t, first, errInjected)
			waited.Wait()
			fsys.set(nil) // the disk is well again, which proves nothing
			for range 3 {
				require.Equal(t, first, l.Flush())
				_, err := l.Append(context.Background(), msg(300, 'M'), c)
				require.Equal(t, first, err)
				require.Equal(t, first, l.Refusal())
			}
			require.Equal(t, kept.End(), l.Visible(), "reads go on, up to what was kept")
			require.Equal(t, kept.End(), l.Durable())
			require.Equal(t, []string{"0:0:K"}, scanned(t, l))
		})
	}
	t.Run("direct sync", func(t *testing.T) {
		fsys := newFaultFS()
		cfg := config(t, false)
		cfg.FS = fsys
		l := start(t, cfg)
		c := NewCounter(0)
		p := add(t, l, c, 200, 'K')
		fsys.set(failing("sync", errInjected))
		first := l.Flush()
		require.ErrorIs(t, first, message.ErrFlush)
		require.ErrorIs(t, first, errInjected)
		fsys.set(nil)
		require.Equal(t, first, l.Flush())
		_, err := l.Append(context.Background(), msg(100, 'M'), c)
		require.Equal(t, first, err)
		require.Zero(t, l.Durable())
		require.Equal(t, p.End(), l.Visible())
		require.Equal(t, []string{"0:0:K"}, scanned(t, l))
	})
}

func TestFirstCauseStays(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		l := start(t, config(t, staged))
		c := NewCounter(0)
		p := add(t, l, c, 200, 'A')
		l.Fail(errInjected)
		first := l.Refusal()
		require.ErrorIs(t, first, errInjected)
		l.Fail(context.Canceled)
		require.Equal(t, first, l.Refusal())
		require.Equal(t, first, l.Flush())
		_, err := l.Append(context.Background(), msg(100, 'M'), c)
		require.Equal(t, first, err)
		if staged {
			require.Equal(t, first, l.Wait(context.Background(), p, time.Hour))
		}
		require.NoError(t, l.Close())
		require.ErrorIs(t, l.Refusal(), message.ErrClosed)
		require.Equal(t, first, l.Flush())
	})
}

func TestWaitForSyncEndsEarly(t *testing.T) {
	cfg := config(t, true)
	synctest.Test(t, func(t *testing.T) {
		l := start(t, cfg)
		defer l.Close()
		p := add(t, l, NewCounter(0), 200, 'A')
		began := time.Now()
		require.ErrorIs(t, l.Wait(context.Background(), p, 5*time.Second), message.ErrFlushTimeout)
		require.Equal(t, 5*time.Second, time.Since(began))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		require.ErrorIs(t, l.Wait(ctx, p, 5*time.Second), context.DeadlineExceeded)
		require.Equal(t, 6*time.Second, time.Since(began))
		require.NoError(t, l.Flush(), "the sync may still happen")
		require.NoError(t, l.Wait(ctx, p, 0), "what is on disk is on disk, whatever the context says")
	})
}

// TestFullGroupHoldsAppendsBack fills what one sync takes along; further appends
// wait for that sync, the end of their context, or of the log.
func TestFullGroupHoldsAppendsBack(t *testing.T) {
	open := func(t *testing.T) (*Log, *Counter) {
		cfg := config(t, true)
		cfg.FileSize = 16 << 20
		l := start(t, cfg)
		c := NewCounter(0)
		require.NoError(t, l.ahead.Wait(context.Background(), 2*groupMax)) // the wait is not for space
		add(t, l, c, groupMax-100, 'A')
		return l, c
	}
	t.Run("context", func(t *testing.T) {
		l, c := open(t)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := l.Append(ctx, msg(200, 'B'), c)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, l.Flush())
		require.Equal(t, message.QueueOffset(1), add(t, l, c, 200, 'B').QueueOffset)
	})
	for _, tc := range []struct {
		about string
		end   func(*Log) error
		want  error
	}{
		{"flush", (*Log).Flush, nil},
		{"failure", func(l *Log) error { l.Fail(errInjected); return nil }, errInjected},
		{"close", (*Log).Close, message.ErrClosed},
	} {
		t.Run(tc.about, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, c := open(t)
				done := make(chan error, 1)
				go func() {
					_, err := l.Append(context.Background(), msg(200, 'B'), c)
					done <- err
				}()
				synctest.Wait() // it is held back
				require.Empty(t, done)
				require.NoError(t, tc.end(l))
				require.ErrorIs(t, <-done, tc.want)
			})
		})
	}
}

func TestFlushWhileAppending(t *testing.T) {
	bothModes(t, func(t *testing.T, staged bool) {
		cfg := config(t, staged)
		cfg.FileSize = 8 << 10
		l := start(t, cfg)
		const writers, each = 6, 60
		var w, flushers sync.WaitGroup
		kick := make(chan struct{}, 1)
		for range 2 {
			flushers.Go(func() {
				for range kick {
					require.NoError(t, l.Flush())
				}
			})
		}
		for range writers {
			w.Go(func() {
				c := NewCounter(0)
				for n := range each {
					p, err := l.Append(context.Background(), msg(100+n*11, 'A'), c)
					require.NoError(t, err)
					require.Equal(t, message.QueueOffset(n), p.QueueOffset)
					select {
					case kick <- struct{}{}:
					default:
					}
					require.NoError(t, l.Wait(context.Background(), p, time.Hour))
					require.GreaterOrEqual(t, l.Visible(), p.End())
				}
			})
		}
		w.Wait()
		close(kick)
		flushers.Wait()
		require.NoError(t, l.Flush())
		require.Equal(t, l.Visible(), l.Durable())
		want := scanned(t, l)
		require.Len(t, want, writers*each)
		require.Empty(t, l.Damaged())
		require.NoError(t, l.Close())
		require.Equal(t, want, scanned(t, start(t, cfg)))
	})
}

// TestFlushGoesOnFileByFile: what is synced counts after each file, so who waits
// because too much is dirty goes on then; of a flush that fails later nobody is told.
func TestFlushGoesOnFileByFile(t *testing.T) {
	fs := newFaultFS()
	cfg := config(t, false)
	cfg.FS, cfg.MaxDirty, cfg.WantFlush = fs, 3072, func() {}
	cfg.Synced = func(s Sync) { t.Errorf("told of %+v", s) }
	l := start(t, cfg)
	c := NewCounter(0)
	for i := range 6 {
		add(t, l, c, 500, byte('A'+i))
	}
	reached, gate := make(chan struct{}), make(chan struct{})
	second := pathOf(cfg, 1024)
	fs.set(func(op, path string) error {
		if op != "sync" || path != second {
			return nil
		}
		close(reached)
		<-gate
		return errInjected
	})
	flushed := make(chan error, 1)
	go func() { flushed <- l.Flush() }()
	<-reached
	require.EqualValues(t, 1024, l.Durable())
	require.EqualValues(t, 3072, add(t, l, c, 500, 'G').LogOffset, "which was too much before")
	close(gate)
	require.ErrorIs(t, <-flushed, message.ErrFlush)
	require.EqualValues(t, 1024, l.Durable())
	_, err := l.Append(t.Context(), msg(500, 'H'), c)
	require.ErrorIs(t, err, errInjected)
}
