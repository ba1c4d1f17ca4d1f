package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// openDelayStore opens a store of small files in one of the modes.
func openDelayStore(t *testing.T, dir string, cfg store.Config) *store.DefaultMessageStore {
	t.Helper()
	cfg.SegmentSize, cfg.ConsumeQueueFileSize, cfg.MaxBodySize = 32<<10, 20*20, 8<<10
	cfg.FlushTimeout = 10 * time.Minute // for a busy machine
	s, err := store.Open(t.Context(), dir, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// bodies are those of a queue's messages.
func bodies(t *testing.T, s *store.DefaultMessageStore, topic string, queueID int32) (got []string) {
	t.Helper()
	require.NoError(t, s.WaitDispatched(t.Context(), s.MaxOffset()))
	for v, err := range s.Messages(t.Context(), store.GetQuery{Topic: topic, QueueID: queueID, Verify: true}) {
		require.NoError(t, err)
		got = append(got, string(v.Body()))
	}
	return got
}

func numbered(from, to int) (texts []string) {
	for i := from; i < to; i++ {
		texts = append(texts, fmt.Sprint("m", i))
	}
	return texts
}

func delayFileText(t *testing.T, s *store.DefaultMessageStore) string {
	t.Helper()
	text, err := os.ReadFile(configFile(s, delayFile))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	require.NoError(t, err)
	return string(text)
}

// TestDelayedMessages of all levels come when they are due: not a millisecond
// before, and no later than the clock's next millisecond.
func TestDelayedMessages(t *testing.T) {
	for _, mode := range []store.FlushMode{store.FlushSync, store.FlushAsync} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openDelayStore(t, t.TempDir(), store.Config{Flush: mode})
				b := openBroker(t, Config{Store: s})
				createTopic(t, b, "orders", 4)
				began := time.Now()
				table := s.DelayLevels()
				require.Len(t, table, 18)
				for level := 19; level >= 1; level-- { // the last one is the first that is due; 19 counts as 18
					resp := send(t, b, "orders", 3, fmt.Sprint("m", level), "DELAY", fmt.Sprint(level), "TAGS", "red")
					require.EqualValues(t, 3, resp.QueueID)
				}
				var want []string
				for level := 1; level <= 18; level++ {
					time.Sleep(time.Until(began.Add(table[level-1] - time.Millisecond)))
					synctest.Wait()
					require.Equal(t, want, bodies(t, s, "orders", 3), "1 ms before level %d is due", level)
					time.Sleep(2 * time.Millisecond)
					synctest.Wait()
					if level == 18 {
						want = append(want, "m19")
					}
					want = append(want, fmt.Sprint("m", level))
					require.Equal(t, want, bodies(t, s, "orders", 3))
				}
				require.Len(t, bodies(t, s, message.ScheduleTopic, 17), 2)
				_, ms := pull(t, b, protocol.PullMessageRequest{Topic: "orders", QueueID: 3, TagExpression: "red", Offset: 17})
				require.Len(t, ms, 2)
				require.Equal(t, message.Properties("DELAY\x0118\x02TAGS\x01red\x02CLUSTER\x01DefaultCluster\x02REAL_TOPIC\x01orders\x02REAL_QID\x013"), ms[0].Properties)
				require.NoError(t, b.Close())
				require.Contains(t, delayFileText(t, s), `"offsetTable":{1:1,2:1,3:1,4:1,5:1,6:1,7:1,8:1,9:1,10:1,11:1,12:1,13:1,14:1,15:1,16:1,17:1,18:2`+"\n\t}\n}")
				require.NoError(t, s.Close())
			})
		})
	}
}

