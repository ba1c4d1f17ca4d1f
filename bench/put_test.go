package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/pocketmq/pocketmq/store"
)

// BenchmarkPut has writers that each wait for the answer. With a sync in it, it is
// worth two looks at the clock: then the times of the single puts are reported, to
// be compared with those of BenchmarkLimitSync.
func BenchmarkPut(b *testing.B) {
	for _, flush := range flushModes {
		for _, size := range sizes {
			for _, n := range writers {
				b.Run(fmt.Sprintf("flush=%s/size=%d/writers=%d", flush.name, size, n), func(b *testing.B) {
					benchmarkPut(b, flush.mode, size, n)
				})
			}
		}
	}
}

func benchmarkPut(b *testing.B, mode store.FlushMode, size, writers int) {
	ctx := context.Background()
	s := openStore(b, store.Config{Flush: mode})
	m := newMessage(size, 0)
	put := func(int) error {
		_, err := s.PutMessage(ctx, m)
		return err
	}
	var took latencies
	if mode == store.FlushSync {
		took = make(latencies, b.N)
		put = took.timing(put)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	each(b, writers, put)
	check(b, s.WaitDispatched(ctx, s.MaxOffset()))
	b.StopTimer()
	verifyCount(b, s, b.N)
	if took != nil {
		took.report(b, "")
	}
}
