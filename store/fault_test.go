package store

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// Paths of the double, as its patterns want them.
const (
	logFiles   = "store/commitlog/*"
	queueFiles = "store/consumequeue/*/*/*"
)

// hold makes operations wait at a gate until it is opened.
func hold(fs *crashfs.FS, op crashfs.Op, pattern string) (open func()) {
	gate := make(chan struct{})
	fs.Hook(func(c crashfs.Call) error {
		if ok, _ := path.Match(pattern, c.Path); ok && c.Op == op {
			<-gate
		}
		return nil
	})
	return sync.OnceFunc(func() {
		fs.Hook(nil)
		close(gate)
	})
}

// bubble runs test in a synctest bubble with a store on the double that has one
// message in it and is at rest.
func bubble(t *testing.T, cfg Config, test func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fs, dir := newCrashFS(t)
		s := openStore(t, dir, withFS(cfg, fs))
		putN(t, s, "t", 0, 1)
		dispatched(t, s)
		rest(s)
		test(t, fs, s)
	})
}

// rest lets all that is done now and then be done.
func rest(*DefaultMessageStore) {
	<-time.After(time.Minute)
	synctest.Wait()
}

// TestNothingIsSeenBeforeItsSync: under FlushSync a message that may still be
// taken back is not read, not found and not announced.
func TestNothingIsSeenBeforeItsSync(t *testing.T) {
	bubble(t, smallConfig(FlushSync), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
		end := s.MaxOffset()
		arrived := make(chan struct{}, 1)
		defer s.NotifyArrival("t", arrived)()
		open := hold(fs, crashfs.OpSync, logFiles)
		answer := make(chan error)
		go func() {
			r, err := s.PutMessage(t.Context(), inner("t", 0, "A"))
			if err == nil && (r.QueueOffset != 1 || r.LogOffset != end) {
				err = errors.New("another place")
			}
			answer <- err
		}()
		synctest.Wait() // all is done that can be

		require.Equal(t, end, s.MaxOffset())
		require.EqualValues(t, 1, s.MaxOffsetInQueue("t", 0))
		require.Equal(t, GetOffsetOverflowOne, read(t, s, "t", 0, 1).Status)
		_, err := s.LookMessageByOffset(t.Context(), end)
		require.ErrorIs(t, err, message.ErrOffsetNotFound)
		require.Empty(t, arrived)
		require.Empty(t, answer)
		require.Equal(t, end, s.Stats().LogDurable)

		image := scratch(t)
		_, err = fs.Crash(crashfs.Oldest, image)
		require.NoError(t, err)

		open()
		require.NoError(t, <-answer)
		synctest.Wait()
		require.Len(t, arrived, 1)
		require.Equal(t, []string{"body0", "A"}, bodies(t, s, "t", 0))
		m, err := s.LookMessageByOffset(t.Context(), end)
		require.NoError(t, err)
		require.Equal(t, "A", string(m.Body))
		closeStore(t, s)

		// The power had failed at the gate: the offset is B's, and nobody saw A.
		crashed := openStore(t, filepath.Join(image, "store"), smallConfig(FlushSync))
		require.EqualValues(t, 1, put(t, crashed, "t", 0, "B").QueueOffset)
		require.Equal(t, []string{"body0", "B"}, bodies(t, crashed, "t", 0))
		closeStore(t, crashed)
	})
}

