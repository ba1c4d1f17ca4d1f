package store

import (
	"bytes"
	"context"
	"path"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/message"
)

// The tests named TestGuard hold what operations cost against limits, by counts
// that are the same on every machine: allocations, operations of files, and
// syncs here; page faults, reads and writes, and waits of a thread in
// guard_linux_test.go. Whoever makes an operation cheaper lowers its limit.

// guardConfig leaves nothing to do by the clock for an hour, so that all that is
// counted comes from the operations.
func guardConfig(mode FlushMode, segment int64) Config {
	return Config{Flush: mode, SegmentSize: segment, FlushInterval: time.Hour, FlushTimeout: time.Hour}
}

// guarded is a message with a tag and a key.
func guarded(size int) *message.MessageExtBrokerInner {
	m := inner("t", 0, string(make([]byte, size)))
	m.Properties = "TAGS\x01TagA\x02KEYS\x01key"
	return m
}

// TestGuardAllocations counts what is allocated by an operation and by what goes
// on behind it: sync, dispatch, index, preparation of space.
func TestGuardAllocations(t *testing.T) {
	m, done := tagged("t", string(make([]byte, 1000)), "TagA"), func(PutMessageResult, error) {}
	batch := numbered(t, "b", 100, 100)
	batch.Properties = "CLUSTER\x01c"
	get := GetQuery{Topic: "t", MaxCount: 32, Verify: true, TagFilter: message.ParseTagFilter("TagA")}
	query := KeyQuery{Topic: "t", Key: "key"}

	type call func(ctx context.Context, s *DefaultMessageStore) error
	put := call(func(ctx context.Context, s *DefaultMessageStore) error { _, err := s.PutMessage(ctx, m); return err })
	putAsync := call(func(ctx context.Context, s *DefaultMessageStore) error { s.PutMessageAsync(ctx, m, done); return nil })
	putBatch := call(func(ctx context.Context, s *DefaultMessageStore) error {
		_, err := s.PutMessages(ctx, batch)
		return err
	})
	getBatch := call(func(ctx context.Context, s *DefaultMessageStore) error {
		r, err := s.GetMessage(ctx, get)
		if err == nil {
			r.Release()
		}
		return err
	})
	byKey := call(func(ctx context.Context, s *DefaultMessageStore) error {
		r, err := s.QueryMessage(ctx, query)
		if err == nil {
			r.Release()
		}
		return err
	})
	look := call(func(ctx context.Context, s *DefaultMessageStore) error {
		_, err := s.LookMessageByOffset(ctx, 0)
		return err
	})

	for _, c := range []struct {
		what   string
		mode   FlushMode
		do     call
		limit  float64 // objects for each call
		pooled bool    // in a sync.Pool, which drops things at random under the race detector
	}{
		{"PutMessage", FlushAsync, put, 0, false},
		{"PutMessage", FlushSync, put, 9, false}, // the group, its channel, and the timer of the wait; nobody shares them here
		{"PutMessageAsync", FlushAsync, putAsync, 0, false},
		{"PutMessageAsync", FlushSync, putAsync, 1, false},    // what remembers the callback
		{"PutMessages of 100", FlushAsync, putBatch, 2, true}, // the offsets of the result
		{"PutMessages of 100", FlushSync, putBatch, 11, true},
		{"GetMessage of 32", FlushAsync, getBatch, 0, true},
		{"QueryMessage", FlushAsync, byKey, 7, false}, // the result with one message
		{"LookMessageByOffset", FlushAsync, look, 2, false},
	} {
		t.Run(c.what+" "+c.mode.String(), func(t *testing.T) {
			if c.pooled && raceEnabled {
				t.Skip("the race detector takes things out of a sync.Pool")
			}
			s := openStore(t, scratch(t), guardConfig(c.mode, 16<<20))
			for range 32 {
				require.NoError(t, put(t.Context(), s))
			}
			_, err := s.PutMessage(t.Context(), guarded(10))
			require.NoError(t, err)
			var failed error
			do := func() {
				if err := c.do(t.Context(), s); err != nil {
					failed = err
				}
			}
			warm(t, s, do)
			n := mallocs(do)
			for range 4 { // what others do, or what is done by the clock, is in some rounds
				n = min(n, mallocs(do))
			}
			require.NoError(t, failed)
			closeStore(t, s)
			t.Logf("%.3f objects", n)
			require.LessOrEqual(t, n, c.limit+behind)
		})
	}
}

