package store

import (
	"sync/atomic"
	"time"
)

// wallClock tells the time at half the cost of time.Now, which asks the system twice:
// for the time of day, and for the time that has passed. It asks for the first one
// only once in a second, so a clock that is set takes effect within that.
type wallClock struct{ asked atomic.Pointer[time.Time] }

func newWallClock() *wallClock {
	c := &wallClock{}
	c.ask()
	return c
}

func (c *wallClock) ask() time.Time {
	now := time.Now()
	c.asked.Store(&now)
	return now
}

func (c *wallClock) now() time.Time {
	asked := c.asked.Load()
	passed := time.Since(*asked)
	if passed >= time.Second {
		return c.ask()
	}
	return asked.Add(passed)
}
