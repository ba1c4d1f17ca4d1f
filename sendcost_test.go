package pocketmq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/store"
)

// TestSendAllocates counts what a send of 1 KiB allocates on its whole way, from
// the producer through the broker into the store, and what goes on behind it: two
// properties, the unique key and the cluster. One disk or several make no
// difference.
func TestSendAllocates(t *testing.T) {
	for name, disks := range map[string]int{"one disk": 1, "two disks": 2} {
		t.Run(name, func(t *testing.T) {
			cfg := severalDisks(t, disks, store.FlushAsync)
			cfg.Store.SegmentSize = 16 << 20
			node := open(t, cfg)
			require.NoError(t, node.CreateTopic(t.Context(), pocketmq.TopicConfig{Name: "t", ReadQueueNums: 4, WriteQueueNums: 4}))
			producer, err := node.Producer("p")
			require.NoError(t, err)
			ctx, m := t.Context(), &pocketmq.Message{Topic: "t", Body: make([]byte, 1024), Properties: "TAGS\x01TagA"}
			n := testing.AllocsPerRun(3000, func() {
				if _, err := producer.Send(ctx, m); err != nil {
					t.Fatal(err)
				}
			})
			require.LessOrEqual(t, n, 2.0)
			t.Logf("%v allocations", n)
		})
	}
}
