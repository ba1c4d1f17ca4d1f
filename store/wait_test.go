package store

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// TestWaitDispatchedReadsYourWrite: after it returns, the message can be read.
func TestWaitDispatchedReadsYourWrite(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			s := openStore(t, scratch(t), smallConfig(mode))
			var wg sync.WaitGroup
			for w := range 4 {
				wg.Go(func() {
					for i := range 50 {
						r, err := s.PutMessage(context.Background(), inner("t", int32(w), fmt.Sprint(i)))
						if err != nil {
							t.Error(err)
							return
						}
						if err := s.WaitDispatched(context.Background(), r.LogOffset+message.LogOffset(r.Bytes)); err != nil {
							t.Error(err)
							return
						}
						g, err := s.GetMessage(context.Background(), GetQuery{Topic: "t", QueueID: int32(w), Offset: r.QueueOffset, MaxCount: 1})
						if err != nil || g.Status != GetFound || string(g.Messages[0].Body()) != fmt.Sprint(i) {
							t.Errorf("queue %d offset %d: %v %v", w, r.QueueOffset, g, err)
							return
						}
						g.Release()
					}
				})
			}
			wg.Wait()
			require.NoError(t, s.WaitDispatched(t.Context(), 0))
			closeStore(t, s)
			require.ErrorIs(t, s.WaitDispatched(t.Context(), 1<<40), message.ErrClosed)
		})
	}
}

// TestWaitDispatchedEndsWithClose: who waits for what never comes is told.
func TestWaitDispatchedEndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, scratch(t), smallConfig(FlushSync))
		result := make(chan error, 1)
		go func() { result <- s.WaitDispatched(context.Background(), 1<<40) }()
		synctest.Wait()
		require.Empty(t, result)
		closeStore(t, s)
		require.ErrorIs(t, <-result, message.ErrClosed)
	})
}

// TestNotifyArrivalMissesNothing: register, read, wait; no message is left
// behind, with no timer to fall back on.
func TestNotifyArrivalMissesNothing(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			s := openStore(t, scratch(t), smallConfig(mode))
			const writers, each = 4, 250
			var wg sync.WaitGroup
			for range 3 { // readers, each of all messages
				wg.Go(func() {
					ch := make(chan struct{}, 1)
					defer s.NotifyArrival("t", ch)()
					next := message.QueueOffset(0)
					for next < writers*each {
						r, err := s.GetMessage(context.Background(), GetQuery{Topic: "t", Offset: next, MaxCount: 32})
						if err != nil {
							t.Error(err)
							return
						}
						for i, v := range r.Messages {
							if v.QueueOffset() != next+message.QueueOffset(i) {
								t.Errorf("%d instead of %d", v.QueueOffset(), int(next)+i)
							}
						}
						status := r.Status
						next = r.NextBeginOffset
						r.Release()
						if status != GetFound {
							<-ch
						}
					}
				})
			}
			for range writers {
				wg.Go(func() {
					for range each {
						if _, err := s.PutMessage(context.Background(), inner("t", 0, "x")); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestNotifyArrivalOfOneTopic: other topics do not wake, a full channel blocks
// nobody, stop ends it and may be called again.
func TestNotifyArrivalOfOneTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, scratch(t), smallConfig(FlushSync))
		ch, other, full := make(chan struct{}, 10), make(chan struct{}, 10), make(chan struct{})
		stop := s.NotifyArrival("t", ch)
		again := s.NotifyArrival("t", ch)
		defer s.NotifyArrival("other", other)()
		defer s.NotifyArrival("t", full)()
		put(t, s, "t", 0, "x")
		put(t, s, "t", 1, "x")
		dispatched(t, s)
		require.Len(t, ch, 4, "two messages, two subscriptions")
		require.Empty(t, other)
		stop()
		stop()
		put(t, s, "t", 0, "x")
		dispatched(t, s)
		require.Len(t, ch, 5)
		again()
		put(t, s, "t", 0, "x")
		dispatched(t, s)
		require.Len(t, ch, 5)
		_, err := s.PutMessages(t.Context(), batchOf(t, "other", 0, message.Message{Body: []byte("a")}, message.Message{Body: []byte("b")}))
		require.NoError(t, err)
		dispatched(t, s)
		require.NotEmpty(t, other)
		closeStore(t, s)
	})
}
