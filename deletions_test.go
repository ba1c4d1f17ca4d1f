package pocketmq_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// goAway takes a directory away, so that it can not be opened, and returns what
// brings it back.
func goAway(t *testing.T, dir string) (comeBack func()) {
	t.Helper()
	require.NoError(t, os.Rename(dir, dir+".away"))
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	return func() {
		require.NoError(t, os.Remove(dir))
		require.NoError(t, os.Rename(dir+".away", dir))
	}
}

// TestDeletedWhileMissing: topics that are deleted while a disk is missing do not
// come back with it, by Reopen or when the node is opened the next time; neither do
// the messages of a topic that was made again, and what waits for it. What was not
// deleted is there.
func TestDeletedWhileMissing(t *testing.T) {
	for _, reopen := range []bool{true, false} {
		for missing := range 2 {
			t.Run(fmt.Sprintf("reopen %v, disk %d", reopen, missing), func(t *testing.T) {
				cfg := severalDisks(t, 2, store.FlushAsync)
				cfg.AllowMissingDisks = true
				node := open(t, cfg)
				producer, err := node.Producer("p")
				require.NoError(t, err)
				send := func(topic, body string) {
					t.Helper()
					for i := range 8 { // some on each disk
						_, err := producer.Send(t.Context(), &pocketmq.Message{Topic: topic, Body: fmt.Append(nil, body, i)})
						require.NoError(t, err)
					}
				}
				for _, topic := range []string{"gone", "again", "kept"} {
					require.NoError(t, node.CreateTopic(t.Context(), pocketmq.TopicConfig{Name: topic, ReadQueueNums: 1, WriteQueueNums: 1}))
					send(topic, "old")
					for range 4 {
						_, err := producer.Send(t.Context(), &pocketmq.Message{
							Topic: topic, Body: []byte("waits"), Properties: pocketmq.Properties("").DeliverAfter(time.Hour),
						})
						require.NoError(t, err)
					}
				}
				require.NoError(t, node.Close())
				comeBack := goAway(t, cfg.Disks[missing].Dir)
				node = open(t, cfg)
				admin, err := node.Admin()
				require.NoError(t, err)
				producer, err = node.Producer("p")
				require.NoError(t, err)
				send("short-lived", "old")
				for _, topic := range []string{"gone", "again", "short-lived"} {
					require.NoError(t, admin.DeleteTopic(t.Context(), topic))
				}
				require.NoError(t, node.CreateTopic(t.Context(), pocketmq.TopicConfig{Name: "again", ReadQueueNums: 1, WriteQueueNums: 1}))
				if reopen {
					comeBack()
					require.NoError(t, node.Reopen(t.Context(), cfg.Disks[missing].Dir))
				} else {
					require.NoError(t, node.Close())
					comeBack()
					node = open(t, cfg)
				}

				topics, err := node.Topics(t.Context())
				require.NoError(t, err)
				var names []string
				for _, topic := range topics {
					names = append(names, topic.Name)
				}
				require.Equal(t, []string{"again", "kept"}, names)
				for _, d := range node.Disks() {
					require.NoError(t, d.Err)
					for _, name := range []string{"gone", "short-lived"} {
						_, err := d.Broker.GetTopic(t.Context(), name)
						require.ErrorIs(t, err, protocol.TopicNotExist, "%s in %s", name, d.Dir)
					}
				}
				producer, err = node.Producer("p2")
				require.NoError(t, err)
				require.Len(t, brokersOf(t, producer, "again"), 2)
				send("again", "new")
				consumer, err := node.Consumer(t.Context(), "c", "again")
				require.NoError(t, err)
				for _, m := range receive(t, consumer, 8) {
					require.Contains(t, string(m.Body), "new")
				}
				kept, err := node.Consumer(t.Context(), "c", "kept")
				require.NoError(t, err)
				receive(t, kept, 8)
				requireNothing(t, kept)
				requireNothing(t, consumer)
				waiting, last := 0, int64(0)
				for timer, err := range node.Timers(t.Context()) {
					require.NoError(t, err)
					require.Equal(t, "kept", timer.Topic)
					require.GreaterOrEqual(t, timer.DeliverAt, last, "in order, over all disks")
					waiting, last = waiting+1, timer.DeliverAt
				}
				require.Equal(t, 4, waiting)
			})
		}
	}
}