// TestSlowSyncAnswersWithTheResult: the message is there later.
func TestSlowSyncAnswersWithTheResult(t *testing.T) {
	cfg := smallConfig(FlushSync)
	cfg.FlushTimeout = 3 * time.Second
	bubble(t, cfg, func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
		open := hold(fs, crashfs.OpSync, logFiles)
		defer open()
		for name, ask := range map[string]func(context.Context) (PutMessageResult, error){
			"single": func(ctx context.Context) (PutMessageResult, error) {
				return s.PutMessage(ctx, inner("single", 0, "late"))
			},
			"batch": func(ctx context.Context) (PutMessageResult, error) {
				return s.PutMessages(ctx, batchOf(t, "batch", 0, message.Message{Body: []byte("late")}))
			},
		} {
			began := time.Now()
			r, err := ask(t.Context())
			require.ErrorIs(t, err, message.ErrFlushTimeout, name)
			require.Equal(t, 3*time.Second, time.Since(began))
			require.Equal(t, PutFlushDiskTimeout, r.Status)
			require.Equal(t, "FLUSH_DISK_TIMEOUT", r.Status.String())
			require.True(t, r.Status.Stored())
			require.Positive(t, r.LogOffset)
			require.NotEmpty(t, r.MessageID())

			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			r, err = ask(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.NotErrorIs(t, err, message.ErrFlushTimeout)
			require.Equal(t, PutFlushDiskTimeout, r.Status)
			require.EqualValues(t, 1, r.QueueOffset)
			require.Zero(t, s.MaxOffsetInQueue(name, 0))
		}
		open()
		synctest.Wait()
		require.Equal(t, []string{"late", "late"}, bodies(t, s, "single", 0))
		require.Equal(t, []string{"late", "late"}, bodies(t, s, "batch", 0))
		require.EqualValues(t, 4, s.Stats().PutFailures)
		closeStore(t, s)
	})
}

// TestNoWaitDoesNotWait: WAIT=false gets its place and no promise.
func TestNoWaitDoesNotWait(t *testing.T) {
	bubble(t, smallConfig(FlushSync), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
		open := hold(fs, crashfs.OpSync, logFiles)
		defer open()
		m := inner("t", 0, "body1")
		m.NoWait = true
		r, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, PutOK, r.Status)
		require.EqualValues(t, 1, r.QueueOffset)
		synctest.Wait()
		require.EqualValues(t, 1, s.MaxOffsetInQueue("t", 0), "not seen before its sync either")
		open()
		synctest.Wait()
		require.Equal(t, sequence(2), bodies(t, s, "t", 0))
		closeStore(t, s)
	})
}

// TestEveryWaitEndsWithItsContext goes through all places in which a call can
// wait.
func TestEveryWaitEndsWithItsContext(t *testing.T) {
	ended := func(t *testing.T, call func(context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, nil)
		defer cancel()
		require.ErrorIs(t, call(ctx), context.DeadlineExceeded)
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, call(ctx), context.Canceled)
	}
	t.Run("sync", func(t *testing.T) {
		bubble(t, smallConfig(FlushSync), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
			open := hold(fs, crashfs.OpSync, logFiles)
			defer open()
			ended(t, func(ctx context.Context) error { _, err := s.PutMessage(ctx, inner("t", 0, "x")); return err })
			open()
			synctest.Wait()
		})
	})
	t.Run("flush", func(t *testing.T) {
		fs, dir := newCrashFS(t) // waiting for a mutex stops the clock of a bubble
		s := openStore(t, dir, withFS(smallConfig(FlushAsync), fs))
		putN(t, s, "t", 0, 1)
		open := hold(fs, crashfs.OpSync, logFiles)
		defer open()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, s.Flush(ctx), context.DeadlineExceeded)
		require.ErrorIs(t, s.Flush(ctx), context.DeadlineExceeded)
		open()
		require.NoError(t, s.Flush(t.Context()))
		closeStore(t, s)
	})
	t.Run("room in the log", func(t *testing.T) {
		bubble(t, smallConfig(FlushAsync), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
			open := hold(fs, crashfs.OpAllocate, logFiles)
			defer open()
			n := 1
			ended(t, func(ctx context.Context) error {
				for {
					r, err := s.PutMessage(ctx, inner("t", 0, strings.Repeat("b", 5000)))
					if err != nil {
						require.False(t, r.Status.Stored())
						return err
					}
					require.EqualValues(t, n, r.QueueOffset)
					n++
				}
			})
			open()
			synctest.Wait()
			require.EqualValues(t, n, put(t, s, "t", 0, "x").QueueOffset, "a put that gave up left no hole")
		})
	})
	t.Run("dispatcher", func(t *testing.T) {
		cfg := smallConfig(FlushAsync)
		cfg.MaxDispatchLag = 1000
		bubble(t, cfg, func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
			open := hold(fs, crashfs.OpCreate, queueFiles)
			defer open()
			n := 0
			ended(t, func(ctx context.Context) error {
				for {
					r, err := s.PutMessage(ctx, inner("other", 0, strings.Repeat("b", 500)))
					if err != nil {
						require.False(t, r.Status.Stored())
						return err
					}
					n++
				}
			})
			require.Positive(t, s.Stats().LagWaits)
			require.LessOrEqual(t, s.Stats().DispatchLag, int64(2000))
			ended(t, func(ctx context.Context) error { return s.WaitDispatched(ctx, s.MaxOffset()) })
			open()
			synctest.Wait()
			dispatched(t, s)
			require.Len(t, bodies(t, s, "other", 0), n)
		})
	})
	t.Run("asked too late", func(t *testing.T) {
		s := openStore(t, scratch(t), smallConfig(FlushSync))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.PutMessage(ctx, inner("t", 0, "x"))
		require.ErrorIs(t, err, context.Canceled)
		_, err = s.PutMessages(ctx, batchOf(t, "t", 0, message.Message{Body: []byte("x")}))
		require.ErrorIs(t, err, context.Canceled)
		r, err := s.GetMessage(ctx, GetQuery{Topic: "t"})
		require.ErrorIs(t, err, context.Canceled)
		require.Nil(t, r)
		_, err = s.LookMessageByOffset(ctx, 0)
		require.ErrorIs(t, err, context.Canceled)
		require.EqualValues(t, 0, put(t, s, "t", 0, "x").QueueOffset)
		closeStore(t, s)
		_, err = Open(ctx, s.Dir(), smallConfig(FlushSync))
		require.ErrorIs(t, err, context.Canceled)
		s = openStore(t, s.Dir(), smallConfig(FlushSync))
		require.EqualValues(t, 1, s.MaxOffsetInQueue("t", 0))
	})
}

