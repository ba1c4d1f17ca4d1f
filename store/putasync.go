package store

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/message"
)

// PutMessageAsync stores one message and returns without waiting for its sync,
// so that one goroutine can have many puts under way. done gets what PutMessage
// would return, exactly once, whatever becomes of the message; a refusal, too.
// The message is not changed, and may be used again on return.
//
// Under FlushSync done is called after the sync that the message shares with all
// that were placed meanwhile, on one goroutine of the store, in log order: one
// that is slow holds up the others, but no sync. It may be called before
// PutMessageAsync returns. A sync that takes longer than Config.FlushTimeout gives
// ErrFlushTimeout, as with PutMessage; the message is kept. Under FlushAsync,
// with NoWait, and for what is refused, done is called before PutMessageAsync
// returns, on the caller's goroutine.
//
// ctx bounds the wait for room, as with PutMessage, and nothing after that. While
// 16,384 calls of done are owed a further put waits: done may use the store, but
// a PutMessageAsync in it can then wait for itself until its ctx ends. Close
// waits until every done was called, so done must not call it.
//
// A panic in done is caught, logged and counted in Stats.CallbackPanics.
func (s *DefaultMessageStore) PutMessageAsync(ctx context.Context, m *message.MessageExtBrokerInner, done func(PutMessageResult, error)) {
	r := PutMessageResult{Count: 1, StoreHost: m.StoreHost}
	var then *asyncPut
	if s.cfg.Flush == FlushSync && !m.NoWait {
		then = &asyncPut{store: s, result: r, done: done}
	}
	p, err := s.place(ctx, m, then)
	if err != nil {
		r, err = s.refused(err, string(m.Properties))
		s.call(done, r, err)
		return
	}
	s.placed(&r, p)
	if then == nil {
		s.call(done, r, nil)
	}
}

// PutMessagesAsync is to PutMessages what PutMessageAsync is to PutMessage: done
// is called once for the batch.
func (s *DefaultMessageStore) PutMessagesAsync(ctx context.Context, b *message.MessageExtBatch, done func(PutMessageResult, error)) {
	var then *asyncPut
	if s.cfg.Flush == FlushSync && !b.NoWait {
		then = &asyncPut{store: s, done: done}
	}
	p, r, err := s.placeBatch(ctx, b, then)
	if err != nil {
		s.call(done, r, err)
		return
	}
	if then != nil {
		r.Offsets = nil // then has them
	}
	s.placed(&r, p)
	if then == nil {
		s.call(done, r, nil)
	}
}

// asyncPut is a put whose caller did not wait.
type asyncPut struct {
	store  *DefaultMessageStore
	result PutMessageResult // without its place
	done   func(PutMessageResult, error)
}

// Complete implements commitlog.Completion.
func (a *asyncPut) Complete(p commitlog.Placement, err error) {
	a.store.complete(&a.result, p)
	err = a.store.synced(&a.result, err)
	a.store.call(a.done, a.result, err)
}

// call calls done, and survives it.
func (s *DefaultMessageStore) call(done func(PutMessageResult, error), r PutMessageResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.stats.callbackPanics.Add(1)
			s.cfg.Logger.Error("a callback of an asynchronous put panicked", "dir", s.dir, "offset", r.LogOffset,
				"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	done(r, err)
}
