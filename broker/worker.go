package broker

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/message"
)

const (
	// First and longest pause after a failed delivery.
	delayMinBackoff = 100 * time.Millisecond
	delayMaxBackoff = 10 * time.Second
	// delayLookAgain is how often the clock is looked at while messages wait: it
	// may be set, and machines sleep.
	delayLookAgain = time.Minute

	never = math.MaxInt64
)

// backoff is the pause after one more failure; the last was so long.
func backoff(last time.Duration) time.Duration {
	return min(max(2*last, delayMinBackoff), delayMaxBackoff)
}

// deliverer delivers messages that wait, or asks about them, from one goroutine of
// its own.
type deliverer interface {
	// catchUp finds out where the last process has stopped. It is called until it
	// succeeds.
	catchUp(ctx context.Context) error
	// round does all that is to be done and returns how long there is nothing.
	round(ctx context.Context) time.Duration
	// finish is called at the end, once catchUp has succeeded.
	finish() error
}

// arrivals tells a deliverer's goroutine that a message has begun to wait.
type arrivals struct {
	placed atomic.Int64  // end of the one that was put last, as far as known
	kick   chan struct{} // a token when there is something to look at
}

func newArrivals() arrivals { return arrivals{kick: make(chan struct{}, 1)} }

// parked says that the log has a message that waits and ends at an offset.
func (a *arrivals) parked(end message.LogOffset) {
	for old := a.placed.Load(); int64(end) > old && !a.placed.CompareAndSwap(old, int64(end)); old = a.placed.Load() {
	}
	a.wake()
}

// wake begins a round.
func (a *arrivals) wake() {
	select {
	case a.kick <- struct{}{}:
	default:
	}
}

// deliverWhenDue runs d. stop ends it, and finishes.
func deliverWhenDue(d deliverer, kick <-chan struct{}, what string, log *slog.Logger) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- deliveryLoop(ctx, d, kick, what, log) }()
	return func() error { cancel(); return <-done }
}

func deliveryLoop(ctx context.Context, d deliverer, kick <-chan struct{}, what string, log *slog.Logger) error {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for pause := backoff(0); ; pause = backoff(pause) {
		err := d.catchUp(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil // what is on disk is still right
		}
		log.Error(what+" can not be looked through; will try again", "err", err)
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
	}
	for {
		timer.Reset(d.round(ctx))
		select {
		case <-kick:
		case <-timer.C:
		case <-ctx.Done():
			return d.finish()
		}
	}
}