// TestFailedSyncIsFinal: the put that waited fails, later ones are refused with
// the cause, what was not synced is never seen, reads go on, and the marker of
// an unclean stop stays. Opening again repairs: what is served then is on
// disk, though the failed sync left pages in the cache that look written.
func TestFailedSyncIsFinal(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			bubble(t, smallConfig(mode), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
				putN(t, s, "t", 1, 1)
				require.NoError(t, s.Flush(t.Context()))
				durable := s.Stats().LogDurable
				fault := fs.FailOn(crashfs.OpSync, logFiles, 1, syscall.EIO)

				r, err := s.PutMessage(t.Context(), inner("t", 0, "body2"))
				if mode == FlushAsync {
					require.NoError(t, err)
					err = s.Flush(t.Context())
				} else {
					require.Equal(t, PutServiceNotAvailable, r.Status)
				}
				require.ErrorIs(t, err, message.ErrFlush)
				require.ErrorIs(t, err, syscall.EIO)
				require.Equal(t, 1, fault.Fired())
				for range 3 {
					r, err := s.PutMessage(t.Context(), inner("t", 0, "x"))
					require.ErrorIs(t, err, message.ErrFlush)
					require.ErrorIs(t, err, syscall.EIO, "the cause is told")
					require.Equal(t, PutServiceNotAvailable, r.Status)
					require.False(t, r.Status.Stored())
					require.ErrorIs(t, s.Flush(t.Context()), message.ErrFlush)
				}
				require.Equal(t, durable, s.Stats().LogDurable)
				seen := bodies(t, s, "t", 0)
				require.Equal(t, sequence(len(seen)), seen)
				if mode == FlushSync {
					require.Len(t, seen, 2)
				}
				rest(s)
				require.ErrorIs(t, s.Close(), message.ErrFlush)
				require.FileExists(t, filepath.Join(s.Dir(), abortFile))

				again := openStore(t, s.Dir(), s.cfgOf(fs))
				require.False(t, again.Recovery().Clean)
				seen = bodies(t, again, "t", 0)
				require.Equal(t, sequence(len(seen)), seen)
				require.GreaterOrEqual(t, len(seen), 2)
				image := scratch(t)
				_, err = fs.Crash(crashfs.Oldest, image)
				require.NoError(t, err)
				putN(t, again, "t", len(seen), 2)
				closeStore(t, again)

				crashed := openStore(t, filepath.Join(image, "store"), smallConfig(mode))
				require.Equal(t, seen, bodies(t, crashed, "t", 0), "what was served after the repair is on disk")
				closeStore(t, crashed)
			})
		})
	}
}

// cfgOf is the configuration that s was opened with.
func (s *DefaultMessageStore) cfgOf(fs *crashfs.FS) Config {
	cfg := s.cfg
	cfg.fs = fs
	return cfg
}

