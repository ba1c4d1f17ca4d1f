package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/pocketmq/pocketmq/store"
)

// BenchmarkPutAsync has writers that do not wait for the syncs, and ends when the
// last message is confirmed.
func BenchmarkPutAsync(b *testing.B) {
	for _, flush := range flushModes {
		for _, size := range sizes {
			for _, n := range writers {
				b.Run(fmt.Sprintf("flush=%s/size=%d/writers=%d", flush.name, size, n), func(b *testing.B) {
					benchmarkPutAsync(b, flush.mode, size, n)
				})
			}
		}
	}
}

func benchmarkPutAsync(b *testing.B, mode store.FlushMode, size, writers int) {
	ctx := context.Background()
	s := openStore(b, store.Config{Flush: mode})
	var confirmed sync.WaitGroup
	confirmed.Add(b.N)
	done := func(_ store.PutMessageResult, err error) {
		if err != nil {
			b.Error(err)
		}
		confirmed.Done()
	}
	m := newMessage(size, 0)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	each(b, writers, func(int) error {
		s.PutMessageAsync(ctx, m, done)
		return nil
	})
	confirmed.Wait()
	check(b, s.WaitDispatched(ctx, s.MaxOffset()))
	b.StopTimer()
	verifyCount(b, s, b.N)
}
