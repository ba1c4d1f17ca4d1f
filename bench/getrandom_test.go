package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// BenchmarkGetRandom copies out one message at a time, by a random queue offset.
// Everything was read once before. BenchmarkLimitReadRandom copies the same bytes.
func BenchmarkGetRandom(b *testing.B) {
	filled := getStore(b)
	b.Run(fmt.Sprintf("size=%d", getSize), func(b *testing.B) {
		s := filled.get(b)
		warm(b, s)
		ctx := context.Background()
		random := rand.New(rand.NewPCG(1, 2))
		var record []byte
		b.SetBytes(getSize)
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			off := message.QueueOffset(random.IntN(getStored))
			r, err := s.GetMessage(ctx, store.GetQuery{Topic: "bench", Offset: off})
			if err != nil || r.Status != store.GetFound || r.Messages[0].QueueOffset() != off {
				b.Fatal(r, err)
			}
			record = append(record[:0], r.Messages[0].Raw()...)
			r.Release()
		}
	})
}

// warm reads the queue once.
func warm(b *testing.B, s *store.DefaultMessageStore) {
	n := 0
	for v, err := range s.Messages(context.Background(), store.GetQuery{Topic: "bench"}) {
		check(b, err)
		check(b, v.CheckBody())
		n++
	}
	if n != getStored {
		b.Fatalf("%d messages, %d were put", n, getStored)
	}
}
