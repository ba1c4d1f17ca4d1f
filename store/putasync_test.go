package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/message"
)

// answer is one call of a done.
type answer struct {
	r   PutMessageResult
	err error
}

// answers collects calls of done.
type answers struct {
	mu   sync.Mutex
	list []answer
}

func (a *answers) done(r PutMessageResult, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, answer{r, err})
}

func (a *answers) all() []answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.list
}

// TestAsyncPutsAnswerAfterTheirSync: each once, in log order, with what PutMessage
// would say, and what was confirmed is on disk.
func TestAsyncPutsAnswerAfterTheirSync(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	var got answers
	var last message.LogOffset // of the goroutine that calls done
	done := func(r PutMessageResult, err error) {
		if r.LogOffset < last {
			t.Errorf("%d after %d", r.LogOffset, last)
		}
		last = r.LogOffset
		if end := r.LogOffset + message.LogOffset(r.Bytes); s.log.Durable() < end || s.MaxOffset() < end {
			t.Errorf("a message that ends at %d is confirmed, and what is on disk ends at %d", end, s.log.Durable())
		}
		got.done(r, err)
	}
	const writers, each = 4, 100
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("%d-%d", w, i)
				if i%10 > 0 {
					s.PutMessageAsync(t.Context(), inner("t", int32(w), name), done)
					continue
				}
				b := batchOf(t, "b", int32(w), message.Message{Body: []byte(name + "a")}, message.Message{Body: []byte(name + "b")})
				s.PutMessagesAsync(t.Context(), b, done)
			}
		})
	}
	wg.Wait()
	closeStore(t, s)
	require.Len(t, got.all(), writers*each)
	again := openStore(t, s.Dir(), smallConfig(FlushSync))
	for _, a := range got.all() {
		require.NoError(t, a.err)
		require.Equal(t, PutOK, a.r.Status)
		for i := range a.r.Count {
			off := a.r.LogOffset
			if a.r.Offsets != nil {
				off = a.r.Offsets[i]
			}
			m, err := again.LookMessageByOffset(t.Context(), off)
			require.NoError(t, err)
			require.Equal(t, a.r.QueueOffset+message.QueueOffset(i), m.QueueOffset)
			require.Equal(t, a.r.StoreTimestamp, m.StoreTimestamp)
			require.Equal(t, a.r.StoreHost, m.StoreHost)
			require.Equal(t, a.r.Count == 1, m.Topic == "t")
		}
	}
}

// TestOneSyncConfirmsManyAsyncPuts from a single goroutine: that is what they
// are for.
func TestOneSyncConfirmsManyAsyncPuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, dir, release := HeldSyncs(t, Config{SegmentSize: 1 << 20, MaxBodySize: 1000})
		s := openStore(t, dir, cfg)
		var got answers
		const n = 500
		for i := range n {
			s.PutMessageAsync(t.Context(), inner("t", 0, fmt.Sprint("body", i)), got.done)
		}
		synctest.Wait()
		require.Empty(t, got.all(), "nothing is synced")
		require.Zero(t, s.MaxOffset())
		syncs := s.Stats().Syncs
		release()
		synctest.Wait()
		require.Len(t, got.all(), n)
		require.LessOrEqual(t, s.Stats().Syncs-syncs, int64(2), "the one that was held and the one behind it")
		for i, a := range got.all() {
			require.NoError(t, a.err)
			require.EqualValues(t, i, a.r.QueueOffset)
		}
		closeStore(t, s)
	})
}

