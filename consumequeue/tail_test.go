package consumequeue

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// crowded is a config under which one file is mapped at a time.
func crowded(t *testing.T, fsys segment.FS, tails int64) Config {
	t.Helper()
	cfg := config(t)
	if fsys != nil {
		cfg.FS = fsys
	}
	cfg.FileSize, cfg.TailBytes = 1000*UnitSize, tails
	cfg.Cache = segment.NewCache(1, 1<<40)
	return cfg
}

// twoQueues are T/0, which has one unit and is not mapped, and T/1.
func twoQueues(t *testing.T, cfg Config) (q, other *Queue) {
	t.Helper()
	table := open(t, cfg)
	q, err := table.Make("T", 0)
	require.NoError(t, err)
	other, err = table.Make("T", 1)
	require.NoError(t, err)
	put(t, q, 0, 1)
	put(t, other, 0, 1)
	return q, other
}

// onDisk reads how many units the first file of a queue has in a row.
func onDisk(t *testing.T, q *Queue) (n int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(q.Dir(), segment.FileName(0)))
	require.NoError(t, err)
	for n*UnitSize < len(b) && unitAt(b[n*UnitSize:]) == unit(n) {
		n++
	}
	return n
}

func TestTailIsReadAndThenWritten(t *testing.T) {
	q, other := twoQueues(t, crowded(t, nil, 1<<20))
	put(t, q, 1, 50)
	require.NoError(t, q.PutAll(50, wanted(50, 60)))
	require.Equal(t, 1, onDisk(t, q))
	require.Equal(t, bounds{0, 60}, boundsOf(q))
	require.Equal(t, wanted(0, 60), units(t, q, 0))
	require.Equal(t, wanted(33, 60), units(t, q, 33))
	u, ok := q.At(59)
	require.True(t, ok)
	require.Equal(t, unit(59), u)
	n, err := q.Before(unit(40).LogOffset)
	require.NoError(t, err)
	require.Equal(t, message.QueueOffset(40), n)
	at, err := q.FirstAt(unit(33).LogOffset)
	require.NoError(t, err)
	require.Equal(t, message.QueueOffset(33), at)
	require.Equal(t, int64(59*UnitSize), q.table.kept.Load())

	put(t, other, 1, 2)
	require.NoError(t, q.Flush())
	require.Equal(t, 60, onDisk(t, q))
	require.Equal(t, int64(UnitSize), q.table.kept.Load(), "that of the other")
	require.Equal(t, wanted(0, 60), units(t, q, 0))
}

// TestTailEndsWhereTheBlocksDo: a full disk is an error of Put, not of a Flush.
func TestTailEndsWhereTheBlocksDo(t *testing.T) {
	cfg := crowded(t, nil, 1<<20)
	q, _ := twoQueues(t, cfg)
	const page = firstStep / UnitSize
	put(t, q, 1, page)
	require.Equal(t, 1, onDisk(t, q))
	cfg.FS.(*faultFS).set(failing("allocate", 1, segment.ErrNoSpace))
	require.ErrorIs(t, q.Put(page, unit(page), false), segment.ErrNoSpace)
	require.Equal(t, page, onDisk(t, q))
	require.Equal(t, bounds{0, page}, boundsOf(q))
	cfg.FS.(*faultFS).set(nil)
	put(t, q, page, page+10)
	require.Equal(t, wanted(0, page+10), units(t, q, 0))
}

// TestWhatIsNotTheNextUnit has the tail written first.
func TestWhatIsNotTheNextUnit(t *testing.T) {
	for name, do := range map[string]func(q *Queue) (want []Unit, err error){
		"the same again": func(q *Queue) ([]Unit, error) { return wanted(0, 10), q.Put(7, unit(7), false) },
		"another": func(q *Queue) ([]Unit, error) {
			want := wanted(0, 10)
			want[7] = unit(77)
			return want, q.Put(7, unit(77), false)
		},
		"a gap": func(q *Queue) ([]Unit, error) {
			return append(wanted(0, 10), Blank, Blank, unit(12)), q.Put(12, unit(12), false)
		},
		"truncated": func(q *Queue) ([]Unit, error) {
			_, err := q.Truncate(5)
			return wanted(0, 5), err
		},
		"beyond the file": func(q *Queue) ([]Unit, error) {
			want := wanted(0, 10)
			for len(want) < 1000 {
				want = append(want, Blank)
			}
			return append(want, unit(1000)), q.Put(1000, unit(1000), false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			q, other := twoQueues(t, crowded(t, nil, 1<<20))
			put(t, q, 1, 10)
			require.Equal(t, 1, onDisk(t, q))
			want, err := do(q)
			require.NoError(t, err)
			require.Equal(t, want, units(t, q, 0))
			put(t, other, 1, 2) // and on it goes
			next := len(want)
			put(t, q, next, next+2)
			require.Equal(t, append(want, unit(next), unit(next+1)), units(t, q, 0))
			require.NoError(t, q.table.Flush())
			require.Equal(t, append(want, unit(next), unit(next+1)), units(t, q, 0))
		})
	}
}

