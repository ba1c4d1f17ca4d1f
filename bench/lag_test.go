package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pocketmq/pocketmq/store"
)

// BenchmarkDispatchLag puts at full speed and looks every millisecond how far the
// consume queues are behind the log: "lag-bytes", and "lag-ms" since the oldest
// message was put that is not in its queue, which the store knows in whole ms.
// "waited" is how many puts had to wait for the dispatcher.
func BenchmarkDispatchLag(b *testing.B) {
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprintf("flush=async/size=1024/writers=%d", n), func(b *testing.B) { benchmarkDispatchLag(b, n) })
	}
}

func benchmarkDispatchLag(b *testing.B, writers int) {
	ctx := context.Background()
	s := openStore(b, store.Config{Flush: store.FlushAsync})
	m := newMessage(1024, 0)
	stop, sampled := make(chan struct{}), make(chan lag)
	b.SetBytes(1024)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { sampled <- sampleLag(s, stop) }()
	each(b, writers, func(int) error {
		_, err := s.PutMessage(ctx, m)
		return err
	})
	close(stop)
	l := <-sampled
	check(b, s.WaitDispatched(ctx, s.MaxOffset()))
	b.StopTimer()
	verifyCount(b, s, b.N)
	b.ReportMetric(float64(l.maxBytes), "max-lag-bytes")
	b.ReportMetric(float64(l.bytes)/float64(l.samples), "mean-lag-bytes")
	b.ReportMetric(float64(l.maxAge.Microseconds())/1000, "max-lag-ms")
	b.ReportMetric(float64(l.age.Microseconds())/1000/float64(l.samples), "mean-lag-ms")
	b.ReportMetric(float64(s.Stats().LagWaits), "waited")
}

// lag is what was sampled, added up.
type lag struct {
	samples         int64
	bytes, maxBytes int64
	age, maxAge     time.Duration
}

// sampleLag samples until stop, and then once more.
func sampleLag(s *store.DefaultMessageStore, stop <-chan struct{}) (l lag) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for stopped := false; !stopped; {
		select {
		case <-ticker.C:
		case <-stop:
			stopped = true
		}
		stats := s.Stats()
		l.samples++
		l.bytes += stats.DispatchLag
		l.maxBytes = max(l.maxBytes, stats.DispatchLag)
		l.age += stats.DispatchAge
		l.maxAge = max(l.maxAge, stats.DispatchAge)
	}
	return l
}