// TestIdleDelaysDoNothing: without delayed messages no file is written, and when
// all are delivered and saved, none any more.
func TestIdleDelaysDoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{})
		var looks atomic.Int64
		b := openBroker(t, Config{Store: s, Now: func() time.Time { looks.Add(1); return time.Now() }})
		createTopic(t, b, "orders", 1)
		send(t, b, "orders", 0, "now")
		time.Sleep(time.Hour)
		require.Empty(t, delayFileText(t, s))

		send(t, b, "orders", 0, "later", "DELAY", "1")
		time.Sleep(time.Second + DefaultOffsetPersistInterval + time.Millisecond)
		synctest.Wait()
		text, before := delayFileText(t, s), looks.Load()
		require.Contains(t, text, "{1:1\n")
		info, err := os.Stat(configFile(s, delayFile))
		require.NoError(t, err)
		time.Sleep(240 * time.Hour)
		synctest.Wait()
		require.Equal(t, before, looks.Load())
		again, err := os.Stat(configFile(s, delayFile))
		require.NoError(t, err)
		require.True(t, os.SameFile(info, again), "the file was not replaced")
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestLongDelays do not overflow.
func TestLongDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{DelayLevels: "2592000s 400d"})
		b := openBroker(t, Config{Store: s})
		createTopic(t, b, "orders", 1)
		send(t, b, "orders", 0, "year", "DELAY", "7") // the highest level is 2
		send(t, b, "orders", 0, "month", "DELAY", "1")
		time.Sleep(30*24*time.Hour - time.Millisecond)
		synctest.Wait()
		require.Empty(t, bodies(t, s, "orders", 0))
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"month"}, bodies(t, s, "orders", 0))
		time.Sleep(370 * 24 * time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"month", "year"}, bodies(t, s, "orders", 0))
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestDelaysAfterCrash copies the directory before and after every delivery, with
// progress that is saved after every other one, which is what a kill leaves, and
// goes on in each copy: no message is lost, and none comes twice. In half of the
// cases all messages have the same content.
func TestDelaysAfterCrash(t *testing.T) {
	for _, same := range []bool{false, true} {
		for _, mode := range []store.FlushMode{store.FlushSync, store.FlushAsync} {
			t.Run(fmt.Sprint(mode, " same bodies ", same), func(t *testing.T) { testDelaysAfterCrash(t, mode, same) })
		}
	}
}

func testDelaysAfterCrash(t *testing.T, mode store.FlushMode, same bool) {
	const n = 8
	body := func(i int) string {
		if same {
			return "m"
		}
		return fmt.Sprint("m", i)
	}
	var clock atomic.Int64
	clock.Store(1e12)
	var copies []string
	root := t.TempDir()
	now := func() time.Time { return time.UnixMilli(clock.Load()) }
	s := openDelayStore(t, t.TempDir(), store.Config{Flush: mode, Now: now, NoIndex: true})
	b := openBroker(t, Config{Store: s, Now: now})
	b.delays.tail = 300
	kill := func() {
		// A kill takes everything at one moment, a copy does not: nothing must be
		// on its way. Without its last message the log is that of the kill before.
		if err := errors.Join(s.Flush(t.Context()), s.WaitDispatched(t.Context(), s.MaxOffset())); err != nil {
			t.Error(err)
		}
		dir := filepath.Join(root, fmt.Sprint(len(copies)))
		copies = append(copies, dir)
		if err := copyOpen(dir, s.Dir()); err != nil {
			t.Error(err)
		}
	}
	b.delays.put = func(ctx context.Context, m *message.MessageExtBrokerInner) (store.PutMessageResult, error) {
		kill()
		defer kill()
		return s.PutMessage(ctx, m)
	}
	createTopic(t, b, "orders", 1)
	want := map[string]int{}
	for i := range n {
		send(t, b, "orders", 0, body(i), "DELAY", fmt.Sprint(1+i%2))
		want[body(i)]++
	}
	require.Eventually(t, func() bool { return len(b.delays.kick) == 0 }, time.Minute, time.Millisecond)
	clock.Add(6000)
	b.delays.parked(1) // look at the clock
	require.Eventually(t, func() bool { return s.MaxOffsetInQueue("orders", 0) == n }, time.Minute, time.Millisecond)
	require.NoError(t, b.Close())
	require.NoError(t, s.Close())

	require.Len(t, copies, 2*n)
	states := map[int]bool{}
	for i, dir := range copies {
		s := openDelayStore(t, dir, store.Config{Flush: mode, Now: now, NoIndex: true})
		delivered := len(bodies(t, s, "orders", 0))
		states[delivered] = true
		b := openBroker(t, Config{Store: s, Now: now})
		if delivered == n { // then there is only this to do
			require.Eventually(t, func() bool { return strings.Contains(delayFileText(t, s), "{1:4,2:4\n") }, time.Minute, time.Millisecond)
		}
		require.Eventually(t, func() bool { return s.MaxOffsetInQueue("orders", 0) >= n }, time.Minute, time.Millisecond, "copy %d", i)
		require.NoError(t, b.Close())
		got := map[string]int{}
		for _, text := range bodies(t, s, "orders", 0) {
			got[text]++
		}
		require.Equal(t, want, got, "copy %d", i)
		require.Contains(t, delayFileText(t, s), "{1:4,2:4\n")
		require.NoError(t, s.Close())
	}
	require.Greater(t, len(states), n/2, "the copies have different numbers of messages")
}

