package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// BenchmarkQueryKey finds one message by a unique key, taken at random from all
// there are, in index files of the default size.
func BenchmarkQueryKey(b *testing.B) {
	for _, keys := range []int{1_000_000, 10_000_000} {
		filled := &shared{parent: b, fill: func(b *testing.B, s *store.DefaultMessageStore) { fillKeys(b, s, keys) }}
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			if keys > 1_000_000 {
				onlyLarge(b, "a minute and 4 GiB of disk", 4<<30)
			}
			benchmarkQueryKey(b, filled.get(b), keys)
		})
	}
}

func uniqueKey(i int) string { return fmt.Sprintf("%032d", i) }

func fillKeys(b *testing.B, s *store.DefaultMessageStore, keys int) {
	ctx := context.Background()
	m := newMessage(64, 0)
	for i := range keys {
		m.Properties = message.Properties("UNIQ_KEY\x01" + uniqueKey(i))
		_, err := s.PutMessage(ctx, m)
		check(b, err)
	}
	check(b, s.WaitIndexed(ctx, s.MaxOffset()))
}

func benchmarkQueryKey(b *testing.B, s *store.DefaultMessageStore, keys int) {
	ctx := context.Background()
	random := rand.New(rand.NewPCG(1, 2))
	took := make(latencies, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	each(b, 1, took.timing(func(int) error {
		i := random.IntN(keys)
		r, err := s.QueryMessage(ctx, store.KeyQuery{Topic: "bench", Key: uniqueKey(i)})
		if err != nil {
			return err
		}
		defer r.Release()
		if len(r.Messages) != 1 || r.Messages[0].QueueOffset() != message.QueueOffset(i) {
			return fmt.Errorf("key %d: %d messages, or another one", i, len(r.Messages))
		}
		return nil
	}))
	b.StopTimer()
	took.report(b, "")
}
