package broker

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// TestTimedMessagesAreKept by every rule, and move along with the log instead of
// holding it: they come once, when they are due.
func TestTimedMessagesAreKept(t *testing.T) {
	for name, retention := range map[string]store.Retention{
		"bytes":           {RetainBytes: 100_000},
		"age":             {MaxAge: 5 * time.Minute},
		"consumed":        {Groups: store.RemoveConsumed},
		"keep unconsumed": {RetainBytes: 100_000, Groups: store.KeepUnconsumed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testTimedMessagesAreKept(t, retention) })
		})
	}
}

func testTimedMessagesAreKept(t *testing.T, retention store.Retention) {
	dir := t.TempDir()
	open := func() *Broker {
		return openBroker(t, Config{Store: openDelayStore(t, dir, store.Config{Flush: store.FlushAsync, Retention: retention})})
	}
	b := open()
	createTopic(t, b, "orders", 1)
	createTopic(t, b, "others", 1)
	const n = 5
	due := time.Now().Add(time.Hour)
	for i := range n {
		sendAt(t, b, fmt.Sprint("m", i), due)
	}
	require.NoError(t, cancelTimer(t, b, "m2"))
	others := message.QueueOffset(0)
	var most int64
	for step := range 40 {
		send(t, b, "others", 0, strings.Repeat("x", 7000))
		others++
		require.NoError(t, b.UpdateConsumerOffset(t.Context(), protocol.UpdateConsumerOffsetRequest{
			Group: "g", Topic: "others", Offsets: []protocol.QueuePosition{{Offset: others}},
		}))
		time.Sleep(time.Minute)
		synctest.Wait()
		most = max(most, int64(b.store.MaxOffset()-b.store.MinOffset()))
		if step%15 == 14 {
			require.NoError(t, b.Close())
			require.NoError(t, b.store.Close())
			b = open()
		}
	}
	require.Positive(t, b.store.MinOffsetInQueue(message.TimerTopic, 0))
	require.Less(t, most, int64(300_000), "bytes of the log")
	require.Equal(t, []string{"m0", "m1", "m3", "m4"}, waiting(t, b))
	time.Sleep(time.Until(due.Add(-time.Millisecond)))
	synctest.Wait()
	require.Empty(t, bodies(t, b.store, "orders", 0))
	time.Sleep(time.Millisecond)
	synctest.Wait()
	require.Equal(t, []string{"m0", "m1", "m3", "m4"}, bodies(t, b.store, "orders", 0))
	require.NoError(t, b.Close())
	require.NoError(t, b.store.Close())
}

// TestTimedMessagesAreNotMovedInVain: not where nothing is to be removed, and where
// more waits than may stay, only as much as others write.
func TestTimedMessagesAreNotMovedInVain(t *testing.T) {
	for name, test := range map[string]struct {
		retention store.Retention
		most      int64
	}{
		"nothing is to be removed": {store.Retention{}, 0},
		"more waits than may stay": {store.Retention{RetainBytes: 100_000}, 2 * timerRollCredit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := openBroker(t, Config{Store: openDelayStore(t, t.TempDir(), store.Config{Flush: store.FlushAsync, Retention: test.retention})})
				createTopic(t, b, "orders", 1)
				p, err := message.NewProperties(message.PropertyTimerDelaySeconds, "1000000")
				require.NoError(t, err)
				for range 50 {
					_, err := sendTimed(t, b, strings.Repeat("x", 8000), p)
					require.NoError(t, err)
				}
				end := b.store.MaxOffset()
				synctest.Wait()
				_, err = b.store.DeleteExpired(t.Context()) // the last time it looked, a message may not have been known
				require.NoError(t, err)
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				moved := int64(b.store.MaxOffset() - end)
				require.LessOrEqual(t, moved, test.most)
				records := b.store.MaxOffsetInQueue(message.TimerTopic, 0)
				require.Equal(t, test.most > 0, records > 50, "some may be moved while others are sent")
				require.Len(t, waiting(t, b), 50)
				require.NoError(t, b.Close())
				require.NoError(t, b.store.Close())
			})
		})
	}
}