// behind is what the goroutines behind an operation may allocate for each, when
// they make the next piece of a file.
const behind = 0.1

// guardCalls is how often an operation is called whose allocations are counted.
const guardCalls = 400

// warm calls do as often as is counted later, and lets everything come to rest.
func warm(t *testing.T, s *DefaultMessageStore, do func()) {
	t.Helper()
	for range guardCalls {
		do()
	}
	require.NoError(t, s.Flush(t.Context()))
	dispatched(t, s)
	indexed(t, s)
}

// mallocs is how many objects the process allocates for each call of do, while
// nothing is collected.
func mallocs(do func()) float64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range guardCalls {
		do()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / guardCalls
}

// TestGuardFileOperations counts the operations of the file system, of which most
// are system calls, during 250 puts of 100 bytes with a key, until everything
// behind them is at rest. The clock stands still. A goroutine that puts does none
// of them: neither while space is ready ahead of it nor when it waits for space,
// or for a sync.
func TestGuardFileOperations(t *testing.T) {
	const puts = 250
	for mode, limit := range map[FlushMode]operations{
		FlushAsync: {byPuts: 0, syncs: 0, others: 20}, // one for each 4 KiB, or more, of log, queue and index
		FlushSync:  {byPuts: 0, syncs: puts, others: puts + 20},
	} {
		t.Run(mode.String(), func(t *testing.T) {
			bubble(t, guardConfig(mode, 4<<20), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) { // the next file is not due
				putGuarded := func() {
					for range puts {
						if _, err := s.PutMessage(t.Context(), guarded(100)); err != nil {
							t.Error(err)
						}
					}
					synctest.Wait()
				}
				putGuarded() // queue and index get their files
				got := during(fs, putGuarded)
				t.Logf("%+v", got)
				require.LessOrEqual(t, got.byPuts, limit.byPuts, "on a goroutine that puts")
				require.LessOrEqual(t, got.syncs, limit.syncs)
				require.LessOrEqual(t, got.others, limit.others)
				closeStore(t, s)
			})
		})
	}
}

// operations are how many there were, each counted once.
type operations struct{ byPuts, syncs, others int }

// during counts the operations while do runs.
func during(fs *crashfs.FS, do func()) (n operations) {
	var mu sync.Mutex
	fs.Hook(func(c crashfs.Call) error {
		byPut := bytes.Contains(debug.Stack(), []byte(").PutMessage("))
		mu.Lock()
		defer mu.Unlock()
		switch {
		case byPut:
			n.byPuts++
		case c.Op == crashfs.OpSync || c.Op == crashfs.OpSyncDir:
			n.syncs++
		default:
			n.others++
		}
		return nil
	})
	defer fs.Hook(nil)
	do()
	return n
}

// TestGuardSharedSyncs has 64 writers put one message after the other, on a disk
// whose syncs take a while: one that does not get into the sync under way is in
// the next one. So none waits for more than two, and there are no more than two
// for each 64 messages.
func TestGuardSharedSyncs(t *testing.T) {
	const writers, each = 64, 16
	bubble(t, guardConfig(FlushSync, 512<<10), func(t *testing.T, fs *crashfs.FS, s *DefaultMessageStore) {
		var ended, most atomic.Int64
		fs.Hook(func(c crashfs.Call) error {
			if ok, _ := path.Match(logFiles, c.Path); ok && c.Op == crashfs.OpSync {
				<-time.After(time.Millisecond) // in the bubble: until all writers wait
				ended.Add(1)
			}
			return nil
		})
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				m := inner("t", 0, "x")
				for range each {
					before := ended.Load()
					if _, err := s.PutMessage(t.Context(), m); err != nil {
						t.Error(err)
					}
					for waited := ended.Load() - before; ; {
						if top := most.Load(); waited <= top || most.CompareAndSwap(top, waited) {
							break
						}
					}
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		fs.Hook(nil)
		t.Logf("%d syncs for %d messages; one waited for %d", ended.Load(), writers*each, most.Load())
		require.LessOrEqual(t, ended.Load(), int64(2*each))
		require.LessOrEqual(t, most.Load(), int64(2))
		require.EqualValues(t, 1+writers*each, s.Stats().Messages)
		closeStore(t, s)
	})
}
