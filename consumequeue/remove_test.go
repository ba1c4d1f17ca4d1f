package consumequeue

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// TestRemoveBefore: Min moves to the first message of the log, and the files
// before it go, but for the last.
func TestRemoveBefore(t *testing.T) {
	for _, tc := range []struct {
		about       string
		logMin      message.LogOffset
		files       int // of 4, with 10, 10, 10 and 5 units
		min, lowest message.QueueOffset
	}{
		{"nothing is gone", 1000, 4, 0, 0},
		{"a part of a file", unit(9).LogOffset, 4, 9, 0},
		{"a file", unit(10).LogOffset, 3, 10, 10},
		{"the middle of a record", unit(10).LogOffset - 1, 3, 10, 10},
		{"two files", unit(25).LogOffset, 2, 25, 20},
		{"all but the last file", unit(30).LogOffset, 1, 30, 30},
		{"all", 1 << 40, 1, 35, 30},
	} {
		t.Run(tc.about, func(t *testing.T) {
			cfg := config(t)
			table := open(t, cfg)
			q, err := table.Make("T", 0)
			require.NoError(t, err)
			put(t, q, 0, 35)
			require.EqualValues(t, 4*fileUnits*UnitSize, table.Bytes())
			removed, err := table.RemoveBefore(tc.logMin)
			require.NoError(t, err)
			require.Len(t, removed, 4-tc.files)
			for _, path := range removed {
				require.NoFileExists(t, path)
			}
			require.EqualValues(t, tc.files*fileUnits*UnitSize, table.Bytes())
			require.Equal(t, tc.min, q.Min())
			require.Equal(t, tc.lowest, q.First())
			require.EqualValues(t, 35, q.Max())
			require.Equal(t, wanted(int(tc.min), 35), units(t, q, tc.min))
			put(t, q, 35, 50)
			removed, err = table.RemoveBefore(tc.logMin)
			require.NoError(t, err)
			if tc.logMin == 1<<40 {
				require.Len(t, removed, 1)
			} else {
				require.Empty(t, removed)
			}
			again := open(t, cfg)
			require.EqualValues(t, 50, Find(again, "T", 0).Max())
		})
	}
}

// TestRemoveBeforeKeepsFilesThatEndInBlanks: a blank has log offset 0, which
// says nothing about the units before it.
func TestRemoveBeforeKeepsFilesThatEndInBlanks(t *testing.T) {
	q := queue(t, config(t))
	put(t, q, 0, 5)
	put(t, q, 12, 15)
	removed, err := q.RemoveBefore(unit(3).LogOffset)
	require.NoError(t, err)
	require.Empty(t, removed)
	require.EqualValues(t, 3, q.Min())
	removed, err = q.RemoveBefore(unit(5).LogOffset)
	require.NoError(t, err)
	require.Len(t, removed, 1)
	require.EqualValues(t, 12, q.Min())
}

// TestRemoveBeforeOfAnEmptyQueue has nothing to remove.
func TestRemoveBeforeOfAnEmptyQueue(t *testing.T) {
	q := queue(t, config(t))
	removed, err := q.RemoveBefore(1 << 40)
	require.NoError(t, err)
	require.Empty(t, removed)
	require.Zero(t, q.Min())
	_, ok := q.LastBefore(1 << 40)
	require.False(t, ok)
}

// TestLastBeforeEqualsLinearSearch in queues with blanks.
func TestLastBeforeEqualsLinearSearch(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		q := queue(t, config(t))
		var all []Unit
		for n := 0; n < 40; n += 1 + r.IntN(2)*r.IntN(4) {
			require.NoError(t, q.Put(message.QueueOffset(n), unit(n), false))
			all = append(all, unit(n))
		}
		for range 20 {
			off := message.LogOffset(900 + r.IntN(4300))
			var want Unit
			for _, u := range all {
				if u.LogOffset < off {
					want = u
				}
			}
			got, ok := q.LastBefore(off)
			require.Equal(t, want != Unit{}, ok)
			if ok {
				require.Equal(t, want, got)
			}
		}
	}
}

// TestRemoveBeforeAmidPutsAndReads: Min never goes back, and every unit from it
// on can be read.
func TestRemoveBeforeAmidPutsAndReads(t *testing.T) {
	q := queue(t, config(t))
	const n = 3000
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		defer close(done)
		for i := range n {
			if err := q.Put(message.QueueOffset(i), unit(i), false); err != nil {
				t.Error(err)
				return
			}
		}
	})
	wg.Go(func() {
		for last := message.QueueOffset(0); ; {
			lo, hi := q.Min(), q.Max()
			if lo < last {
				t.Errorf("Min goes from %d to %d", last, lo)
				return
			}
			last = lo
			if u, ok := q.At(hi - 1); hi > 0 && (!ok && q.First() < hi || ok && u != unit(int(hi-1))) {
				t.Errorf("unit %d is %v, %t", hi-1, u, ok)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for q.Max() < n && !t.Failed() {
		if _, err := q.RemoveBefore(unit(int(q.Max()) - 15).LogOffset); err != nil {
			t.Error(err)
			break
		}
	}
	wg.Wait()
}
