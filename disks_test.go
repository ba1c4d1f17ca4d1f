package pocketmq_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/broker"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// severalDisks is the configuration of a node with so many directories.
func severalDisks(t *testing.T, n int, flush store.FlushMode) pocketmq.Config {
	t.Helper()
	cfg := pocketmq.Config{Store: smallStore(flush)}
	for range n {
		cfg.Disks = append(cfg.Disks, pocketmq.DiskConfig{Dir: t.TempDir()})
	}
	return cfg
}

// eventually waits for something that happens behind a call.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, time.Minute, 2*time.Millisecond, what)
}

// brokersOf are the brokers that have the topic for writing.
func brokersOf(t *testing.T, p *pocketmq.Producer, topic string) map[string]int {
	t.Helper()
	queues, err := p.Queues(t.Context(), topic)
	require.NoError(t, err)
	brokers := map[string]int{}
	for _, q := range queues {
		brokers[q.BrokerName]++
	}
	return brokers
}

// TestSeveralDisks is TestEmbed's life on three disks: what was sent lies on all
// of them, and all of it comes back, also after a restart. Here and in others of
// these tests the clock is the test's own: by that of the machine, a disk or a
// processor that is slow for half a second gets no messages for the next ones.
func TestSeveralDisks(t *testing.T) {
	for _, flush := range []store.FlushMode{store.FlushSync, store.FlushAsync} {
		t.Run(flush.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := severalDisks(t, 3, flush)
				node := open(t, cfg)
				require.NoError(t, node.CreateTopic(t.Context(), pocketmq.TopicConfig{Name: "sensors", ReadQueueNums: 2, WriteQueueNums: 2}))
				producer, err := node.Producer("embed")
				require.NoError(t, err)
				require.Len(t, brokersOf(t, producer, "sensors"), 3)
				sent := map[string]int{}
				bodies := map[string]bool{}
				for i := range 120 {
					body := fmt.Sprint("reading ", i)
					r, err := producer.Send(t.Context(), &pocketmq.Message{Topic: "sensors", Body: []byte(body)})
					require.NoError(t, err)
					require.Equal(t, 1, r.Attempts)
					sent[r.Queue.BrokerName]++
					bodies[body] = true
				}
				for _, d := range node.Disks() {
					require.NoError(t, d.Err)
					require.Equal(t, 40, sent[d.Broker.Name()], "in turn over %v", sent)
				}
				require.NoError(t, node.Close())
				for _, d := range node.Disks() {
					require.ErrorIs(t, d.Err, pocketmq.ErrClosed)
					require.True(t, d.Store.Health().Has(store.HealthClosed))
				}
				require.ErrorIs(t, node.CreateTopic(t.Context(), pocketmq.TopicConfig{Name: "x"}), pocketmq.ErrClosed)
				_, err = node.Topics(t.Context())
				require.ErrorIs(t, err, pocketmq.ErrClosed)
				require.ErrorIs(t, node.Reopen(t.Context(), cfg.Disks[0].Dir), pocketmq.ErrClosed)

				node = open(t, cfg)
				topics, err := node.Topics(t.Context())
				require.NoError(t, err)
				require.Equal(t, []pocketmq.TopicConfig{{Name: "sensors", ReadQueueNums: 2, WriteQueueNums: 2, Perm: protocol.PermReadWrite}}, topics)
				consumer, err := node.Consumer(t.Context(), "reader", "sensors")
				require.NoError(t, err)
				for _, m := range receive(t, consumer, len(bodies)) {
					require.True(t, bodies[string(m.Body)], "%s", m.Body)
					delete(bodies, string(m.Body))
				}
				require.NoError(t, consumer.CommitSync(t.Context()))
				require.NoError(t, node.Shutdown(t.Context()))

				node = open(t, cfg)
				consumer, err = node.Consumer(t.Context(), "reader", "sensors")
				require.NoError(t, err)
				requireNothing(t, consumer)
			})
		})
	}
}