// TestTailsTogetherAreBounded, and the oldest is written first.
func TestTailsTogetherAreBounded(t *testing.T) {
	cfg := crowded(t, nil, 30*UnitSize)
	table := open(t, cfg)
	var queues []*Queue
	for i := range int32(10) {
		q, err := table.Make("T", i)
		require.NoError(t, err)
		put(t, q, 0, 1)
		queues = append(queues, q)
	}
	for n := 1; n < 40; n++ {
		for _, q := range queues {
			put(t, q, n, n+1)
			require.LessOrEqual(t, table.kept.Load(), cfg.TailBytes)
		}
	}
	for _, q := range queues {
		require.GreaterOrEqual(t, onDisk(t, q), 30)
		require.Equal(t, wanted(0, 40), units(t, q, 0))
	}
	require.LessOrEqual(t, len(table.keeping), len(queues))
}

// TestTailThatCanNotBeWritten stays what it is, and does not grow.
func TestTailThatCanNotBeWritten(t *testing.T) {
	cfg := crowded(t, nil, 10*UnitSize)
	q, other := twoQueues(t, cfg)
	put(t, q, 1, 11)
	cfg.FS.(*faultFS).set(failing("write", 1, errInjected))
	require.ErrorIs(t, q.table.Flush(), errInjected)
	require.ErrorIs(t, q.table.Flush(), errInjected, "it is still to be done")
	require.ErrorIs(t, q.Put(11, unit(11), false), errInjected)
	require.Equal(t, wanted(0, 11), units(t, q, 0))
	require.Equal(t, bounds{0, 11}, boundsOf(q))
	cfg.FS.(*faultFS).set(nil)
	put(t, other, 1, 3)
	put(t, q, 11, 20)
	require.NoError(t, q.table.Flush())
	require.Equal(t, 20, onDisk(t, q))
}

// TestBatchThatFailedHalfWay comes again as a whole.
func TestBatchThatFailedHalfWay(t *testing.T) {
	cfg := crowded(t, nil, 1<<20)
	q, _ := twoQueues(t, cfg)
	const page = firstStep / UnitSize
	put(t, q, 1, page-3)
	cfg.FS.(*faultFS).set(failing("allocate", 1, segment.ErrNoSpace))
	for range 2 {
		require.ErrorIs(t, q.PutAll(page-3, wanted(page-3, page+3)), segment.ErrNoSpace)
		require.Equal(t, message.QueueOffset(page-3), q.Max())
	}
	cfg.FS.(*faultFS).set(nil)
	require.NoError(t, q.PutAll(page-3, wanted(page-3, page+3)))
	require.Equal(t, wanted(0, page+3), units(t, q, 0))
}

func TestFlushAfterCloseSaysSo(t *testing.T) {
	q, _ := twoQueues(t, crowded(t, nil, 1<<20))
	put(t, q, 1, 3)
	require.NoError(t, q.table.Close())
	require.ErrorIs(t, q.Flush(), segment.ErrClosed)
}

// TestReadersSeeEachUnitAtOnce, while tails are written behind their back.
func TestReadersSeeEachUnitAtOnce(t *testing.T) {
	cfg := crowded(t, nil, 64*UnitSize)
	table := open(t, cfg)
	queues := make([]*Queue, 6)
	for i := range queues {
		q, err := table.Make("T", int32(i))
		require.NoError(t, err)
		queues[i] = q
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true) // also when the test has failed
	for w := range uint64(3) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(w, 1))
			var buf [9]Unit
			for !stop.Load() {
				q := queues[r.IntN(len(queues))]
				end := q.Max()
				if end == 0 {
					continue
				}
				from := max(0, end-1-message.QueueOffset(r.IntN(40)))
				n, err := q.Read(from, buf[:])
				if err != nil || n == 0 {
					t.Errorf("message %d of %d: %d units, %v", from, end, n, err)
				}
				for i, u := range buf[:n] {
					if u != unit(int(from)+i) {
						t.Errorf("message %d is %v", int(from)+i, u)
					}
				}
			}
		})
	}
	wg.Go(func() {
		for !stop.Load() {
			if err := table.Flush(); err != nil {
				t.Error(err)
			}
		}
	})
	for n := range 900 {
		for _, q := range queues {
			put(t, q, n, n+1)
		}
	}
	stop.Store(true)
	wg.Wait()
	for _, q := range queues {
		require.Equal(t, wanted(0, 900), units(t, q, 0))
	}
}

