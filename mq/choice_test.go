package mq

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
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

// TestJavaHashVectors has what Java's SelectMessageQueueByHash chooses: the
// absolute value of a remainder that keeps its sign, over UTF-16 units.
func TestJavaHashVectors(t *testing.T) {
	for _, test := range []struct {
		key  string
		want map[int32]int32 // by number of queues
	}{
		{"polygenelubricants", map[int32]int32{3: 2, 4: 0, 5: 3, 7: 2, 12: 8}}, // -2147483648
		{"payment", map[int32]int32{3: 2, 4: 2, 8: 2}},
		{"order-created", map[int32]int32{3: 1, 4: 3, 8: 7}},
		{"订单", map[int32]int32{3: 1, 8: 3, 12: 7}}, // 0x8ba2*31 + 0x5355
		{"𝄞", map[int32]int32{5: 4, 7: 1}},         // 0xd834*31 + 0xdd1e
	} {
		for n, want := range test.want {
			require.Equal(t, want, SelectByJavaHash(queuesOf(n, "a"), nil, test.key).QueueID, "%s of %d", test.key, n)
		}
	}
}

// TestRotationOverTheCounter passes the places where a signed and an unsigned
// counter wrap, with what is known about brokers and without.
func TestRotationOverTheCounter(t *testing.T) {
	for _, start := range []uint32{math.MaxInt32 - 1, math.MaxUint32 - 50} {
		for _, known := range []bool{true, false} {
			r := published(routeOf(4, "a", "b"))
			if known {
				r.health = slices.Repeat([]*brokerHealth{{}}, 8)
			}
			r.counter.Store(start)
			hits := make([]int, 8)
			for range 100 {
				hits[r.pick(nil, 1)]++
			}
			for q, n := range hits {
				require.GreaterOrEqual(t, n, 12, "queue %d, start %d", q, start)
			}
		}
	}
}

// TestSelectorsConcurrently shares each selector between many goroutines.
func TestSelectorsConcurrently(t *testing.T) {
	const goroutines, each = 32, 4000
	queues := queuesOf(4, "east@a", "west@b")
	m := text(t, "t", "x", "__SHARDINGKEY", "order-1")
	for name, selector := range map[string]QueueSelector{
		"key": SelectByKey, "rendezvous": SelectRendezvous, "java": SelectByJavaHash, "java code": SelectByJavaHashCode(-7),
		"sharding": SelectByShardingKey, "random": SelectRandom, "in turn": SelectRoundRobin(), "rooms": SelectRooms("east", "west"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var wrong atomic.Int64
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					keys := []string{fmt.Sprint(g), "", "polygenelubricants"}
					for i := range each {
						if q := selector(queues, m, keys[i%len(keys)]); !slices.Contains(queues, q) {
							wrong.Add(1)
						}
					}
				})
			}
			wg.Wait()
			require.Zero(t, wrong.Load())
		})
	}
}

// TestPickAmongBad marks three brokers of different sizes bad: there always is a
// queue, one that its broker has, and no pick changes the list.
func TestPickAmongBad(t *testing.T) {
	route := routeOf(1, "a", "b", "c")
	for i, n := range []int32{1, 4, 9} {
		route.Queues[i].WriteQueueNums = n
	}
	r := published(route)
	bad := map[string]*brokerHealth{"a": {}, "b": {}, "c": {}}
	for _, q := range r.queues {
		r.health = append(r.health, bad[q.BrokerName])
	}
	before := slices.Clone(r.queues)
	for i := range 1000 {
		for name, h := range bad { // in turn one of them is the least bad
			h.until.Store(int64(1000 + (i+int(name[0]))%3))
			h.unreachable.Store(i%5 == 0)
		}
		q := r.queues[r.pick(nil, 1)]
		require.Contains(t, before, q)
		data := route.Queues[q.BrokerName[0]-'a']
		require.Less(t, q.QueueID, data.WriteQueueNums)
	}
	require.Equal(t, before, r.queues)
}

// TestRetryLeavesTheBroker has a of three brokers fail: the retry goes to another
// one. Where only a works of what is left, a is tried again, and no search is
// endless.
func TestRetryLeavesTheBroker(t *testing.T) {
	brokers := map[string]*flaky{"a": {}, "b": {}, "c": {}}
	n := &fakeNames{brokers: map[string]protocol.Broker{"a": brokers["a"], "b": brokers["b"], "c": brokers["c"]}}
	n.route = func(string) (protocol.TopicRoute, error) { return routeOf(4, "a", "b", "c"), nil }
	refusal := &protocol.Error{Code: protocol.SystemError}
	newProducer := func() *Producer {
		p, err := NewProducer(ProducerConfig{Group: "g", NameService: n, Connect: n.connect})
		require.NoError(t, err)
		t.Cleanup(func() { p.Close() })
		return p
	}
	brokers["a"].set(failing(refusal), refusal)
	met := false
	p := newProducer()
	for range 24 {
		r, err := p.Send(t.Context(), text(t, "t", "x"))
		require.NoError(t, err)
		require.NotEqual(t, "a", r.Queue.BrokerName)
		if r.Attempts > 1 {
			require.Equal(t, []string{"a", r.Queue.BrokerName}, r.Tried)
			met = true
		}
	}
	require.True(t, met)

	only := &fakeNames{brokers: n.brokers}
	only.route = func(string) (protocol.TopicRoute, error) { return routeOf(4, "a"), nil }
	busy := &protocol.Error{Code: protocol.SystemBusy}
	fails := 1
	brokers["a"].set(func(context.Context) error {
		if fails--; fails >= 0 {
			return busy
		}
		return nil
	}, nil)
	alone, err := NewProducer(ProducerConfig{Group: "g", NameService: only, Connect: only.connect})
	require.NoError(t, err)
	defer alone.Close()
	r, err := alone.Send(t.Context(), text(t, "t", "x"))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "a"}, r.Tried)
}

