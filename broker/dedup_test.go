package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// keyed is a message with a unique key.
func keyed(topic string, queueID int32, key string, properties ...string) protocol.SendMessageRequest {
	p, err := message.NewProperties(append([]string{"UNIQ_KEY", key}, properties...)...)
	if err != nil {
		panic(err)
	}
	return protocol.SendMessageRequest{Message: message.Message{Topic: topic, Body: []byte(key), Properties: p}, QueueID: queueID}
}

// batchOf is a batch of messages with these unique keys.
func batchOf(t *testing.T, topic string, queueID int32, keys ...string) protocol.SendMessageBatchRequest {
	t.Helper()
	var body []byte
	for _, key := range keys {
		m := message.Message{Body: []byte(key)}
		if key != "" {
			m.Properties = message.Properties("UNIQ_KEY\x01" + key)
		} else {
			m.Body = []byte("none")
		}
		var err error
		body, err = message.AppendBatchElement(body, &m)
		require.NoError(t, err)
	}
	return protocol.SendMessageBatchRequest{SendMessageRequest: protocol.SendMessageRequest{
		Message: message.Message{Topic: topic, Body: body}, QueueID: queueID,
	}}
}

func mustSend(t *testing.T, b *Broker, req protocol.SendMessageRequest) protocol.SendMessageResponse {
	t.Helper()
	resp, err := b.SendMessage(t.Context(), req)
	require.NoError(t, err)
	return resp
}

// count is how many messages the queue has.
func count(t *testing.T, b *Broker, topic string, queueID int32) int {
	t.Helper()
	require.NoError(t, b.store.WaitDispatched(t.Context(), b.store.MaxOffset()))
	return int(b.store.MaxOffsetInQueue(topic, queueID))
}

func TestDedup(t *testing.T) {
	b := openBroker(t, Config{Dedup: DedupWindow{Messages: 100}})
	createTopic(t, b, "orders", 2)
	createTopic(t, b, "letters", 2)
	first := mustSend(t, b, keyed("orders", 1, "A"))
	for range 3 {
		require.Equal(t, first, mustSend(t, b, keyed("orders", 0, "A")), "with the queue of the first")
	}
	other := mustSend(t, b, keyed("letters", 0, "A"))
	require.NotEqual(t, first.MessageID, other.MessageID, "another topic")
	require.Equal(t, 0, count(t, b, "orders", 0))
	require.Equal(t, 1, count(t, b, "orders", 1))
	require.EqualValues(t, 3, b.Repeated())

	delayed := mustSend(t, b, keyed("orders", 1, "D", "DELAY", "18"))
	require.Equal(t, delayed, mustSend(t, b, keyed("orders", 0, "D", "DELAY", "18")))
	require.Equal(t, delayed, mustSend(t, b, keyed("orders", 0, "D")))
	require.EqualValues(t, 1, delayed.QueueID)
	require.Equal(t, 1, count(t, b, message.ScheduleTopic, 17))

	for range 2 {
		send(t, b, "orders", 0, "without a key")
		mustSend(t, b, keyed("%RETRY%g", 0, "A"))
		mustSend(t, b, keyed("%DLQ%g", 0, "A"))
		mustSend(t, b, keyed(protocol.TraceTopic, 0, "A"))
	}
	require.Equal(t, 2, count(t, b, "orders", 0))
	for _, topic := range []string{"%RETRY%g", "%DLQ%g", protocol.TraceTopic} {
		require.Equal(t, 2, count(t, b, topic, 0), topic)
	}
	before := b.store.MaxOffset()
	_, err := b.SendMessage(t.Context(), keyed("orders", 7, "A"))
	require.ErrorIs(t, err, protocol.SystemError, "what is refused is refused again")
	require.Equal(t, before, b.store.MaxOffset())
}

// TestDedupOfDeletedTopic: what went with a topic is not known in the next of its name.
func TestDedupOfDeletedTopic(t *testing.T) {
	s := openStore(t, t.TempDir())
	b := openBroker(t, Config{Store: s, Dedup: DedupWindow{Messages: 100}})
	createTopic(t, b, "orders", 1)
	first := mustSend(t, b, keyed("orders", 0, "A"))
	require.NoError(t, b.DeleteTopic(t.Context(), "orders"))
	createTopic(t, b, "orders", 1)
	second := mustSend(t, b, keyed("orders", 0, "A"))
	require.Greater(t, second.MessageID.Offset, first.MessageID.Offset)
	require.Equal(t, second, mustSend(t, b, keyed("orders", 0, "A")))
	require.NoError(t, b.Close())
	b = openBroker(t, Config{Store: s, Dedup: DedupWindow{Messages: 100}})
	require.Equal(t, second, mustSend(t, b, keyed("orders", 0, "A")))
}