// TestManyQueuesSurviveALossOfPower: whatever the disk keeps at any moment, each
// queue has the units that a Flush has vouched for, whether one sync did for many
// queues or each file had its own.
func TestManyQueuesSurviveALossOfPower(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { powerModel(t, rand.New(rand.NewPCG(seed, 2)), seed%2 == 0) })
	}
}

func powerModel(t *testing.T, r *rand.Rand, together bool) {
	fsys, err := crashfs.New(t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, fsys.Close()) }()
	cfg := Config{
		FS: fsys, Dir: filepath.Join(fsys.Root(), "queues"), FileSize: 40 * UnitSize,
		Cache: segment.NewCache(1+r.IntN(5), 1<<40), TailBytes: int64(1+r.IntN(400)) * UnitSize,
	}
	if together {
		v, err := fsys.OpenVolume(fsys.Root())
		require.NoError(t, err)
		cfg.Cache.SyncOn(v)
	}
	table, err := OpenTable(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, table.Close()) }()
	queues := make([]*Queue, manyQueues+10)
	vouched := make(map[*Queue]message.QueueOffset)
	for i := range queues {
		queues[i], err = table.Make("T"+strconv.Itoa(i%3), int32(i))
		require.NoError(t, err)
	}
	stop := fsys.Record()
	for step := range 3000 {
		q := queues[r.IntN(len(queues))]
		n := int(q.Max())
		switch {
		case r.IntN(20) == 0:
			require.NoError(t, q.PutAll(q.Max(), wanted(n, n+1+r.IntN(5))))
		case n > 0 && r.IntN(50) == 0:
			require.Equal(t, wanted(0, n), units(t, q, 0))
		default:
			put(t, q, n, n+1)
		}
		if step%500 == 499 {
			require.NoError(t, table.Flush())
			for _, q := range queues {
				vouched[q] = q.Max()
			}
		}
		if step%800 == 799 {
			checkPowerLoss(t, fsys, vouched, r.Uint64N(5))
		}
	}
	checkPowerLoss(t, fsys, vouched, crashfs.Oldest)
	if !together {
		return
	}
	synced := 0
	for _, c := range stop() {
		if c.Op == crashfs.OpSync {
			synced++
		}
	}
	require.Less(t, synced, len(queues)*2, "but for those that get another file")
}

// checkPowerLoss opens what is left.
func checkPowerLoss(t *testing.T, fsys *crashfs.FS, vouched map[*Queue]message.QueueOffset, seed uint64) {
	t.Helper()
	s, err := fsys.Snapshot()
	require.NoError(t, err)
	dir := t.TempDir()
	_, err = s.Image(seed, dir)
	require.NoError(t, err)
	table, err := OpenTable(Config{FS: segment.OS, Dir: filepath.Join(dir, "queues"), FileSize: 40 * UnitSize})
	require.NoError(t, err)
	defer func() { require.NoError(t, table.Close()) }()
	for q, n := range vouched {
		if n == 0 {
			continue
		}
		left := find(t, table, q.Topic, q.ID)
		require.NotNil(t, left, "%s/%d", q.Topic, q.ID)
		require.GreaterOrEqual(t, left.Max(), n)
		require.Equal(t, wanted(0, int(n)), units(t, left, 0)[:n])
	}
}

// TestFlushTogetherThatFails is final, for the queues that it was for.
func TestFlushTogetherThatFails(t *testing.T) {
	fsys, err := crashfs.New(t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, fsys.Close()) }()
	cfg := crowded(t, fsys, 1<<20)
	cfg.Dir = filepath.Join(fsys.Root(), "queues")
	v, err := fsys.OpenVolume(fsys.Root())
	require.NoError(t, err)
	cfg.Cache.SyncOn(v)
	table := open(t, cfg)
	for i := range int32(manyQueues) {
		q, err := table.Make("T", i)
		require.NoError(t, err)
		put(t, q, 0, 2)
	}
	fault := fsys.FailOn(crashfs.OpSyncVolume, "", 1, errInjected)
	require.ErrorIs(t, table.Flush(), errInjected)
	require.ErrorIs(t, table.Flush(), errInjected)
	require.Equal(t, 1, fault.Fired(), "nobody asks again")
	require.ErrorIs(t, find(t, table, "T", 3).Flush(), errInjected)
}
