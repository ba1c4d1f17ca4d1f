package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// BenchmarkGetTag pulls the messages with a tag that a share of a queue's messages
// has, in batches of 32. An operation is a message that matches, and so contains
// passing over those that do not.
func BenchmarkGetTag(b *testing.B) {
	const stored = 64 << 10 // in each queue
	shares := []int{2, 100}
	filled := &shared{parent: b, fill: func(b *testing.B, s *store.DefaultMessageStore) {
		for queue, share := range shares {
			m := newMessage(1024, int32(queue))
			for i := range stored {
				m.Properties = "TAGS\x01Other"
				if i%share == 0 {
					m.Properties = "TAGS\x01Wanted"
				}
				_, err := s.PutMessage(context.Background(), m)
				check(b, err)
			}
		}
	}}
	for queue, share := range shares {
		b.Run(fmt.Sprintf("share=1of%d/batch=32", share), func(b *testing.B) {
			benchmarkGetTag(b, filled.get(b), int32(queue), share)
		})
	}
}

func benchmarkGetTag(b *testing.B, s *store.DefaultMessageStore, queue int32, share int) {
	ctx := context.Background()
	query := store.GetQuery{Topic: "bench", QueueID: queue, TagFilter: message.ParseTagFilter("Wanted")}
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; {
		query.MaxCount = min(32, b.N-n)
		r, err := s.GetMessage(ctx, query)
		check(b, err)
		switch r.Status {
		case store.GetFound, store.GetNoMatchedMessage:
		case store.GetOffsetOverflowOne: // the end: once more
			r.NextBeginOffset = 0
		default:
			b.Fatal(r.Status)
		}
		for _, v := range r.Messages {
			if v.QueueOffset()%message.QueueOffset(share) != 0 {
				b.Fatalf("message %d does not have the tag", v.QueueOffset())
			}
		}
		n += len(r.Messages)
		query.Offset = r.NextBeginOffset
		r.Release()
	}
}