// TestDedupOff is how it is without a configuration.
func TestDedupOff(t *testing.T) {
	b := openBroker(t, Config{})
	createTopic(t, b, "orders", 1)
	require.NotEqual(t, mustSend(t, b, keyed("orders", 0, "A")), mustSend(t, b, keyed("orders", 0, "A")))
	require.Zero(t, b.Repeated())
}

func TestDedupConfigRefuses(t *testing.T) {
	_, err := New(t.Context(), Config{Dedup: DedupWindow{Messages: -1, Duration: -1}})
	require.ErrorContains(t, err, "Config.Dedup.Messages: -1")
	require.ErrorContains(t, err, "Config.Dedup.Duration (negative)")
	require.Equal(t, DedupWindow{DefaultDedupMessages, time.Minute}, DedupWindow{Duration: time.Minute}.withDefaults())
	require.Zero(t, DedupWindow{}.withDefaults())
}

// TestDedupBatch: a batch that was stored as it is now sent is not stored again;
// any other is, as a whole.
func TestDedupBatch(t *testing.T) {
	b := openBroker(t, Config{Dedup: DedupWindow{Messages: 100}})
	createTopic(t, b, "orders", 2)
	mustBatch := func(req protocol.SendMessageBatchRequest) protocol.SendMessageBatchResponse {
		t.Helper()
		resp, err := b.SendMessageBatch(t.Context(), req)
		require.NoError(t, err)
		return resp
	}
	first := mustBatch(batchOf(t, "orders", 1, "A", "B", "C"))
	require.Equal(t, first, mustBatch(batchOf(t, "orders", 0, "A", "B", "C")))
	require.EqualValues(t, 3, b.Repeated())
	part := mustBatch(batchOf(t, "orders", 0, "B", "C"))
	require.Equal(t, first.Offsets[1:], part.Offsets)
	require.Equal(t, first.QueueOffset+1, part.QueueOffset)
	one := mustBatch(batchOf(t, "orders", 0, "C"))
	require.Equal(t, first.Offsets[2:], one.Offsets)
	single := mustSend(t, b, keyed("orders", 0, "B"))
	require.Equal(t, first.Offsets[1], single.MessageID.Offset, "a message of a batch is known")
	require.Equal(t, first.QueueOffset+1, single.QueueOffset)
	require.Equal(t, 3, count(t, b, "orders", 1))
	require.Equal(t, 0, count(t, b, "orders", 0))

	for i, keys := range [][]string{{"A", "X"}, {"B", "A"}, {"A", ""}, {"A", "A"}, {""}} {
		resp := mustBatch(batchOf(t, "orders", 0, keys...))
		require.Len(t, resp.Offsets, len(keys), i)
		require.Greater(t, resp.Offsets[0], first.Offsets[2], i)
	}
	require.Equal(t, 9, count(t, b, "orders", 0))
	twice := mustBatch(batchOf(t, "orders", 1, "A", "A"))
	require.EqualValues(t, 0, twice.QueueID, "the same key twice, as it was stored")
	require.Equal(t, 3, count(t, b, "orders", 1))
}

// TestDedupWindowEnds by number and by time.
func TestDedupWindowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{Flush: store.FlushAsync})
		b := openBroker(t, Config{Store: s, Dedup: DedupWindow{Messages: 3, Duration: time.Minute}})
		createTopic(t, b, "orders", 1)
		sendAll := func(keys ...string) (offsets []message.QueueOffset) {
			for _, key := range keys {
				offsets = append(offsets, mustSend(t, b, keyed("orders", 0, key)).QueueOffset)
			}
			return offsets
		}
		require.Equal(t, []message.QueueOffset{0, 1, 2, 0, 1, 2}, sendAll("A", "B", "C", "A", "B", "C"))
		require.Equal(t, []message.QueueOffset{3, 4}, sendAll("D", "A"), "A was forgotten for D")
		require.Equal(t, []message.QueueOffset{2, 3, 4}, sendAll("C", "D", "A"))
		time.Sleep(time.Minute)
		require.Equal(t, []message.QueueOffset{2, 3, 4}, sendAll("C", "D", "A"))
		time.Sleep(time.Millisecond)
		require.Equal(t, []message.QueueOffset{5, 5, 6}, sendAll("A", "A", "D"), "of two the newer one is known")
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestDedupReadsTheMessage: equal hashes are no proof, nor is a message that is gone.
func TestDedupReadsTheMessage(t *testing.T) {
	b := openBroker(t, Config{Dedup: DedupWindow{Messages: 10}})
	createTopic(t, b, "orders", 1)
	first := mustSend(t, b, keyed("orders", 0, "A"))
	b.dedup.recent.add(newUniqueKey("orders", "B").hash, first.MessageID.Offset)
	b.dedup.recent.add(newUniqueKey("orders", "C").hash, first.MessageID.Offset+1)
	require.EqualValues(t, 1, mustSend(t, b, keyed("orders", 0, "B")).QueueOffset)
	require.EqualValues(t, 2, mustSend(t, b, keyed("orders", 0, "C")).QueueOffset)
	require.EqualValues(t, 1, mustSend(t, b, keyed("orders", 0, "B")).QueueOffset)
	require.Zero(t, first.QueueOffset)
}