// TestTopicsOnAllDisks: a topic that its first message makes, and those of a disk
// that is new, get to the others, so that senders have a choice.
func TestTopicsOnAllDisks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := severalDisks(t, 3, store.FlushAsync)
		told := make(chan string, 1)
		cfg.Broker = broker.Config{TopicCreated: func(topic protocol.TopicConfig) { told <- topic.Name }}
		node := open(t, pocketmq.Config{Store: cfg.Store, Broker: cfg.Broker, Disks: cfg.Disks[:2]})
		producer, err := node.Producer("p")
		require.NoError(t, err)
		_, err = producer.Send(t.Context(), &pocketmq.Message{Topic: "orders", Body: []byte("x")})
		require.NoError(t, err)
		require.Equal(t, "orders", <-told, "the function that was there is called, too")
		eventually(t, "the topic is on both", func() bool {
			brokers := brokersOf(t, producer, "orders")
			for _, queues := range brokers {
				require.Equal(t, 4, queues)
			}
			return len(brokers) == 2
		})
		require.NoError(t, node.Close())

		node = open(t, cfg)
		producer, err = node.Producer("p")
		require.NoError(t, err)
		require.Len(t, brokersOf(t, producer, "orders"), 3, "the new disk has it when Open returns")
	})
}

// TestMissingDisk has one that can not be opened: Open names it, or goes on
// without it until it is there.
func TestMissingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := severalDisks(t, 2, store.FlushAsync)
		missing := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(missing, nil, 0o600))
		cfg.Disks = append(cfg.Disks, pocketmq.DiskConfig{Dir: missing})
		_, err := pocketmq.OpenConfig(t.Context(), cfg)
		require.ErrorContains(t, err, "open "+missing)

		cfg.AllowMissingDisks = true
		node := open(t, cfg)
		disks := node.Disks()
		require.Len(t, disks, 3)
		require.NoError(t, errors.Join(disks[0].Err, disks[1].Err), "the failed Open has left the others open for us")
		require.ErrorContains(t, disks[2].Err, "open "+missing)
		require.Nil(t, disks[2].Store)
		require.Same(t, disks[0].Store, node.Store())
		producer, err := node.Producer("p")
		require.NoError(t, err)
		require.NoError(t, node.CreateTopic(t.Context(), pocketmq.TopicConfig{Name: "t", ReadQueueNums: 1, WriteQueueNums: 1}))
		require.Len(t, brokersOf(t, producer, "t"), 2)
		consumer, err := node.Consumer(t.Context(), "c", "t")
		require.NoError(t, err)

		require.ErrorContains(t, node.Reopen(t.Context(), missing), "open "+missing)
		require.ErrorContains(t, node.Reopen(t.Context(), "elsewhere"), "none of the node's")
		require.NoError(t, os.Remove(missing))
		require.NoError(t, node.Reopen(t.Context(), missing))
		require.NoError(t, node.Disks()[2].Err)
		brokers := brokersOf(t, producer, "t")
		require.Equal(t, 1, brokers[node.Disks()[2].Broker.Name()], "with the topics of the others: %v", brokers)
		for i := range 9 {
			_, err := producer.Send(t.Context(), &pocketmq.Message{Topic: "t", Body: fmt.Append(nil, i)})
			require.NoError(t, err)
		}
		from := map[string]bool{}
		for _, m := range receive(t, consumer, 9) {
			from[m.BrokerName] = true
		}
		require.Len(t, from, 3)
	})
}

func TestNoDiskAtAll(t *testing.T) {
	cfg := severalDisks(t, 2, store.FlushAsync)
	holder := open(t, cfg)
	cfg.AllowMissingDisks = true
	_, err := pocketmq.OpenConfig(t.Context(), cfg)
	require.ErrorIs(t, err, pocketmq.ErrLocked)
	for _, d := range cfg.Disks {
		require.ErrorContains(t, err, "open "+d.Dir)
	}
	require.NoError(t, holder.Close())
}