// TestPenaltyByMonotonicClock: the health of brokers counts from a time that has
// a monotonic reading, so setting the clock back makes no penalty longer.
func TestPenaltyByMonotonicClock(t *testing.T) {
	p, _, _ := flakyProducer(t, ProducerConfig{})
	require.Contains(t, p.faults.start.String(), "m=+")
	require.Contains(t, p.now().String(), "m=+")
	require.True(t, (&brokerHealth{}).available(0), "nothing is known: available")
}

// TestShortTimeout has 300 ms, three attempts and a broker that is stuck: the one
// attempt that there is time for is made, and the error says so.
func TestShortTimeout(t *testing.T) {
	for name, stored := range map[string]protocol.ResponseCode{"not stored": protocol.SystemError, "stored late": protocol.FlushDiskTimeout} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, a, b := flakyProducer(t, ProducerConfig{})
				stuck := func(ctx context.Context) error {
					<-ctx.Done()
					return &protocol.Error{Code: stored, Err: ctx.Err()}
				}
				a.set(stuck, nil)
				b.set(stuck, nil)
				ctx, cancel := context.WithTimeout(t.Context(), 300*ms)
				defer cancel()
				began := time.Now()
				_, err := p.Send(ctx, text(t, "t", "x"))
				require.Equal(t, 300*ms, time.Since(began))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				var sendErr *SendError
				require.ErrorAs(t, err, &sendErr)
				require.Equal(t, 1, sendErr.Attempts)
				require.ErrorContains(t, err, "attempt 1")
				require.EqualValues(t, 1, a.sends.Load()+b.sends.Load())
			})
		})
	}
}

// TestRefusedByTheStore has what real stores refuse: no space and closed lead to
// the other broker, what is wrong with the message does not.
func TestRefusedByTheStore(t *testing.T) {
	w := openTown(t, map[string]store.Config{"full": {MaxBytes: 4 << 20}, "closed": {}, "well": {}})
	require.NoError(t, w.stores["closed"].Close())
	p := w.producer(t, ProducerConfig{Faults: FaultPolicy{Off: true}})
	big := text(t, "t", strings.Repeat("x", 60_000))
	var err error
	for err == nil {
		_, err = p.SendToQueue(t.Context(), big, protocol.MessageQueue{Topic: "t", BrokerName: "full"})
	}
	require.ErrorIs(t, err, message.ErrDiskFull)
	tried := map[string]bool{}
	for range 12 {
		r, err := p.Send(t.Context(), big)
		require.NoError(t, err)
		require.Equal(t, "well", r.Queue.BrokerName)
		for _, name := range r.Tried {
			tried[name] = true
		}
	}
	require.Equal(t, map[string]bool{"full": true, "closed": true, "well": true}, tried)

	illegal := text(t, "t", "x", "DELAY", "nonsense")
	for range 6 {
		_, err := p.Send(t.Context(), illegal)
		require.Equal(t, protocol.MessageIllegal, CodeOf(err))
		var sendErr *SendError
		require.ErrorAs(t, err, &sendErr)
		if sendErr.Attempts > 1 {
			require.Equal(t, "closed", sendErr.Tried[0], "the only one that did not look at it")
			require.Equal(t, 2, sendErr.Attempts)
		}
	}
}

// TestCompressedOnce has the first attempt of a large message fail: what is stored
// was compressed once, and the caller's message stays as it was, also when every
// attempt fails.
func TestCompressedOnce(t *testing.T) {
	w := openTown(t, map[string]store.Config{"a": {}, "b": {}})
	ill := map[string]*flaky{"a": {}, "b": {}}
	for name, f := range ill {
		w.before[name] = func(b protocol.Broker) protocol.Broker { f.Broker = b; return f }
	}
	p := w.producer(t, ProducerConfig{CompressOver: 4096})
	refusal := failing(&protocol.Error{Code: protocol.SystemError})
	body := strings.Repeat("squeeze ", 1024)
	m := text(t, "t", body, "TAGS", "red")
	before := *m
	ill["a"].set(refusal, nil)
	retried := false
	for range 8 {
		r, err := p.Send(t.Context(), m)
		require.NoError(t, err)
		retried = retried || r.Attempts == 2
		stored, err := w.stores[r.Queue.BrokerName].LookMessageByOffset(t.Context(), r.OffsetMsgID.Offset)
		require.NoError(t, err)
		require.NotZero(t, stored.SysFlag&message.FlagCompressed)
		require.Less(t, len(stored.Body), len(body)/10)
		require.Equal(t, before, *m)
		require.Equal(t, body, string(m.Body))
	}
	require.True(t, retried)
	ill["b"].set(refusal, nil)
	_, err := p.Send(t.Context(), m)
	require.Error(t, err)
	require.Equal(t, before, *m)
	require.Equal(t, body, string(m.Body))

	c, err := NewConsumer(t.Context(), ConsumerConfig{Group: "readers", Topic: "t", NameService: &w.names, Connect: w.names.Connect})
	require.NoError(t, err)
	defer c.Close()
	for range 8 {
		got, err := c.Receive(soon(t))
		require.NoError(t, err)
		require.Equal(t, body, string(got.Body))
	}
}