// TestAsyncPutAnswersBeforeItReturns where no sync is promised, and for what is
// refused.
func TestAsyncPutAnswersBeforeItReturns(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	noWait := inner("t", 0, "x")
	noWait.NoWait = true
	batch := batchOf(t, "t", 0, message.Message{Body: []byte("1")}, message.Message{Body: []byte("2")})
	noWaitBatch := *batch
	noWaitBatch.NoWait = true
	for _, c := range []struct {
		name string
		mode FlushMode
		put  func(s *DefaultMessageStore, done func(PutMessageResult, error))
		want PutMessageStatus
		err  error
	}{
		{"async flush", FlushAsync, func(s *DefaultMessageStore, done func(PutMessageResult, error)) {
			s.PutMessageAsync(t.Context(), inner("t", 0, "x"), done)
		}, PutOK, nil},
		{"async flush of a batch", FlushAsync, func(s *DefaultMessageStore, done func(PutMessageResult, error)) {
			s.PutMessagesAsync(t.Context(), batch, done)
		}, PutOK, nil},
		{"NoWait", FlushSync, func(s *DefaultMessageStore, done func(PutMessageResult, error)) {
			s.PutMessageAsync(t.Context(), noWait, done)
		}, PutOK, nil},
		{"NoWait of a batch", FlushSync, func(s *DefaultMessageStore, done func(PutMessageResult, error)) {
			s.PutMessagesAsync(t.Context(), &noWaitBatch, done)
		}, PutOK, nil},
		{"no topic", FlushSync, func(s *DefaultMessageStore, done func(PutMessageResult, error)) {
			s.PutMessageAsync(t.Context(), inner("", 0, "x"), done)
		}, PutMessageIllegal, message.ErrIllegal},
		{"empty batch", FlushSync, func(s *DefaultMessageStore, done func(PutMessageResult, error)) {
			s.PutMessagesAsync(t.Context(), batchOf(t, "t", 0), done)
		}, PutMessageIllegal, message.ErrIllegal},
		{"context", FlushSync, func(s *DefaultMessageStore, done func(PutMessageResult, error)) {
			s.PutMessageAsync(ended, inner("t", 0, "x"), done)
		}, PutOSPageCacheBusy, context.Canceled},
		{"closed", FlushSync, func(s *DefaultMessageStore, done func(PutMessageResult, error)) {
			closeStore(t, s)
			s.PutMessageAsync(t.Context(), inner("t", 0, "x"), done)
		}, PutServiceNotAvailable, message.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openStore(t, scratch(t), smallConfig(c.mode))
			var got answers
			c.put(s, got.done)
			require.Len(t, got.all(), 1)
			a := got.all()[0]
			require.ErrorIs(t, a.err, c.err)
			require.Equal(t, c.want, a.r.Status)
			require.Equal(t, c.want == PutOK, a.r.Count > 0)
			closeStore(t, s)
			require.Len(t, got.all(), 1)
		})
	}
}

// TestAsyncPutTimesOut as PutMessage does: FLUSH_DISK_TIMEOUT after FlushTimeout,
// each message at its own time, and the message is kept.
func TestAsyncPutTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, dir, release := HeldSyncs(t, smallConfig(FlushSync))
		cfg.FlushTimeout = 5 * time.Second
		s := openStore(t, dir, cfg)
		var got answers
		s.PutMessageAsync(t.Context(), inner("t", 0, "body0"), got.done)
		time.Sleep(3 * time.Second) // the first one's sync has begun and is held
		s.PutMessageAsync(t.Context(), inner("t", 0, "body1"), got.done)
		time.Sleep(2*time.Second - 1)
		synctest.Wait()
		require.Empty(t, got.all())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Len(t, got.all(), 1)
		a := got.all()[0]
		require.ErrorIs(t, a.err, message.ErrFlushTimeout)
		require.Equal(t, PutFlushDiskTimeout, a.r.Status)
		require.Zero(t, a.r.LogOffset)
		require.Positive(t, a.r.Bytes)
		time.Sleep(3*time.Second - 1)
		synctest.Wait()
		require.Len(t, got.all(), 1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Len(t, got.all(), 2)
		require.ErrorIs(t, got.all()[1].err, message.ErrFlushTimeout)
		s.PutMessageAsync(t.Context(), inner("t", 0, "body2"), got.done)
		release()
		synctest.Wait()
		require.Len(t, got.all(), 3)
		require.NoError(t, got.all()[2].err)
		require.Equal(t, sequence(3), bodies(t, s, "t", 0))
		require.EqualValues(t, 2, s.Stats().PutFailures)
		closeStore(t, s)
		require.Len(t, got.all(), 3)
	})
}

// TestCloseAnswersAsyncPuts: each once, with nil when its sync succeeded and with
// the failure otherwise, after which nothing more is taken.
func TestCloseAnswersAsyncPuts(t *testing.T) {
	for _, fail := range []bool{false, true} {
		t.Run(fmt.Sprint("fail=", fail), func(t *testing.T) {
			fs, dir := newCrashFS(t)
			synctest.Test(t, func(t *testing.T) {
				s := openStore(t, dir, withFS(smallConfig(FlushSync), fs))
				put(t, s, "t", 0, "body0")
				gate := make(chan struct{})
				broken := errors.New("broken")
				fs.Hook(func(c crashfs.Call) error {
					if c.Op != crashfs.OpSync || c.Path != "store/commitlog/00000000000000000000" {
						return nil
					}
					<-gate
					if fail {
						return broken
					}
					return nil
				})
				defer fs.Hook(nil)
				var got answers
				const n = 20
				for i := range n {
					s.PutMessageAsync(t.Context(), inner("t", 0, fmt.Sprint("body", i+1)), got.done)
				}
				closed := make(chan error, 1)
				go func() { closed <- s.Close() }()
				untilSealed(s)
				require.Empty(t, closed)
				require.Empty(t, got.all())
				close(gate)
				err := <-closed
				require.Len(t, got.all(), n)
				for _, a := range got.all() {
					if !fail {
						require.NoError(t, a.err)
						continue
					}
					require.ErrorIs(t, a.err, message.ErrFlush)
					require.ErrorIs(t, a.err, broken)
					require.Equal(t, PutServiceNotAvailable, a.r.Status)
				}
				if fail {
					require.ErrorIs(t, err, broken)
				} else {
					require.NoError(t, err)
				}
			})
		})
	}
}