// TestReopen closes and opens each of two disks under load: nothing is refused
// to the sender, and nothing lost.
func TestReopen(t *testing.T) {
	cfg := severalDisks(t, 2, store.FlushAsync)
	node := open(t, cfg)
	require.NoError(t, node.CreateTopic(t.Context(), pocketmq.TopicConfig{Name: "t", ReadQueueNums: 2, WriteQueueNums: 2}))
	producer, err := node.NewProducer(mq.ProducerConfig{Group: "p", Faults: mq.FaultPolicy{ProbeInterval: time.Millisecond}})
	require.NoError(t, err)
	consumer, err := node.Consumer(t.Context(), "c", "t")
	require.NoError(t, err)
	var n int // how many were sent
	var sender sync.WaitGroup
	stop := make(chan struct{})
	end := sync.OnceFunc(func() { close(stop); sender.Wait() })
	defer end() // also when the test has failed
	sender.Go(func() {
		often := time.NewTicker(200 * time.Microsecond)
		defer often.Stop()
		for {
			select {
			case <-stop:
				return
			case <-often.C:
			}
			if _, err := producer.Send(context.Background(), &pocketmq.Message{Topic: "t", Body: fmt.Append(nil, n)}); err != nil {
				t.Errorf("message %d: %v", n, err)
				return
			}
			n++
		}
	})
	for range 3 {
		for _, d := range cfg.Disks {
			before := node.Store()
			require.NoError(t, node.Reopen(t.Context(), d.Dir))
			if d.Dir == cfg.Disks[0].Dir {
				require.NotSame(t, before, node.Store())
			}
			name := ""
			for _, now := range node.Disks() {
				require.NoError(t, now.Err)
				if now.Dir == d.Dir {
					name = now.Broker.Name()
				}
			}
			require.Contains(t, brokersOf(t, producer, "t"), name)
			have := total(node)
			eventually(t, "it gets messages again", func() bool { return total(node)[name] > have[name] })
		}
	}
	end()
	got := map[string]bool{}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for m, err := range consumer.Messages(ctx) {
		require.NoError(t, ctx.Err(), "%d of %d", len(got), n)
		if err != nil {
			require.ErrorIs(t, err, pocketmq.ErrClosed, "a consumer is told, and goes on")
			continue
		}
		got[string(m.Body)] = true
		if len(got) == n {
			break
		}
	}
	require.NoError(t, node.Close())
}

// total is how many messages each broker has.
func total(node *pocketmq.Node) map[string]int64 {
	n := map[string]int64{}
	for _, d := range node.Disks() {
		for _, q := range d.Store.Queues() {
			n[d.Broker.Name()] += int64(q.MaxOffset)
		}
	}
	return n
}

