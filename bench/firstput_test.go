package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pocketmq/pocketmq/store"
)

// BenchmarkFirstPut opens a new store and puts one message: "open-ns" and "put-ns"
// are the two parts of an operation.
func BenchmarkFirstPut(b *testing.B) {
	for _, flush := range flushModes {
		b.Run(fmt.Sprintf("flush=%s/size=1024", flush.name), func(b *testing.B) { benchmarkFirstPut(b, flush.mode) })
	}
}

func benchmarkFirstPut(b *testing.B, mode store.FlushMode) {
	ctx := context.Background()
	m := newMessage(1024, 0)
	dir := filepath.Join(b.TempDir(), "store")
	opening, putting := make(latencies, b.N), make(latencies, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		var s *store.DefaultMessageStore
		var err error
		opening[i] = timed(func() { s, err = store.Open(ctx, dir, store.Config{Flush: mode}) })
		check(b, err)
		putting[i] = timed(func() { _, err = s.PutMessage(ctx, m) })
		check(b, err)
		b.StopTimer()
		check(b, s.WaitDispatched(ctx, s.MaxOffset()))
		if n := s.MaxOffsetInQueue("bench", 0); n != 1 {
			b.Fatalf("%d messages", n)
		}
		check(b, s.Close())
		check(b, os.RemoveAll(dir))
		b.StartTimer()
	}
	b.StopTimer()
	opening.report(b, "open-")
	putting.report(b, "put-")
}
