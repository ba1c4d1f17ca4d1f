package commitlog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/message"
)

// Completion hears how the sync of an append ended.
type Completion interface {
	// Complete is called once for each append: with nil when the placement is on
	// disk, with an error matching message.ErrFlush when its sync failed, with
	// message.ErrFlushTimeout when it took too long and may still happen, with
	// message.ErrClosed when the log was closed before it.
	//
	// All calls come from one goroutine, in log order. It must not panic. Close
	// waits for it.
	Complete(p Placement, err error)
}

// maxCompletions is how many appends may wait for their Complete before further
// ones are held back. An entry takes some 100 bytes, and what it refers to.
const maxCompletions = 1 << 14

// completions calls back those whose appends were synced. One goroutine serves
// all: it sleeps until a sync has ended, or the oldest append has waited too
// long.
type completions struct {
	durable *atomic.Int64 // the log's
	timeout time.Duration

	kick  chan struct{} // capacity 1: look again
	stop  chan struct{}
	ended chan struct{}

	mu    sync.Mutex // may be taken under the put lock, never the other way round
	queue []completion
	head  int           // of queue: what is before it was called
	err   error         // what those get who are not durable
	room  chan struct{} // closed when there is room again; nil when nobody waits
}

type completion struct {
	call  Completion
	place Placement
	since time.Time
}

func startCompletions(durable *atomic.Int64, timeout time.Duration) *completions {
	c := &completions{
		durable: durable, timeout: timeout,
		kick: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	go c.run()
	return c
}

// add notes an append. The caller holds the put lock, which makes the queue's
// order that of the log.
func (c *completions) add(call Completion, p Placement, since time.Time) {
	p.group = nil // nobody waits for it, and it holds memory
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == cap(c.queue) && c.head > len(c.queue)/2 {
		n := copy(c.queue, c.queue[c.head:])
		clear(c.queue[n:])
		c.queue, c.head = c.queue[:n], 0
	}
	c.queue = append(c.queue, completion{call, p, since})
	if len(c.queue)-c.head == 1 { // the timer is not set
		c.look()
	}
}

// full reports whether an append has to wait for room.
func (c *completions) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)-c.head >= maxCompletions
}

// wait returns when there is room, or with ctx's error.
func (c *completions) wait(ctx context.Context) error {
	c.mu.Lock()
	if len(c.queue)-c.head < maxCompletions {
		c.mu.Unlock()
		return nil
	}
	if c.room == nil {
		c.room = make(chan struct{})
	}
	room := c.room
	c.mu.Unlock()
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// synced wakes the goroutine if there is anybody to call: waking it for nothing
// would hold up those who wait without it.
func (c *completions) synced() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head < len(c.queue) {
		c.look()
	}
}

// look wakes the goroutine: something became durable, or err was set.
func (c *completions) look() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// fail makes err the answer to all who are not durable. The first one stays.
func (c *completions) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.look()
}

// close ends the goroutine after it has called everybody. The log takes no
// more appends, and nothing is being synced.
func (c *completions) close() {
	c.fail(message.ErrClosed)
	close(c.stop)
	<-c.ended
}

// run serves until close. A Complete that ends its goroutine, as a failing test
// does, takes this one along; the next one goes on.
func (c *completions) run() {
	closing := false
	defer func() {
		if closing {
			close(c.ended)
		} else {
			go c.run()
		}
	}()
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	for {
		next := c.serve()
		if next > 0 {
			timer.Reset(next)
		} else {
			timer.Stop()
		}
		select {
		case <-c.kick:
		case <-timer.C:
		case <-c.stop:
			c.serve()
			closing = true
			return
		}
	}
}

// serve calls all whose time has come. It returns how long the oldest of the
// others may still wait, 0 if there is none.
func (c *completions) serve() time.Duration {
	for {
		next, wait, err := c.take()
		if next.call == nil {
			return wait
		}
		next.call.Complete(next.place, err)
	}
}

// take removes the oldest append, with its answer, if it has one; else it says
// how long that may still wait, 0 if there is none.
func (c *completions) take() (next completion, wait time.Duration, answer error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head == len(c.queue) {
		c.queue, c.head = c.queue[:0], 0
		return completion{}, 0, nil
	}
	next = c.queue[c.head]
	if int64(next.place.End()) > c.durable.Load() {
		wait = time.Until(next.since.Add(c.timeout))
		switch {
		case c.err != nil:
			answer = c.err
		case wait <= 0:
			answer = message.ErrFlushTimeout
		default:
			return completion{}, wait, nil
		}
	}
	c.queue[c.head] = completion{} // lets go of what it refers to
	c.head++
	if c.room != nil && len(c.queue)-c.head <= maxCompletions/2 {
		close(c.room)
		c.room = nil
	}
	return next, 0, answer
}