// TestStaleHandleIsNotForgotten: an error of an unusual kind is final, too, and
// removes no file.
func TestStaleHandleIsNotForgotten(t *testing.T) {
	bubble(t, smallConfig(FlushSync), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
		before, err := filepath.Glob(filepath.Join(s.Dir(), "*", "*"))
		require.NoError(t, err)
		before = slices.DeleteFunc(before, func(path string) bool { // one that was made ahead may go
			return filepath.Base(filepath.Dir(path)) == "commitlog" && filepath.Base(path) != "00000000000000000000"
		})
		require.Greater(t, len(before), 2)
		fs.FailOn(crashfs.OpWriteAt, logFiles, 1, syscall.ESTALE)
		_, err = s.PutMessage(t.Context(), inner("t", 0, "x"))
		require.ErrorIs(t, err, syscall.ESTALE)
		_, err = s.PutMessage(t.Context(), inner("t", 0, "x"))
		require.ErrorIs(t, err, message.ErrFlush)
		require.Equal(t, sequence(1), bodies(t, s, "t", 0))
		require.Error(t, s.Close())
		after, err := filepath.Glob(filepath.Join(s.Dir(), "*", "*"))
		require.NoError(t, err)
		require.Subset(t, after, before)
		again := openStore(t, s.Dir(), smallConfig(FlushSync))
		require.Equal(t, sequence(1), bodies(t, again, "t", 0))
		putN(t, again, "t", 1, 1)
		closeStore(t, again)
	})
}

// TestFullDiskRefusesAndRecovers: puts are refused with ErrDiskFull, reads go
// on, and writing resumes by itself when there is space, without a hole.
func TestFullDiskRefusesAndRecovers(t *testing.T) {
	for _, mode := range bothModes {
		for _, op := range []crashfs.Op{crashfs.OpAllocate, crashfs.OpCreate} {
			t.Run(mode.String()+" "+string(op), func(t *testing.T) {
				bubble(t, smallConfig(mode), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
					full := fs.FailFrom(op, logFiles, 1, segment.ErrNoSpace)
					n := message.QueueOffset(1)
					for {
						r, err := s.PutMessage(t.Context(), inner("t", 0, strings.Repeat("b", 3000)))
						if err != nil {
							require.ErrorIs(t, err, message.ErrDiskFull)
							require.Equal(t, PutServiceNotAvailable, r.Status)
							require.False(t, r.Status.Stored())
							break
						}
						require.Equal(t, n, r.QueueOffset)
						n++
						require.Less(t, n, message.QueueOffset(20))
					}
					_, err := s.PutMessages(t.Context(), batchOf(t, "t", 0, message.Message{Body: make([]byte, 3000)}))
					require.ErrorIs(t, err, message.ErrDiskFull)
					require.NoError(t, s.Flush(t.Context()), "what was stored can be kept")
					require.Len(t, bodies(t, s, "t", 0), int(n))
					full.Stop()
					for range 8 { // two more files
						require.Equal(t, n, put(t, s, "t", 0, strings.Repeat("b", 3000)).QueueOffset)
						n++
					}
					require.Len(t, bodies(t, s, "t", 0), int(n))
					closeStore(t, s)
					again := openStore(t, s.Dir(), smallConfig(mode))
					require.True(t, again.Recovery().Clean)
					require.Len(t, bodies(t, again, "t", 0), int(n))
					closeStore(t, again)
				})
			})
		}
	}
}

// TestFullDiskAtOpen: an existing store says why it does not open, and does when
// there is space.
func TestFullDiskAtOpen(t *testing.T) {
	fs, dir := newCrashFS(t)
	cfg := withFS(smallConfig(FlushSync), fs)
	s := openStore(t, dir, cfg)
	putN(t, s, "t", 0, 3)
	closeStore(t, s)
	full := []*crashfs.Fault{
		fs.FailFrom(crashfs.OpCreate, "", 1, segment.ErrNoSpace),
		fs.FailFrom(crashfs.OpAllocate, "", 1, segment.ErrNoSpace),
	}
	_, err := Open(t.Context(), dir, cfg)
	require.ErrorIs(t, err, message.ErrDiskFull)
	for _, f := range full {
		f.Stop()
	}
	s = openStore(t, dir, cfg)
	require.True(t, s.Recovery().Clean)
	require.Equal(t, sequence(3), bodies(t, s, "t", 0))
	closeStore(t, s)
}

