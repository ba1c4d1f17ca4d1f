package pocketmq_test

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/store"
)

// TestEdgeDevice pushes three times what the disk of a small device holds
// through a store of 8 MiB: what is consumed makes room for what is sent, and
// nothing is lost.
func TestEdgeDevice(t *testing.T) {
	cfg := pocketmq.Config{Dir: t.TempDir(), Store: store.EdgeConfig()}
	cfg.Store.Flush, cfg.Store.WhenFull = store.FlushAsync, store.BlockWhenFull
	node := open(t, cfg)
	producer, err := node.Producer("device")
	require.NoError(t, err)
	const messages, size = 2400, 10 << 10
	require.NoError(t, node.CreateTopic(t.Context(), pocketmq.TopicConfig{Name: "sensors", ReadQueueNums: 2, WriteQueueNums: 2}))
	sent := make(chan error, 1)
	go func() {
		for i := range messages {
			m := &pocketmq.Message{Topic: "sensors", Body: []byte(fmt.Sprint(i, " ", strings.Repeat("b", size)))}
			if _, err := producer.Send(context.Background(), m); err != nil {
				sent <- fmt.Errorf("message %d: %w", i, err)
				return
			}
		}
		sent <- nil
	}()
	consumer, err := node.NewConsumer(t.Context(), mq.ConsumerConfig{Group: "uplink", Topic: "sensors"})
	require.NoError(t, err)
	got := make(map[int]bool)
	for len(got) < messages {
		m, err := consumer.Receive(t.Context())
		require.NoError(t, err)
		var i int
		_, err = fmt.Sscan(string(m.Body), &i)
		require.NoError(t, err)
		require.False(t, got[i])
		got[i] = true
		if len(got)%100 == 0 {
			require.NoError(t, consumer.CommitSync(t.Context()))
			require.LessOrEqual(t, onDisk(t, cfg.Dir), int64(8<<20))
		}
	}
	require.NoError(t, <-sent)
	stats := node.Store().Stats()
	require.Positive(t, stats.SegmentsRemoved[store.ReasonConsumed])
	require.Zero(t, stats.SegmentsRemoved[store.ReasonFull])
	require.NoError(t, node.Close())
	require.LessOrEqual(t, onDisk(t, cfg.Dir), int64(8<<20))
}

// onDisk is about what du counts.
func onDisk(t *testing.T, dir string) (total int64) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it was removed meanwhile
		}
		if info, err := d.Info(); err == nil {
			total += (info.Size() + 4095) / 4096 * 4096
		}
		return nil
	})
	return total
}
