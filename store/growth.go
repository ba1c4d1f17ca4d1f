package store

import (
	"math"
	"sync"
	"time"
)

// Forever is the time until a disk is full that does not fill up.
const Forever = time.Duration(math.MaxInt64)

const (
	// growthMemory is how far back growth is remembered: what came so long ago
	// counts a third of what comes now.
	growthMemory = 10 * time.Minute
	// growthLeast is the shortest time that growth is divided by, so that the
	// first message after Open is no flood.
	growthLeast = time.Minute
)

// growth is by how many bytes the store grew in the recent past: each byte
// counts less the longer ago it came. Nothing has to run for that while nothing
// changes.
type growth struct {
	mu    sync.Mutex
	begun time.Time
	last  growthSample
}

type growthSample struct {
	at    time.Time
	bytes int64   // in the store
	grown float64 // weighted by age
}

// begin says what there is at Open.
func (g *growth) begin(now time.Time, bytes int64) {
	g.begun, g.last = now, growthSample{at: now, bytes: bytes}
}

// observe takes note of what there is now.
func (g *growth) observe(now time.Time, bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = g.last.next(now, bytes)
}

// rate is the growth in bytes per second, negative while more is removed than
// added.
func (g *growth) rate(now time.Time, bytes int64) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	elapsed := max(now.Sub(g.begun), growthLeast)
	memory := growthMemory.Seconds() * (1 - decay(elapsed)) // what a steady growth of 1 would have come to
	return g.last.next(now, bytes).grown / memory
}

func (s growthSample) next(now time.Time, bytes int64) growthSample {
	return growthSample{now, bytes, s.grown*decay(now.Sub(s.at)) + float64(bytes-s.bytes)}
}

// decay is what a byte still counts after a time; a clock that was set back
// makes none count more.
func decay(d time.Duration) float64 { return math.Exp(-max(0, d.Seconds()) / growthMemory.Seconds()) }

// untilFull is how long free bytes last at a rate.
func untilFull(free int64, rate float64) time.Duration {
	switch seconds := float64(free) / rate; {
	case free == 0:
		return 0
	case free < 0 || rate <= 0 || seconds >= Forever.Seconds():
		return Forever
	default:
		return time.Duration(seconds * float64(time.Second))
	}
}
