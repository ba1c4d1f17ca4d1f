package store

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// TestWaitReady has a dispatcher that stands still for a while.
func TestWaitReady(t *testing.T) {
	cfg := smallConfig(FlushSync)
	cfg.MaxDispatchLag = 2000
	bubble(t, cfg, func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
		gate := make(chan struct{})
		s.cfg.Events.DispatchFailed = func(DispatchEvent) { <-gate }
		require.NoError(t, s.WaitReady(t.Context(), time.Second))
		full := fs.FailFrom(crashfs.OpCreate, queueFiles, 1, segment.ErrNoSpace)
		for s.dispatcher.Lag() <= cfg.MaxDispatchLag {
			_, err := s.PutMessage(t.Context(), inner("other", 0, strings.Repeat("b", 300)))
			require.NoError(t, err)
		}
		began := time.Now()
		err := s.WaitReady(t.Context(), time.Second)
		require.ErrorIs(t, err, ErrBusy)
		require.ErrorContains(t, err, "dispatcher lags by")
		require.Equal(t, time.Second, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = s.WaitReady(ctx, time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrBusy, "it is the caller's time")
		go func() { time.Sleep(time.Second); full.Stop(); close(gate) }()
		require.Eventually(t, func() bool { return s.WaitReady(t.Context(), time.Minute) == nil }, time.Minute, time.Second)
		closeStore(t, s)
		require.NoError(t, s.WaitReady(t.Context(), time.Second), "a put is refused at once, and says why")
		_, err = s.PutMessage(t.Context(), inner("t", 0, "x"))
		require.ErrorIs(t, err, message.ErrClosed)
	})
}
