package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/store"
)

// BenchmarkSend is the whole path of a send: producer, broker, store.
func BenchmarkSend(b *testing.B) {
	for _, flush := range flushModes {
		b.Run(fmt.Sprintf("flush=%s/size=1024", flush.name), func(b *testing.B) { benchmarkSend(b, flush.mode, 1024) })
	}
}

func benchmarkSend(b *testing.B, mode store.FlushMode, size int) {
	ctx := context.Background()
	node, err := pocketmq.OpenConfig(ctx, pocketmq.Config{Dir: b.TempDir(), Store: store.Config{Flush: mode}})
	check(b, err)
	defer func() { check(b, node.Close()) }()
	producer, err := node.Producer("bench")
	check(b, err)
	m := newMessage(size, 0).Message
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := producer.Send(ctx, &m); err != nil {
			b.Fatal(err)
		}
	}
	check(b, node.Store().WaitDispatched(ctx, node.Store().MaxOffset()))
	b.StopTimer()
	verifyCount(b, node.Store(), b.N)
}