// TestDelayOffsetsOutsideOfTheQueue are corrected, and saved.
func TestDelayOffsetsOutsideOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openDelayStore(t, dir, store.Config{Flush: store.FlushAsync})
		b := openBroker(t, Config{Store: s})
		createTopic(t, b, "orders", 1)
		for i := range 5 {
			send(t, b, "orders", 0, fmt.Sprint("m", i), "DELAY", "2")
		}
		time.Sleep(6 * time.Second)
		require.NoError(t, b.Close())
		require.NoError(t, s.WriteConfig(delayFile, []byte(`{"offsetTable":{2:77,"5":3,99:1},"other":[1]}`)))
		b = openBroker(t, Config{Store: s})
		synctest.Wait()
		require.Regexp(t, `^{\n\t"logOffset":\d+,\n\t"offsetTable":{2:5,5:0,99:0\n\t},\n\t"other":\[1\]\n}$`, delayFileText(t, s))
		send(t, b, "orders", 0, "m5", "DELAY", "2")
		time.Sleep(6 * time.Second)
		synctest.Wait()
		require.Equal(t, numbered(0, 6), bodies(t, s, "orders", 0))
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestRemovedDelayedMessages are passed over: those behind them come.
func TestRemovedDelayedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{Flush: store.FlushAsync})
		b := openBroker(t, Config{Store: s})
		createTopic(t, b, "orders", 1)
		for i := range 20 {
			send(t, b, "orders", 0, fmt.Sprint(i, strings.Repeat("x", 4000)), "DELAY", "3")
		}
		require.NoError(t, b.Close())
		_, err := s.RemoveBefore(t.Context(), s.MaxOffset()-40_000)
		require.NoError(t, err)
		first := int(s.MinOffsetInQueue(message.ScheduleTopic, 2))
		require.Positive(t, first)
		b = openBroker(t, Config{Store: s})
		time.Sleep(11 * time.Second)
		synctest.Wait()
		got := bodies(t, s, "orders", 0)
		require.Len(t, got, 20-first)
		require.True(t, strings.HasPrefix(got[0], fmt.Sprint(first, "x")))
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestFailedDelivery is repeated, ever more seldom, and neither loses a message
// nor changes their order.
func TestFailedDelivery(t *testing.T) {
	for _, lasting := range []time.Duration{0, time.Hour} {
		t.Run(lasting.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openDelayStore(t, t.TempDir(), store.Config{Flush: store.FlushAsync})
				b := openBroker(t, Config{Store: s})
				createTopic(t, b, "orders", 1)
				began, failures := time.Now(), 0
				b.delays.put = func(ctx context.Context, m *message.MessageExtBrokerInner) (store.PutMessageResult, error) {
					if string(m.Body) == "m2" && (failures == 0 || time.Since(began) < lasting) {
						failures++
						return store.PutMessageResult{Status: store.PutServiceNotAvailable}, message.ErrDiskFull
					}
					return s.PutMessage(ctx, m)
				}
				for i := range 5 {
					send(t, b, "orders", 0, fmt.Sprint("m", i), "DELAY", "1")
				}
				send(t, b, "orders", 0, "other level", "DELAY", "2")
				time.Sleep(10 * time.Second)
				if lasting > 0 {
					require.Equal(t, []string{"m0", "m1", "other level"}, bodies(t, s, "orders", 0))
					require.Contains(t, delayFileText(t, s), "{1:2,2:1\n")
					time.Sleep(lasting + delayMaxBackoff)
					require.Equal(t, append(append(numbered(0, 2), "other level"), numbered(2, 5)...), bodies(t, s, "orders", 0))
					require.Less(t, failures, 400)
				} else {
					require.Equal(t, append(numbered(0, 5), "other level"), bodies(t, s, "orders", 0))
					require.Equal(t, 1, failures)
				}
				require.NoError(t, b.Close())
				require.NoError(t, s.Close())
			})
		})
	}
}

// TestUndeliverableMessages do not keep others from being delivered, and are not
// looked at again.
func TestUndeliverableMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{Flush: store.FlushAsync})
		for _, p := range []message.Properties{
			"DELAY\x011", "DELAY\x011\x02REAL_TOPIC\x01orders", "DELAY\x011\x02REAL_TOPIC\x01orders\x02REAL_QID\x01first",
			"DELAY\x011\x02REAL_TOPIC\x01SCHEDULE_TOPIC_XXXX\x02REAL_QID\x010", "DELAY\x011\x02REAL_TOPIC\x01RMQ_SYS_TRANS_HALF_TOPIC\x02REAL_QID\x010",
			"DELAY\x011\x02REAL_TOPIC\x01../up\x02REAL_QID\x010", "DELAY\x011\x02REAL_TOPIC\x01orders\x02REAL_QID\x01-4",
			"DELAY\x011\x02REAL_TOPIC\x01orders\x02REAL_QID\x010",
		} {
			m := message.MessageExtBrokerInner{}
			m.Topic, m.Properties, m.Body = message.ScheduleTopic, p, []byte("x")
			_, err := s.PutMessage(t.Context(), &m)
			require.NoError(t, err)
		}
		b := openBroker(t, Config{Store: s})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"x"}, bodies(t, s, "orders", 0))
		require.NoError(t, b.Close())
		require.Contains(t, delayFileText(t, s), "{1:8\n")
		for topic := range s.QueueIDs() {
			require.Contains(t, []string{"orders", message.ScheduleTopic}, topic)
		}
		require.NoError(t, s.Close())
	})
}