// TestDispatcherThatCanNotGoOnHoldsPutsBack: with no space for consume queues,
// puts are refused beyond MaxDispatchLag; nothing is lost when space returns.
func TestDispatcherThatCanNotGoOnHoldsPutsBack(t *testing.T) {
	cfg := smallConfig(FlushSync)
	cfg.MaxDispatchLag = 2000
	bubble(t, cfg, func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
		full := fs.FailFrom(crashfs.OpCreate, queueFiles, 1, segment.ErrNoSpace)
		n := 0
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			r, err := s.PutMessage(ctx, inner("other", 0, "body"+strings.Repeat("b", 400)))
			cancel()
			if err != nil {
				require.ErrorIs(t, err, message.ErrDiskFull)
				require.Equal(t, PutServiceNotAvailable, r.Status)
				break
			}
			require.EqualValues(t, n, r.QueueOffset)
			n++
		}
		require.Greater(t, n, 2)
		require.Less(t, n, 8)
		require.ErrorIs(t, s.WaitDispatched(t.Context(), s.MaxOffset()), message.ErrDiskFull)
		stats := s.Stats()
		require.Positive(t, stats.DispatchFailures)
		require.Greater(t, stats.DispatchLag, cfg.MaxDispatchLag)
		require.Equal(t, sequence(1), read(t, s, "t", 0, 0).texts(), "other queues can be read")
		require.Zero(t, s.MaxOffsetInQueue("other", 0))

		full.Stop()
		<-time.After(10 * time.Second) // it tries again by itself
		require.EqualValues(t, n, s.MaxOffsetInQueue("other", 0))
		require.EqualValues(t, n, put(t, s, "other", 0, "x").QueueOffset)
		require.Len(t, bodies(t, s, "other", 0), n+1)
		closeStore(t, s)
	})
}

// TestCloseBehindDispatchIsNotClean: a store that can not dispatch what it has
// says so at Close, and the next Open makes up for it.
func TestCloseBehindDispatchIsNotClean(t *testing.T) {
	bubble(t, smallConfig(FlushSync), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
		full := fs.FailFrom(crashfs.OpCreate, queueFiles, 1, segment.ErrNoSpace)
		for i := range 5 {
			require.EqualValues(t, i, put(t, s, "other", 0, sequence(5)[i]).QueueOffset)
		}
		require.ErrorIs(t, s.Close(), message.ErrDiskFull)
		require.FileExists(t, filepath.Join(s.Dir(), abortFile))
		full.Stop()
		again := openStore(t, s.Dir(), smallConfig(FlushSync))
		require.False(t, again.Recovery().Clean)
		require.Equal(t, sequence(5), bodies(t, again, "other", 0))
		closeStore(t, again)
	})
}

// texts are the bodies of a result.
func (r *GetMessageResult) texts() []string {
	var out []string
	for _, v := range r.Messages {
		out = append(out, string(v.Body()))
	}
	return out
}

// TestShutdownIsBounded: it returns with its context though a sync hangs; the
// marker stays as long as that is so, and the rest happens when it can.
func TestShutdownIsBounded(t *testing.T) {
	fs, dir := newCrashFS(t) // waiting for a mutex stops the clock of a bubble
	s := openStore(t, dir, withFS(smallConfig(FlushSync), fs))
	putN(t, s, "t", 0, 1)
	reached := make(chan struct{}, 1)
	gate := make(chan struct{})
	fs.Hook(func(c crashfs.Call) error {
		if ok, _ := path.Match(logFiles, c.Path); ok && c.Op == crashfs.OpSync {
			select {
			case reached <- struct{}{}:
			default:
			}
			<-gate
		}
		return nil
	})
	open := sync.OnceFunc(func() { fs.Hook(nil); close(gate) })
	defer open()
	answer := make(chan error, 1)
	go func() { _, err := s.PutMessage(context.Background(), inner("t", 0, "body1")); answer <- err }()
	<-reached
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		require.ErrorIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
		cancel()
	}
	require.FileExists(t, filepath.Join(dir, abortFile))
	_, err := s.PutMessage(t.Context(), inner("t", 0, "x"))
	require.ErrorIs(t, err, message.ErrClosed)
	_, err = Open(t.Context(), dir, smallConfig(FlushSync))
	require.ErrorIs(t, err, message.ErrLocked, "it is not given back yet")
	open()
	require.NoError(t, <-answer)
	require.NoError(t, s.Close())
	again := openStore(t, dir, smallConfig(FlushSync))
	require.Equal(t, sequence(2), bodies(t, again, "t", 0))
	closeStore(t, again)
}

