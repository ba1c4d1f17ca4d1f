package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// BenchmarkGet reads a queue from its beginning, over and over, in batches of
// views into the mapped files. Each message counts as one operation.
func BenchmarkGet(b *testing.B) {
	for _, batch := range []int{1, 32} {
		b.Run(fmt.Sprintf("size=1024/batch=%d", batch), func(b *testing.B) { benchmarkGet(b, 1024, batch) })
	}
}

func benchmarkGet(b *testing.B, size, batch int) {
	const stored = 256 << 10 // messages: 256 MiB of bodies
	ctx := context.Background()
	s, err := store.Open(ctx, b.TempDir(), store.Config{Flush: store.FlushAsync})
	check(b, err)
	defer func() { check(b, s.Close()) }()
	m := newMessage(size, 0)
	for range stored {
		_, err := s.PutMessage(ctx, m)
		check(b, err)
	}
	check(b, s.WaitDispatched(ctx, s.MaxOffset()))
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	var next message.QueueOffset
	for n := 0; n < b.N; {
		r, err := s.GetMessage(ctx, store.GetQuery{Topic: "bench", Offset: next, MaxCount: min(batch, b.N-n)})
		if err != nil || r.Status != store.GetFound {
			b.Fatal(r.Status, err)
		}
		for _, v := range r.Messages {
			if len(v.Body()) != size {
				b.Fatalf("body of %d bytes", len(v.Body()))
			}
		}
		n += len(r.Messages)
		next = r.NextBeginOffset % stored
		r.Release()
	}
}
