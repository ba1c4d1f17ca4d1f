package store

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// set returns t with its time of day moved by whole seconds, and what it says about
// the time that passes as it was: as if the system's clock had been set by that
// much after t.
func set(t time.Time, seconds int64) time.Time {
	const nanosecondBits = 30
	*(*uint64)(unsafe.Pointer(&t)) += uint64(seconds) << nanosecondBits // a Time with both begins with seconds and nanoseconds
	return t
}

// TestWallClockFollowsAClockThatIsSet within a second. A bubble has but one clock, so
// this is about that of the machine, and a pause of the process makes it try again.
func TestWallClockFollowsAClockThatIsSet(t *testing.T) {
	for _, seconds := range []int64{-7200, 3600} {
		c := newWallClock()
		for passed := time.Duration(0); passed < time.Second; passed += 250 * time.Millisecond {
			asked := time.Now().Add(-passed)
			before := set(asked, seconds) // what the clock showed, until it was set
			require.Zero(t, before.Sub(asked))
			require.Equal(t, time.Duration(seconds)*time.Second, before.Round(0).Sub(asked.Round(0)))
			c.asked.Store(&before)
			now := c.now()
			if c.asked.Load() != &before {
				passed -= 250 * time.Millisecond
				continue
			}
			require.GreaterOrEqual(t, now.Sub(before), passed)
			require.Equal(t, now.Sub(before), now.Round(0).Sub(before.Round(0)), "it goes on from what it knows")
		}
		before := set(time.Now().Add(-time.Second), seconds)
		c.asked.Store(&before)
		earliest := time.Now()
		now := c.now()
		latest := time.Now()
		require.False(t, now.Round(0).Before(earliest.Round(0)))
		require.False(t, now.Round(0).After(latest.Round(0)))
	}
}

// TestWallClockIsTimeNow: to the nanosecond, however rarely it is asked.
func TestWallClockIsTimeNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newWallClock()
		for _, pause := range []time.Duration{0, 1, time.Millisecond, time.Second - 1, 1, time.Second, time.Hour, 999 * time.Millisecond} {
			time.Sleep(pause)
			require.True(t, time.Now().Equal(c.now()))
			require.Equal(t, time.Now().Location(), c.now().Location())
			require.Equal(t, time.Now().UnixMilli(), c.now().UnixMilli())
		}
	})
}

// TestWallClockDoesNotGoBack for any of those who ask at the same time.
func TestWallClockDoesNotGoBack(t *testing.T) {
	c := newWallClock()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := c.now()
			for range 20_000 {
				now := c.now()
				if now.Before(last) {
					t.Errorf("%v after %v", now, last)
				}
				last = now
			}
			old := last.Add(-time.Hour) // asked again
			c.asked.Store(&old)
			if now := c.now(); now.Before(last) {
				t.Errorf("%v after %v", now, last)
			}
		})
	}
	wg.Wait()
}

func TestWallClockAllocatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newWallClock()
		require.Zero(t, testing.AllocsPerRun(100, func() { c.now() }))
	})
}