// TestDelayClockSetBack: messages that get the time of an earlier one because the
// clock is behind it wait as long as others.
func TestDelayClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		now := func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }
		s := openDelayStore(t, t.TempDir(), store.Config{Flush: store.FlushAsync, Now: now})
		b := openBroker(t, Config{Store: s, Now: now})
		createTopic(t, b, "orders", 1)
		send(t, b, "orders", 0, "before")
		back.Store(int64(time.Hour))
		send(t, b, "orders", 0, "m0", "DELAY", "3")
		synctest.Wait()
		time.Sleep(9999 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"before"}, bodies(t, s, "orders", 0))
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"before", "m0"}, bodies(t, s, "orders", 0))

		send(t, b, "orders", 0, "m1", "DELAY", "5")
		time.Sleep(time.Millisecond)
		back.Store(-int64(time.Hour)) // the clock goes forward: it is due, and noticed within a minute
		time.Sleep(delayLookAgain)
		synctest.Wait()
		require.Equal(t, []string{"before", "m0", "m1"}, bodies(t, s, "orders", 0))
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestParkedMessagesAreKept until they are delivered, and then removed.
func TestParkedMessagesAreKept(t *testing.T) {
	for _, rule := range []store.GroupRule{store.IgnoreGroups, store.KeepUnconsumed, store.RemoveConsumed} {
		t.Run(rule.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openDelayStore(t, t.TempDir(), store.Config{Flush: store.FlushAsync, Retention: store.Retention{Groups: rule}})
				b := openBroker(t, Config{Store: s})
				createTopic(t, b, "orders", 1)
				createTopic(t, b, "others", 1)
				send(t, b, "orders", 0, "m", "DELAY", "18")
				commit := func(topic string, off message.QueueOffset) {
					require.NoError(t, b.UpdateConsumerOffset(t.Context(), protocol.UpdateConsumerOffsetRequest{
						Group: "g", Topic: topic, Offsets: []protocol.QueuePosition{{Offset: off}}, Sync: true,
					}))
				}
				for range 20 {
					send(t, b, "others", 0, strings.Repeat("x", 4000))
				}
				commit("others", 20)
				clean := func() {
					_, err := s.RemoveBefore(t.Context(), s.MaxOffset())
					require.NoError(t, err)
				}
				clean()
				require.Zero(t, s.MinOffset())
				time.Sleep(2*time.Hour + time.Second)
				require.Equal(t, []string{"m"}, bodies(t, s, "orders", 0))
				commit("orders", 1)
				time.Sleep(time.Minute)
				clean()
				require.Positive(t, s.MinOffset())
				require.NoError(t, b.Close())
				require.NoError(t, s.Close())
			})
		})
	}
}

// TestFewerLevels: messages of levels that are no longer in the table are due a
// second after they were stored, and not forgotten.
func TestFewerLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := openDelayStore(t, dir, store.Config{})
		b := openBroker(t, Config{Store: s})
		createTopic(t, b, "orders", 1)
		send(t, b, "orders", 0, "m17", "DELAY", "17")
		send(t, b, "orders", 0, "m2", "DELAY", "2")
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())

		s = openDelayStore(t, dir, store.Config{DelayLevels: "1s 10s"})
		b = openBroker(t, Config{Store: s})
		time.Sleep(1001 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []string{"m17"}, bodies(t, s, "orders", 0))
		time.Sleep(9 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"m17", "m2"}, bodies(t, s, "orders", 0))
		require.NoError(t, b.Close())
		require.Contains(t, delayFileText(t, s), "{2:1,17:1\n")
		require.NoError(t, s.Close())
	})
}

// TestDamagedDelayFile is an error, and the backup serves.
func TestDamagedDelayFile(t *testing.T) {
	s := openStore(t, t.TempDir())
	require.NoError(t, s.WriteConfig(delayFile, []byte(`{"offsetTable":{1:0}}`)))
	require.NoError(t, s.WriteConfig(delayFile, []byte(`{"offsetTable":{1:`)))
	b := openBroker(t, Config{Store: s})
	require.NoError(t, b.Close())
	for _, text := range []string{`{"offsetTable":{one:1}}`, `{"offsetTable":[]}`, `{"logOffset":"x"}`, `null`} {
		for range 2 {
			require.NoError(t, s.WriteConfig(delayFile, []byte(text)))
		}
		_, err := New(t.Context(), Config{Store: s})
		require.ErrorIs(t, err, message.ErrCorrupt, text)
		require.ErrorContains(t, err, delayFile)
	}
}
