package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

const getSize, getStored = 1024, 256 << 10 // 256 MiB of bodies

// getStore has getStored messages of getSize in one queue.
func getStore(b *testing.B) *shared {
	return &shared{parent: b, fill: func(b *testing.B, s *store.DefaultMessageStore) {
		m := newMessage(getSize, 0)
		for range getStored {
			_, err := s.PutMessage(context.Background(), m)
			check(b, err)
		}
	}}
}

// BenchmarkGet reads a queue from its beginning, over and over, in batches of
// views into the mapped files. Each message counts as one operation.
func BenchmarkGet(b *testing.B) {
	filled := getStore(b)
	for _, batch := range []int{1, 32} {
		b.Run(fmt.Sprintf("size=%d/batch=%d", getSize, batch), func(b *testing.B) {
			readQueue(b, filled.get(b), batch, func(v message.View) {
				if len(v.Body()) != getSize {
					b.Fatalf("body of %d bytes", len(v.Body()))
				}
			})
		})
	}
}

// BenchmarkGetCopy copies each record out, as most readers do sooner or later.
// BenchmarkLimitReadSequential copies the same bytes, and does nothing else.
func BenchmarkGetCopy(b *testing.B) {
	filled := getStore(b)
	for _, batch := range []int{1, 32} {
		b.Run(fmt.Sprintf("size=%d/batch=%d", getSize, batch), func(b *testing.B) {
			var record []byte
			readQueue(b, filled.get(b), batch, func(v message.View) { record = append(record[:0], v.Raw()...) })
		})
	}
}

func readQueue(b *testing.B, s *store.DefaultMessageStore, batch int, read func(message.View)) {
	ctx := context.Background()
	b.SetBytes(getSize)
	b.ReportAllocs()
	b.ResetTimer()
	var next message.QueueOffset
	for n := 0; n < b.N; {
		r, err := s.GetMessage(ctx, store.GetQuery{Topic: "bench", Offset: next, MaxCount: min(batch, b.N-n)})
		if err != nil || r.Status != store.GetFound {
			b.Fatal(r, err)
		}
		for _, v := range r.Messages {
			read(v)
		}
		n += len(r.Messages)
		next = r.NextBeginOffset % getStored
		r.Release()
	}
}
