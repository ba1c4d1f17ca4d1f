package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// BenchmarkPutBatch puts batches of 100 messages, or as many as make 2 MiB. An
// operation is a batch; "ns/message" is its part for one message.
func BenchmarkPutBatch(b *testing.B) {
	for _, flush := range flushModes {
		for _, size := range sizes {
			batch := min(100, 2<<20/size)
			for _, n := range writers {
				b.Run(fmt.Sprintf("flush=%s/size=%d/batch=%d/writers=%d", flush.name, size, batch, n), func(b *testing.B) {
					benchmarkPutBatch(b, flush.mode, size, batch, n)
				})
			}
		}
	}
}

func benchmarkPutBatch(b *testing.B, mode store.FlushMode, size, batch, writers int) {
	ctx := context.Background()
	s := openStore(b, store.Config{Flush: mode})
	m := newBatch(b, size, batch)
	b.SetBytes(int64(size * batch))
	b.ReportAllocs()
	b.ResetTimer()
	each(b, writers, func(int) error {
		_, err := s.PutMessages(ctx, m)
		return err
	})
	check(b, s.WaitDispatched(ctx, s.MaxOffset()))
	b.StopTimer()
	verifyCount(b, s, b.N*batch)
	b.ReportMetric(float64(b.Elapsed())/float64(b.N*batch), "ns/message")
}

// newBatch is n times the message of newMessage.
func newBatch(b *testing.B, size, n int) *message.MessageExtBatch {
	one := newMessage(size, 0)
	m := &message.MessageExtBatch{}
	m.Topic = one.Topic
	for range n {
		var err error
		m.Body, err = message.AppendBatchElement(m.Body, &one.Message)
		check(b, err)
	}
	return m
}
