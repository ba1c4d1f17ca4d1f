package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/pocketmq/pocketmq/store"
)

// BenchmarkPutQueues puts round robin to so many queues, each of which has messages
// already. The store has the default Config: no more than MaxMappedFiles of their
// files are open at a time.
func BenchmarkPutQueues(b *testing.B) {
	for _, queues := range []int{1, 100, 10_000, 100_000} {
		filled := &shared{parent: b, fill: func(b *testing.B, s *store.DefaultMessageStore) { makeQueues(b, s, queues) }}
		b.Run(fmt.Sprintf("flush=async/size=1024/queues=%d", queues), func(b *testing.B) {
			if queues > 10_000 {
				onlyLarge(b, "minutes", 4<<30)
			}
			benchmarkPutQueues(b, filled.get(b), queues)
		})
	}
}

// makeQueues puts a message into each queue.
func makeQueues(b *testing.B, s *store.DefaultMessageStore, queues int) {
	m := newMessage(1024, 0)
	for i := range queues {
		m.QueueID = int32(i)
		_, err := s.PutMessage(context.Background(), m)
		check(b, err)
	}
	check(b, s.WaitDispatched(context.Background(), s.MaxOffset()))
}

func benchmarkPutQueues(b *testing.B, s *store.DefaultMessageStore, queues int) {
	ctx := context.Background()
	m := newMessage(1024, 0)
	before := s.Stats().Messages
	b.SetBytes(1024)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		m.QueueID = int32((before + int64(i)) % int64(queues)) // go on where the run before ended
		_, err := s.PutMessage(ctx, m)
		check(b, err)
	}
	check(b, s.WaitDispatched(ctx, s.MaxOffset()))
	b.StopTimer()
	verifyCount(b, s, int(before)+b.N)
}