// untilSealed returns when a Close under way has sealed the log.
func untilSealed(s *DefaultMessageStore) {
	for s.log.Refusal() == nil {
		runtime.Gosched()
	}
}

// TestBadCallbacks: a panic is caught and counted, also one that ends the
// goroutine, as a failing test does; all others are called.
func TestBadCallbacks(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			s := openStore(t, scratch(t), smallConfig(mode))
			var got answers
			for i := range 30 {
				done := got.done
				switch {
				case i%3 == 1:
					done = func(PutMessageResult, error) { panic("callback") }
				case i%3 == 2 && mode == FlushSync: // else it is the caller's own goroutine
					done = func(PutMessageResult, error) { runtime.Goexit() }
				}
				s.PutMessageAsync(t.Context(), inner("t", 0, fmt.Sprint("body", i)), done)
			}
			require.Equal(t, sequence(30), bodiesAfter(t, s, 30))
			closeStore(t, s)
			require.EqualValues(t, 10, s.Stats().CallbackPanics)
			want := 10
			if mode == FlushAsync {
				want = 20
			}
			require.Len(t, got.all(), want)
		})
	}
}

// bodiesAfter reads queue 0 of topic t when it has n messages.
func bodiesAfter(t *testing.T, s *DefaultMessageStore, n int) []string {
	t.Helper()
	require.NoError(t, s.Flush(t.Context()))
	dispatched(t, s)
	require.EqualValues(t, n, s.MaxOffsetInQueue("t", 0))
	return bodies(t, s, "t", 0)
}

// TestCallbackMayUseTheStore: put another message, wait for a sync, read.
func TestCallbackMayUseTheStore(t *testing.T) {
	s := openStore(t, scratch(t), smallConfig(FlushSync))
	const n = 50
	all := make(chan error, n)
	var next func(r PutMessageResult, err error)
	left := n
	next = func(r PutMessageResult, err error) {
		if left--; err == nil && left%10 == 0 {
			_, err = s.PutMessage(t.Context(), inner("u", 0, "x"))
			err = errors.Join(err, s.Flush(t.Context()), s.WaitDispatched(t.Context(), r.LogOffset+message.LogOffset(r.Bytes)))
		}
		all <- err
		if left > 0 {
			s.PutMessageAsync(t.Context(), inner("t", 0, fmt.Sprint("body", n-left)), next)
		}
	}
	s.PutMessageAsync(t.Context(), inner("t", 0, "body0"), next)
	for range n {
		require.NoError(t, <-all)
	}
	dispatched(t, s)
	require.Equal(t, sequence(n), bodies(t, s, "t", 0))
	require.EqualValues(t, n/10, s.MaxOffsetInQueue("u", 0))
	closeStore(t, s)
}

// TestAsyncPutAllocatesOnce: what remembers the callback.
func TestAsyncPutAllocatesOnce(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			s := openStore(t, scratch(t), Config{Flush: mode, FlushTimeout: patient, SegmentSize: 16 << 20})
			m := tagged("t", string(make([]byte, 1000)), "TagA")
			ctx := t.Context()
			var called atomic.Int64
			done := func(_ PutMessageResult, err error) {
				if err != nil {
					t.Error(err)
				}
				called.Add(1)
			}
			for range 2000 {
				s.PutMessageAsync(ctx, m, done)
			}
			require.NoError(t, s.Flush(ctx))
			dispatched(t, s)
			n := testing.AllocsPerRun(2000, func() { s.PutMessageAsync(ctx, m, done) })
			most := map[FlushMode]float64{FlushSync: 1, FlushAsync: 0}[mode]
			require.LessOrEqual(t, n, most)
			closeStore(t, s)
			require.EqualValues(t, 4001, called.Load())
		})
	}
}
