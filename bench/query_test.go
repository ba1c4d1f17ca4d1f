package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// BenchmarkQueryKey finds one message by a unique key, taken at random from all
// there are, in index files of the default size, and in those of RocketMQ's.
func BenchmarkQueryKey(b *testing.B) {
	queryKey(b, 1_000_000, "", store.Config{})
	queryKey(b, 1_000_000, "/index=rocketmq", rocketMQIndex())
	queryKey(b, 10_000_000, "", store.Config{})
}

// rocketMQIndex has index files of RocketMQ's geometry, and is else the default.
func rocketMQIndex() store.Config {
	theirs := store.RocketMQConfig()
	return store.Config{IndexSlots: theirs.IndexSlots, IndexEntries: theirs.IndexEntries}
}

func queryKey(b *testing.B, keys int, variant string, cfg store.Config) {
	filled := &shared{parent: b, cfg: cfg, fill: func(b *testing.B, s *store.DefaultMessageStore) { fillKeys(b, s, keys) }}
	b.Run(fmt.Sprintf("keys=%d%s", keys, variant), func(b *testing.B) {
		if keys > 1_000_000 {
			onlyLarge(b, "a minute and 4 GiB of disk", 4<<30)
		}
		benchmarkQueryKey(b, filled.get(b), keys)
	})
}

const uniqueKeyLength = 32

// uniqueKey is i in decimal, with zeros before it.
func uniqueKey(i int) string {
	var key [uniqueKeyLength]byte
	for at := len(key) - 1; at >= 0; at-- {
		key[at] = byte('0' + i%10)
		i /= 10
	}
	return string(key[:])
}

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

// benchmarkQueryKey times the queries, and not what makes their keys.
func benchmarkQueryKey(b *testing.B, s *store.DefaultMessageStore, keys int) {
	ctx := context.Background()
	random := rand.New(rand.NewPCG(1, 2))
	took := make(latencies, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for n := range took {
		i := random.IntN(keys)
		query := store.KeyQuery{Topic: "bench", Key: uniqueKey(i)}
		began := time.Now()
		r, err := s.QueryMessage(ctx, query)
		if err != nil || len(r.Messages) != 1 || r.Messages[0].QueueOffset() != message.QueueOffset(i) {
			b.Fatalf("key %d: %v, %v", i, r, err)
		}
		r.Release()
		took[n] = time.Since(began)
	}
	b.StopTimer()
	took.report(b, "")
}