// heapInUse is what is in use.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestManyTimers bounds heap and what a restart reads.
func TestManyTimers(t *testing.T) { testManyTimers(t, 20_000) }

func testManyTimers(t *testing.T, n int) {
	clock := int64(1e12)
	cfg := Config{Now: func() time.Time { return time.UnixMilli(clock) }}
	dir := t.TempDir()
	open := func() *Broker {
		var err error
		cfg.Store, err = store.Open(t.Context(), dir, store.Config{Flush: store.FlushAsync, NoIndex: true, Now: cfg.Now})
		require.NoError(t, err)
		return openBroker(t, cfg)
	}
	b := open()
	createTopic(t, b, "orders", 1)
	before := heapInUse()
	for i := range n {
		at := clock + 1000 + int64(i)*7919%int64(n) // in no order
		p := message.Properties(fmt.Sprintf("UNIQ_KEY\x01%032d\x02TIMER_DELIVER_MS\x01%d", i, at))
		_, err := sendTimed(t, b, "reminder", p)
		require.NoError(t, err)
		if i%100 == 0 { // a dispatcher that is behind is given more memory
			require.NoError(t, b.store.WaitDispatched(t.Context(), b.store.MaxOffset()))
		}
	}
	firstPage := func() []protocol.TimerInfo {
		page, err := b.ListTimers(t.Context(), protocol.ListTimersRequest{Max: 10})
		require.NoError(t, err)
		return page.Timers
	}
	first := firstPage()
	require.Equal(t, n, b.timers.state.index.len())
	used := heapInUse() - before
	t.Logf("%d timers: %d bytes of heap, %d each", n, used, used/int64(n))
	require.Less(t, used, 100*int64(n)+1<<20)
	require.NoError(t, b.Close())
	require.NoError(t, b.store.Close())

	info, err := os.Stat(filepath.Join(dir, "pocketmq", timerFile))
	require.NoError(t, err)
	require.EqualValues(t, 16+timerFileHeader+timerFileEntry*n, info.Size())
	before = heapInUse()
	b = open()
	require.Equal(t, first, firstPage())
	require.Zero(t, b.timers.records, "records of the log that were read")
	require.Zero(t, b.timers.parks, "records of the topic that were read")
	require.Less(t, heapInUse()-before, 100*int64(n)+1<<20)
	require.Equal(t, n, b.timers.state.index.len())
	require.NoError(t, b.Close())
	again, err := os.Stat(filepath.Join(dir, "pocketmq", timerFile))
	require.NoError(t, err)
	require.Equal(t, info.ModTime(), again.ModTime(), "it was right, and not written again")
	require.NoError(t, b.store.Close())
}

// TestRestartAfterCrashReadsLittle: what was parked since the file was written, and
// the log from where it was or from when something was due.
func TestRestartAfterCrashReadsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openDelayStore(t, dir, store.Config{Flush: store.FlushAsync})
		b := openBroker(t, Config{Store: s})
		createTopic(t, b, "orders", 1)
		const n = 100
		for i := range n {
			sendAt(t, b, fmt.Sprint("m", i), time.Now().Add(time.Duration(i+1)*time.Hour))
		}
		time.Sleep(2*time.Hour + time.Minute)
		for range n {
			send(t, b, "others", 0, strings.Repeat("x", 3000))
		}
		time.Sleep(time.Minute) // the store writes a recovery point
		sendAt(t, b, "last", time.Now().Add(time.Hour))
		synctest.Wait()
		next := filepath.Join(t.TempDir(), "copy")
		require.NoError(t, os.CopyFS(next, os.DirFS(dir)))
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())

		s = openDelayStore(t, next, store.Config{Flush: store.FlushAsync})
		b = openBroker(t, Config{Store: s})
		require.Len(t, waiting(t, b), n-2+1)
		require.EqualValues(t, 1, b.timers.parks, "the last one")
		require.LessOrEqual(t, b.timers.records, int64(32_000/3000+2), "the last file of the log, as nothing was due since")
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestTailIsBounded: what was delivered is counted in the file before too much of
// the log would have to be looked through, however seldom it is written else.
func TestTailIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		const n, between, tail = 10, 30, 50_000
		cfg := Config{OffsetPersistInterval: 1000 * time.Hour}
		cfg.Store = openDelayStore(t, dir, store.Config{Flush: store.FlushAsync})
		b := openBroker(t, cfg)
		setTail(b, tail)
		createTopic(t, b, "orders", 1)
		for i := range n + 1 {
			sendAt(t, b, fmt.Sprint("m", i), time.Now().Add(time.Duration(i+1)*time.Hour))
		}
		for range n {
			time.Sleep(time.Hour + time.Second)
			for range between {
				send(t, b, "others", 0, strings.Repeat("x", 3000))
			}
		}
		time.Sleep(time.Minute) // the store writes a recovery point
		synctest.Wait()
		next := filepath.Join(t.TempDir(), "copy")
		require.NoError(t, os.CopyFS(next, os.DirFS(dir)))
		require.NoError(t, b.Close())
		require.NoError(t, cfg.Store.Close())

		cfg.Store = openDelayStore(t, next, store.Config{Flush: store.FlushAsync})
		b = openBroker(t, cfg)
		require.Equal(t, []string{"m10"}, waiting(t, b))
		require.LessOrEqual(t, b.timers.records, int64(tail/3000+between+5))
		require.NoError(t, b.Close())
		require.NoError(t, cfg.Store.Close())
	})
}