// TestDedupConcurrently: of those who send one message at once, one stores it.
func TestDedupConcurrently(t *testing.T) {
	for _, mode := range []store.FlushMode{store.FlushSync, store.FlushAsync} {
		s, err := store.Open(t.Context(), t.TempDir(), store.Config{Flush: mode, FlushTimeout: 10 * time.Minute, SegmentSize: 1 << 20, ConsumeQueueFileSize: 100 * 20})
		require.NoError(t, err)
		defer s.Close()
		b := openBroker(t, Config{Store: s, Dedup: DedupWindow{Messages: 1000}})
		createTopic(t, b, "orders", 4)
		const senders, keys = 8, 50
		var got [senders][keys]protocol.SendMessageResponse
		var wg sync.WaitGroup
		for i := range senders {
			wg.Go(func() {
				for k := range keys {
					var err error
					if got[i][k], err = b.SendMessage(t.Context(), keyed("orders", int32(i%4), fmt.Sprint("K", k))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for i := range senders {
			require.Equal(t, got[0], got[i])
		}
		total := 0
		for q := range int32(4) {
			total += count(t, b, "orders", q)
		}
		require.Equal(t, keys, total)
		require.EqualValues(t, (senders-1)*keys, b.Repeated())
		require.Empty(t, b.dedup.claims)
	}
}

// TestDedupWaitsForTheFirst has a put that is under way: who sends the message
// again waits, stores it when the first did not, and gives up with its context.
func TestDedupWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{Flush: store.FlushAsync})
		b := openBroker(t, Config{Store: s, Dedup: DedupWindow{Messages: 10}})
		createTopic(t, b, "orders", 1)
		keys := []uniqueKey{newUniqueKey("orders", "A")}
		require.NoError(t, b.dedup.claim(t.Context(), keys))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		resp, err := b.SendMessage(ctx, keyed("orders", 0, "A"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, protocol.SystemError, resp.Code)
		require.True(t, protocol.Overloaded(err))

		answered := make(chan protocol.SendMessageResponse, 2)
		for range 2 {
			go func() { answered <- mustSend(t, b, keyed("orders", 0, "A")) }()
		}
		synctest.Wait()
		require.Empty(t, answered)
		require.Zero(t, s.MaxOffset())
		b.dedup.release(keys, nil) // it has failed
		first := <-answered
		require.Equal(t, first, <-answered)
		require.Equal(t, 1, count(t, b, "orders", 0))
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestDedupWaitsForTheSync: while the first one is not on disk, nobody hears that
// it is kept.
func TestDedupWaitsForTheSync(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), store.Config{Flush: store.FlushSync, FlushTimeout: 10 * time.Minute, SegmentSize: 1 << 20, ConsumeQueueFileSize: 100 * 20})
	require.NoError(t, err)
	defer s.Close()
	b := openBroker(t, Config{Store: s, Dedup: DedupWindow{Messages: 10}})
	createTopic(t, b, "orders", 1)
	for i := range 50 {
		key := fmt.Sprint("K", i)
		first := mustSend(t, b, keyed("orders", 0, key, "WAIT", "false"))
		again := mustSend(t, b, keyed("orders", 0, key))
		require.Equal(t, first, again)
		require.Greater(t, s.MaxOffset(), first.MessageID.Offset, "what readers see is on disk")
	}
	require.NoError(t, s.Close())
	resp, err := b.SendMessage(t.Context(), keyed("orders", 0, "K49"))
	require.ErrorIs(t, err, message.ErrClosed)
	require.Equal(t, protocol.ServiceNotAvailable, resp.Code)
}

// TestDedupRestart: the window is what it was, after a clean stop and after a crash,
// whatever else is in the log. Copies that the broker delivers are no messages of
// their own.
func TestDedupRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cfg := store.Config{Flush: store.FlushSync, SegmentSize: 64 << 10}
		s := openDelayStore(t, dir, cfg)
		dedup := DedupWindow{Messages: 200}
		b := openBroker(t, Config{Store: s, Dedup: dedup})
		createTopic(t, b, "orders", 2)
		want := map[string]protocol.SendMessageResponse{}
		for i := range 300 { // several files
			key := fmt.Sprint("K", i)
			req := keyed("orders", int32(i%2), key, "pad", fmt.Sprintf("%0500d", i))
			if i%10 == 0 {
				req.Message.Properties += "\x02DELAY\x011"
			}
			want[key] = mustSend(t, b, req)
			send(t, b, "orders", 0, "without a key")
		}
		time.Sleep(2 * time.Second) // the delayed ones are delivered
		synctest.Wait()
		batch, err := b.SendMessageBatch(t.Context(), batchOf(t, "orders", 0, "X", "Y"))
		require.NoError(t, err)
		require.NoError(t, s.WaitDispatched(t.Context(), s.MaxOffset()))
		require.Equal(t, 300+300+2, count(t, b, "orders", 0)+count(t, b, "orders", 1))

		crashed := filepath.Join(t.TempDir(), "crashed")
		require.NoError(t, os.CopyFS(crashed, os.DirFS(dir)))
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
		for _, dir := range []string{dir, crashed} {
			s := openDelayStore(t, dir, cfg)
			b := openBroker(t, Config{Store: s, Dedup: dedup})
			require.NoError(t, s.WaitDispatched(t.Context(), s.MaxOffset()))
			end := s.MaxOffset()
			for i := 102; i < 300; i++ { // with X and Y it is 200
				key := fmt.Sprint("K", i)
				require.Equal(t, want[key], mustSend(t, b, keyed("orders", 0, key)), key)
			}
			again, err := b.SendMessageBatch(t.Context(), batchOf(t, "orders", 1, "X", "Y"))
			require.NoError(t, err)
			require.Equal(t, batch, again)
			require.Equal(t, end, s.MaxOffset())
			require.NotEqual(t, want["K101"], mustSend(t, b, keyed("orders", 0, "K101")), "that is too long ago")
			require.NoError(t, b.Close())
			require.NoError(t, s.Close())
		}
	})
}