// TestDisksDiffer refuses what could not be told apart.
func TestDisksDiffer(t *testing.T) {
	original := t.TempDir()
	node := open(t, pocketmq.Config{Dir: original, Store: smallStore(store.FlushAsync)})
	copied := filepath.Join(t.TempDir(), "copy")
	_, err := node.Store().Backup(t.Context(), copied)
	require.NoError(t, err)
	require.NoError(t, node.Close())
	host := message.Host{Addr: netip.MustParseAddr("127.1.2.3"), Port: 10911}
	disk := func(dir string) pocketmq.DiskConfig { return pocketmq.DiskConfig{Dir: dir} }
	named := func(name string) pocketmq.DiskConfig {
		return pocketmq.DiskConfig{Dir: t.TempDir(), Broker: &broker.Config{Name: name}}
	}
	a, b := t.TempDir(), t.TempDir()
	for _, test := range []struct {
		name string
		cfg  pocketmq.Config
		text []string
	}{
		{"none", pocketmq.Config{}, []string{"Config.Dir"}},
		{"an empty one", pocketmq.Config{Disks: []pocketmq.DiskConfig{disk(a), disk("")}}, []string{"Config.Disks[1].Dir"}},
		{"both ways", pocketmq.Config{Dir: a, Disks: []pocketmq.DiskConfig{disk(b)}}, []string{"Config.Dir", a}},
		{"twice", pocketmq.Config{Disks: []pocketmq.DiskConfig{disk(a), disk(b), disk(a + "/")}}, []string{"Config.Disks[2].Dir", a, "that of Config.Disks[0]"}},
		{"one name", pocketmq.Config{Disks: []pocketmq.DiskConfig{named("x"), named("y"), named("y")}}, []string{"Config.Disks[2].Broker.Name", "that of Config.Disks[1]"}},
		{"one name for all", pocketmq.Config{Broker: broker.Config{Name: "x"}, Disks: []pocketmq.DiskConfig{disk(a), disk(b)}}, []string{"Config.Disks[1].Broker.Name"}},
		{"a copy", pocketmq.Config{Disks: []pocketmq.DiskConfig{disk(original), disk(copied)}}, []string{"open " + copied, "Store.StoreHost", original}},
		{"one host for all", pocketmq.Config{Store: store.Config{StoreHost: host}, Disks: []pocketmq.DiskConfig{disk(a), disk(b)}}, []string{"open " + b, host.String(), a}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := pocketmq.OpenConfig(t.Context(), test.cfg)
			require.ErrorIs(t, err, pocketmq.ErrIllegal)
			for _, text := range test.text {
				require.ErrorContains(t, err, text)
			}
		})
	}
	// Under another host the copy is a disk like any other.
	cfg := pocketmq.Config{Disks: []pocketmq.DiskConfig{disk(original), {Dir: copied, Store: &store.Config{StoreHost: host}}}}
	require.NoError(t, open(t, cfg).Close())
}

// TestSmallestLimit: a producer takes what every disk takes.
func TestSmallestLimit(t *testing.T) {
	cfg := severalDisks(t, 2, store.FlushAsync)
	small := smallStore(store.FlushAsync)
	small.MaxBodySize = 1000
	cfg.Disks[1].Store = &small
	node := open(t, cfg)
	producer, err := node.Producer("p")
	require.NoError(t, err)
	_, err = producer.Send(t.Context(), &pocketmq.Message{Topic: "t", Body: make([]byte, 1001)})
	var limit *pocketmq.LimitError
	require.ErrorAs(t, err, &limit)
	require.EqualValues(t, 1000, limit.Limit)
	_, err = producer.Send(t.Context(), &pocketmq.Message{Topic: "t", Body: make([]byte, 1000)})
	require.NoError(t, err)
}

// TestReaderOfSeveralDisks reads all of them to their ends.
func TestReaderOfSeveralDisks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := open(t, severalDisks(t, 2, store.FlushAsync))
		require.NoError(t, node.CreateTopic(t.Context(), pocketmq.TopicConfig{Name: "t", ReadQueueNums: 2, WriteQueueNums: 2}))
		producer, err := node.Producer("p")
		require.NoError(t, err)
		for i := range 40 {
			_, err := producer.Send(t.Context(), &pocketmq.Message{Topic: "t", Body: fmt.Append(nil, i)})
			require.NoError(t, err)
		}
		for _, d := range node.Disks() {
			require.NoError(t, d.Store.WaitDispatched(t.Context(), d.Store.MaxOffset()))
		}
		reader, err := node.NewReader(t.Context(), mq.ReaderConfig{Topic: "t"})
		require.NoError(t, err)
		from := map[string]int{}
		for m, err := range reader.Messages(t.Context()) {
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			from[m.BrokerName]++
		}
		for _, d := range node.Disks() {
			require.Equal(t, 20, from[d.Broker.Name()])
		}
	})
}