// TestHeldTimers: the log is held from the first message that waits, and let go of
// only some time after it has ended, when that is on disk.
func TestHeldTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := openBroker(t, Config{})
		createTopic(t, b, "orders", 1)
		require.Zero(t, b.timers.consumed())
		for i := range 4 {
			sendAt(t, b, fmt.Sprint("m", i), time.Now().Add(time.Duration(4-i)*time.Hour))
		}
		for _, step := range []struct {
			cancel string
			held   message.QueueOffset
		}{{"m1", 0}, {"m0", 2}, {"m3", 2}, {"m2", 8}} {
			before := b.timers.consumed()
			require.NoError(t, cancelTimer(t, b, step.cancel))
			synctest.Wait()
			require.Equal(t, before, b.timers.consumed())
			time.Sleep(DefaultOffsetPersistInterval + time.Millisecond)
			synctest.Wait()
			require.Equal(t, step.held, b.timers.consumed(), step.cancel)
		}
		require.NoError(t, b.Close())
		b = openBroker(t, Config{Store: b.store})
		sendAt(t, b, "m4", time.Now().Add(time.Hour))
		require.NoError(t, cancelTimer(t, b, "m4"))
		require.EqualValues(t, 8, b.timers.consumed())
		require.NoError(t, b.store.Close())
		time.Sleep(time.Minute)
		require.EqualValues(t, 8, b.timers.consumed(), "what has ended it can not be put on disk any more")
		require.Error(t, b.Close())
	})
}

// TestRollPassesOverNothing: what can not be delivered stays until it is due, and
// keeps nobody from being delivered.
func TestRollPassesOverNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{})
		due := time.Now().Add(time.Hour)
		m := message.MessageExtBrokerInner{}
		m.Topic, m.Body = message.TimerTopic, []byte("x")
		m.Properties = message.Properties(fmt.Sprintf("TIMER_OUT_MS\x01%d\x02REAL_TOPIC\x01orders\x02REAL_QID\x01first", due.UnixMilli()))
		_, err := s.PutMessage(t.Context(), &m)
		require.NoError(t, err)
		b := openBroker(t, Config{Store: s})
		createTopic(t, b, "orders", 1)
		sendAt(t, b, "m0", due.Add(-time.Minute))
		sendAt(t, b, "m1", due.Add(time.Minute))
		b.timers.heldBack(s.MaxOffset())
		time.Sleep(59*time.Minute + time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"m0"}, bodies(t, s, "orders", 0))
		require.Zero(t, b.timers.consumed())
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"m0", "m1"}, bodies(t, s, "orders", 0))
		require.NoError(t, b.Close())
		require.EqualValues(t, 4, b.timers.consumed(), "it was ended, by one more record")
		require.NoError(t, s.Close())
	})
}
