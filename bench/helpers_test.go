package bench

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// large asks for the rows that take minutes, or many GiB of disk.
var large = flag.Bool("large", false, "also run what takes minutes, or many GiB of disk")

var flushModes = []struct {
	name string
	mode store.FlushMode
}{{"async", store.FlushAsync}, {"sync", store.FlushSync}}

var (
	sizes   = []int{64, 128, 1 << 10, 4 << 10, 64 << 10, 1 << 20} // of a body, in bytes
	writers = []int{1, 2, 16, 64, 256}
)

// check stands in what is measured: Helper, which takes 300 ns, is for errors only.
func check(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

func newMessage(size int, queueID int32) *message.MessageExtBrokerInner {
	m := &message.MessageExtBrokerInner{}
	m.Topic, m.QueueID = "bench", queueID
	m.Body = make([]byte, size)
	for i := range m.Body {
		m.Body[i] = byte(i)
	}
	m.Properties = "TAGS\x01TagA"
	return m
}

// openStore opens a new store, which is closed when the benchmark ends.
func openStore(b *testing.B, cfg store.Config) *store.DefaultMessageStore {
	b.Helper()
	s, err := store.Open(context.Background(), b.TempDir(), cfg)
	check(b, err)
	b.Cleanup(func() { closeStore(b, s) })
	return s
}

// reopen opens the store in dir.
func reopen(b *testing.B, dir string) *store.DefaultMessageStore {
	b.Helper()
	return open(b, dir, store.Config{Flush: store.FlushAsync})
}

func open(b *testing.B, dir string, cfg store.Config) *store.DefaultMessageStore {
	b.Helper()
	s, err := store.Open(context.Background(), dir, cfg)
	check(b, err)
	return s
}

func closeStore(b *testing.B, s *store.DefaultMessageStore) {
	if err := s.Close(); err != nil {
		b.Error(err)
	}
}

// shared is a store that several sub-benchmarks use, however often each is called.
// It is made and filled when the first of them needs it.
type shared struct {
	parent *testing.B   // whose end closes it
	cfg    store.Config // Flush is FlushAsync
	fill   func(b *testing.B, s *store.DefaultMessageStore)
	store  *store.DefaultMessageStore
}

func (f *shared) get(b *testing.B) *store.DefaultMessageStore {
	b.Helper()
	if f.store == nil {
		f.cfg.Flush = store.FlushAsync
		s := open(b, f.parent.TempDir(), f.cfg)
		f.parent.Cleanup(func() { closeStore(f.parent, s) })
		f.fill(b, s)
		check(b, s.WaitDispatched(context.Background(), s.MaxOffset()))
		f.store = s
	}
	return f.store
}

// each calls work b.N times from so many goroutines, each time with another i.
func each(b *testing.B, workers int, work func(i int) error) { eachOf(b, b.N, workers, work) }

// eachOf calls work n times.
func eachOf(b *testing.B, n, workers int, work func(i int) error) {
	if workers == 1 {
		for i := range n {
			if err := work(i); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := work(int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// verifyCount compares the queues with the number of messages put.
func verifyCount(b *testing.B, s *store.DefaultMessageStore, put int) {
	b.Helper()
	var n int64
	for _, q := range s.Queues() {
		n += q.Depth()
	}
	if n != int64(put) {
		b.Fatalf("%d messages in the queues, %d were put", n, put)
	}
}

func timed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// latencies has a duration for each operation.
type latencies []time.Duration

// timing is work, and notes how long each took.
func (l latencies) timing(work func(i int) error) func(i int) error {
	return func(i int) error {
		began := time.Now()
		err := work(i)
		l[i] = time.Since(began)
		return err
	}
}

// report gives what half, 99 % and 99.9 % of them stay within, and the longest.
// They are exact: none is rounded into a bucket.
func (l latencies) report(b *testing.B, prefix string) {
	slices.Sort(l)
	for _, q := range []struct {
		name  string
		share float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}} {
		within := l[int(math.Ceil(q.share*float64(len(l))))-1]
		b.ReportMetric(float64(within), prefix+q.name+"-ns")
	}
}

// onlyLarge skips a row that was not asked for with -large, or that the disk has no
// room for, and says why also without -v.
func onlyLarge(b *testing.B, takes string, bytes int64) {
	b.Helper()
	if !*large {
		skip(b, fmt.Sprintf("it takes %s: ask for it with -large", takes))
	}
	free := openStore(b, store.Config{Flush: store.FlushAsync}).Stats().DiskFree
	if free >= 0 && free < bytes {
		skip(b, fmt.Sprintf("it takes %d MiB of disk, and %d are free", bytes>>20, free>>20))
	}
}

func skip(b *testing.B, why string) {
	b.Helper()
	if !testing.Verbose() {
		fmt.Fprintf(os.Stderr, "%s is skipped: %s\n", b.Name(), why)
	}
	b.Skip(why)
}