// TestDedupDelivers: what the broker itself puts is never taken for sent again.
func TestDedupDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{Flush: store.FlushAsync})
		b := openBroker(t, Config{Store: s, Dedup: DedupWindow{Messages: 100}})
		createTopic(t, b, "orders", 1)
		mustSend(t, b, keyed("orders", 0, "A", "DELAY", "1"))
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 1, count(t, b, "orders", 0), "delivered")
		off, ok := s.CommitLogOffsetInQueue("orders", 0, 0)
		require.True(t, ok)
		for range 2 {
			require.NoError(t, b.SendMessageBack(t.Context(), protocol.SendMessageBackRequest{Group: "g", Offset: off, DelayLevel: 1}))
			require.NoError(t, b.SendMessageBack(t.Context(), protocol.SendMessageBackRequest{Group: "g", Offset: off, DelayLevel: -1}))
		}
		require.NoError(t, s.WaitDispatched(t.Context(), s.MaxOffset()))
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 2, count(t, b, "%RETRY%g", 0))
		require.Equal(t, 2, count(t, b, "%DLQ%g", 0))
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestDedupModel compares with a list, over restarts and a clock that goes on.
func TestDedupModel(t *testing.T) {
	type sent struct {
		topic, key string
		at         time.Time
		resp       protocol.SendMessageResponse
	}
	const window, messages = 10 * time.Second, 20
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	var ms atomic.Int64
	ms.Store(1e12)
	clock := func() time.Time { return time.UnixMilli(ms.Load()) }
	dir := t.TempDir()
	open := func() *Broker {
		s, err := store.Open(t.Context(), dir, store.Config{Flush: store.FlushAsync, SegmentSize: 16 << 10, ConsumeQueueFileSize: 100 * 20, MaxBodySize: 1000, Now: clock, NoIndex: true})
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		return openBroker(t, Config{Store: s, Now: clock, Dedup: DedupWindow{Messages: messages, Duration: window}})
	}
	b := open()
	createTopic(t, b, "a", 2)
	createTopic(t, b, "b", 2)
	var log []sent // those that were stored, the oldest first
	repeated := 0
	for step := range 1500 {
		switch p := r.IntN(100); {
		case p < 2:
			require.NoError(t, b.Close())
			require.NoError(t, b.store.Close())
			b = open()
		case p < 12:
			ms.Add(r.Int64N(4000))
		default:
			topic, key := []string{"a", "b"}[r.IntN(2)], fmt.Sprint("K", r.IntN(25))
			resp := mustSend(t, b, keyed(topic, int32(r.IntN(2)), key))
			known := slices.Clone(log[max(0, len(log)-messages):])
			slices.Reverse(known)
			i := slices.IndexFunc(known, func(s sent) bool { return s.topic == topic && s.key == key && clock().Sub(s.at) <= window })
			if i >= 0 {
				require.Equal(t, known[i].resp, resp, "seed %d, step %d", seed, step)
				repeated++
				continue
			}
			if len(log) > 0 {
				require.Greater(t, resp.MessageID.Offset, log[len(log)-1].resp.MessageID.Offset, "seed %d, step %d", seed, step)
			}
			log = append(log, sent{topic, key, clock(), resp})
		}
	}
	require.Greater(t, repeated, 100)
	require.Greater(t, len(log), 100)
}