// TestIdleStoreWritesNothing: after the last message a store does what is due,
// and from then on nothing at all.
func TestIdleStoreWritesNothing(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			cfg := smallConfig(mode)
			cfg.FlushInterval = time.Millisecond
			bubble(t, cfg, func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
				stop := fs.Record()
				<-time.After(time.Hour)
				require.Empty(t, stop())
				stop = fs.Record()
				putN(t, s, "t", 1, 1)
				rest(s)
				require.NotEmpty(t, stop())
				require.Equal(t, s.Stats().LogEnd, s.Stats().LogDurable, "FlushInterval is kept")
				image := scratch(t)
				_, err := fs.Crash(crashfs.Oldest, image)
				require.NoError(t, err)
				stop = fs.Record()
				<-time.After(time.Hour)
				require.Empty(t, stop())
				closeStore(t, s)

				crashed := openStore(t, filepath.Join(image, "store"), smallConfig(mode))
				require.Equal(t, sequence(2), bodies(t, crashed, "t", 0), "what was flushed now and then is on disk")
				closeStore(t, crashed)
			})
		})
	}
}

// TestReplacedFilesAreNoticed: whoever removes or replaces a file of the log
// under an open store makes it stop writing (a RocketMQ broker that starts
// cleans up before it looks at the lock).
func TestReplacedFilesAreNoticed(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			b, err := os.ReadFile(path)
			return errors.Join(err, os.Remove(path), os.WriteFile(path, b, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openStore(t, scratch(t), smallConfig(FlushSync))
				putN(t, s, "t", 0, 1)
				rest(s)
				require.NoError(t, replace(filepath.Join(s.Dir(), "commitlog", segment.FileName(0))))
				_, _ = s.PutMessage(t.Context(), inner("t", 0, "body1"))
				rest(s)
				r, err := s.PutMessage(t.Context(), inner("t", 0, "x"))
				require.ErrorIs(t, err, segment.ErrMoved)
				require.Equal(t, PutServiceNotAvailable, r.Status)
				require.Contains(t, err.Error(), segment.FileName(0))
				require.ErrorIs(t, s.Close(), segment.ErrMoved)
				require.FileExists(t, filepath.Join(s.Dir(), abortFile))
				if name == "removed" {
					again := openStore(t, s.Dir(), smallConfig(FlushSync))
					require.Equal(t, sequence(2), bodies(t, again, "t", 0), "what was removed is put back")
					closeStore(t, again)
				}
			})
		})
	}
}

// TestNothingGoesIntoARemovedFile: a RocketMQ broker that starts removes the log
// files that have nothing in them yet. What was acknowledged is kept, and so is
// what was put before anybody looked.
func TestNothingGoesIntoARemovedFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file can not be removed on Windows")
	}
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			s := openStore(t, scratch(t), smallConfig(mode))
			next := filepath.Join(s.Dir(), "commitlog", segment.FileName(testSegment))
			var acknowledged []string
			for {
				body := strings.Repeat(string(rune('a'+len(acknowledged)%26)), 1000)
				_, err := s.PutMessage(t.Context(), inner("t", 0, body))
				if err != nil {
					require.ErrorIs(t, err, ErrMoved)
					require.Contains(t, err.Error(), next)
					break
				}
				acknowledged = append(acknowledged, body)
				if len(acknowledged) == 10 { // more than half of the file: the next one is made
					for os.Remove(next) != nil {
						runtime.Gosched()
					}
				}
				require.Less(t, len(acknowledged), testSegment/1000, "the second file was entered")
			}
			require.ErrorIs(t, s.Close(), ErrMoved)
			again := openStore(t, s.Dir(), smallConfig(mode))
			require.Equal(t, acknowledged, bodies(t, again, "t", 0))
			closeStore(t, again)
		})
	}
}