// TestRecentKeys compares the ring with a list, with hashes that share chains.
func TestRecentKeys(t *testing.T) {
	for _, size := range []int{1, 2, 3, 7, 64} {
		ring := newRecentKeys(size)
		type entry struct {
			hash uint64
			off  message.LogOffset
		}
		var list []entry
		r := rand.New(rand.NewPCG(1, uint64(size)))
		for i := range 2000 {
			e := entry{r.Uint64N(8) | r.Uint64N(2)<<40, message.LogOffset(i)}
			ring.add(e.hash, e.off)
			list = append(list, e)
			list = list[max(0, len(list)-size):]
			hash := r.Uint64N(8) | r.Uint64N(2)<<40
			var want []message.LogOffset
			for _, e := range slices.Backward(list) {
				if e.hash == hash {
					want = append(want, e.off)
				}
			}
			require.Equal(t, want, ring.find(hash), "size %d, step %d", size, i)
		}
	}
}

// TestKeyOfRecord has the records that a log can hold.
func TestKeyOfRecord(t *testing.T) {
	for _, test := range []struct {
		name, topic string
		flag        message.SysFlag
		properties  message.Properties
		want        string // the topic; empty: not known
	}{
		{"normal", "orders", 0, "UNIQ_KEY\x01U", "orders"},
		{"compressed", "orders", message.FlagCompressed, "UNIQ_KEY\x01U", "orders"},
		{"no key", "orders", 0, "KEYS\x01U", ""},
		{"waiting", message.ScheduleTopic, 0, "UNIQ_KEY\x01U\x02REAL_TOPIC\x01orders\x02REAL_QID\x011", "orders"},
		{"waiting with a timer", "rmq_sys_wheel_timer", 0, "UNIQ_KEY\x01U\x02REAL_TOPIC\x01orders\x02REAL_QID\x011", "orders"},
		{"delivered", "orders", 0, "UNIQ_KEY\x01U\x02REAL_TOPIC\x01orders\x02REAL_QID\x011", ""},
		{"waiting retry", message.ScheduleTopic, 0, "UNIQ_KEY\x01U\x02REAL_TOPIC\x01%RETRY%g", ""},
		{"retry", "%RETRY%g", 0, "UNIQ_KEY\x01U", ""},
		{"dead letter", "%DLQ%g", 0, "UNIQ_KEY\x01U", ""},
		{"half", message.HalfTopic, 0, "UNIQ_KEY\x01U\x02TRAN_MSG\x01true\x02REAL_TOPIC\x01orders", ""},
		{"committed", "orders", message.TransactionCommit, "UNIQ_KEY\x01U", ""},
		{"filler", "POCKETMQ_FILLER", message.TransactionRollback, "UNIQ_KEY\x01U", ""},
		{"trace", protocol.TraceTopic, 0, "UNIQ_KEY\x01U", ""},
	} {
		k, ok := keyOfRecord(test.topic, test.flag, test.properties)
		require.Equal(t, test.want != "", ok, test.name)
		require.Equal(t, test.want, k.topic, test.name)
	}
	_, ok := keyOfSend("orders", 0, "UNIQ_KEY\x01U\x02TRAN_MSG\x01TRUE")
	require.False(t, ok)
	require.NotEqual(t, newUniqueKey("a", "bc").hash, newUniqueKey("ab", "c").hash)
}
