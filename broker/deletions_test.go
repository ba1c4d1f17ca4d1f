package broker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// TestDeletionsElsewhere: what another broker has deleted is deleted here as of
// that time, by an open broker and by one that is being opened, whatever happened
// here since.
func TestDeletionsElsewhere(t *testing.T) {
	for name, test := range map[string]struct {
		since   func(t *testing.T, b *Broker) // the deletion
		deleted bool                          // the topic
		left    []string                      // its messages
		waiting int                           // for it
		offset  bool                          // of a group in it
	}{
		"nothing":           {since: func(*testing.T, *Broker) {}, deleted: true},
		"others were used":  {since: func(t *testing.T, b *Broker) { send(t, b, "others", 0, "x") }, deleted: true},
		"used":              {since: func(t *testing.T, b *Broker) { send(t, b, "orders", 0, "new") }, left: []string{"new"}, offset: true},
		"waited for":        {since: func(t *testing.T, b *Broker) { send(t, b, "orders", 0, "new", "DELAY", "18") }, waiting: 1, offset: true},
		"topics changed":    {since: func(t *testing.T, b *Broker) { createTopic(t, b, "more", 1) }, offset: true},
		"deleted here, too": {since: func(t *testing.T, b *Broker) { require.NoError(t, b.DeleteTopic(t.Context(), "orders")) }, deleted: true},
		"made again": {since: func(t *testing.T, b *Broker) {
			require.NoError(t, b.DeleteTopic(t.Context(), "orders"))
			createTopic(t, b, "orders", 1)
			send(t, b, "orders", 0, "new")
		}, left: []string{"new"}},
	} {
		for _, how := range []string{"open", "being opened", "and opened again"} {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := openDelayStore(t, t.TempDir(), store.Config{})
					b := openBroker(t, Config{Store: s})
					createTopic(t, b, "orders", 1)
					createTopic(t, b, "others", 1)
					send(t, b, "orders", 0, "old")
					send(t, b, "orders", 0, "old", "DELAY", "18")
					send(t, b, "others", 0, "x")
					for _, topic := range []string{"orders", "others"} {
						require.NoError(t, b.UpdateConsumerOffset(t.Context(), protocol.UpdateConsumerOffsetRequest{
							Group: "g", Topic: topic, Offsets: []protocol.QueuePosition{{Offset: 1}},
						}))
					}
					time.Sleep(time.Second)
					elsewhere := Deletions{"orders": time.Now(), "unknown": time.Now(), message.HalfTopic: time.Now()}
					time.Sleep(time.Second)
					test.since(t, b)
					if how == "open" {
						require.NoError(t, b.ApplyDeletions(t.Context(), elsewhere))
					} else {
						require.NoError(t, b.Close())
						b = openBroker(t, Config{Store: s, Deletions: elsewhere})
					}
					if how == "and opened again" {
						require.NoError(t, b.Close())
						b = openBroker(t, Config{Store: s})
					}
					at := b.Deletions()
					require.Len(t, at, 1)
					require.False(t, at["orders"].Before(elsewhere["orders"]))
					file := b.topics.doc
					require.NoError(t, b.ApplyDeletions(t.Context(), elsewhere))
					require.Equal(t, file, b.topics.doc, "it is known")

					_, err := b.GetTopic(t.Context(), "orders")
					if test.deleted {
						require.ErrorIs(t, err, protocol.TopicNotExist)
					} else {
						require.NoError(t, err)
						require.Equal(t, test.left, textsOf(t, b, "orders", 0))
					}
					page, err := b.ListTimers(t.Context(), protocol.ListTimersRequest{})
					require.NoError(t, err)
					require.Len(t, page.Timers, test.waiting)
					_, ok := b.offsets.get("orders", "g", 0)
					require.Equal(t, test.offset, ok)
					_, ok = b.offsets.get("others", "g", 0)
					require.True(t, ok)
					require.NotEmpty(t, textsOf(t, b, "others", 0))
					require.NoError(t, b.Close())
					require.ErrorIs(t, b.ApplyDeletions(t.Context(), elsewhere), message.ErrClosed)
					require.NoError(t, s.Close())
				})
			})
		}
	}
}

// TestDeletionsWithoutTheFile: queues of which no file tells are not taken up for a
// topic that was deleted.
func TestDeletionsWithoutTheFile(t *testing.T) {
	s := openStore(t, t.TempDir())
	b := openBroker(t, Config{Store: s})
	createTopic(t, b, "orders", 1)
	send(t, b, "orders", 0, "old")
	require.NoError(t, b.Close())
	require.NoError(t, s.WriteConfig(topicsFile, []byte("{}")))
	b = openBroker(t, Config{Store: s, Deletions: Deletions{"orders": time.Now().Add(time.Second)}})
	_, err := b.GetTopic(t.Context(), "orders")
	require.ErrorIs(t, err, protocol.TopicNotExist)
}

// TestDeletionsOfUnknownTime are those of a file that an earlier version has
// written: others need not hear of them.
func TestDeletionsOfUnknownTime(t *testing.T) {
	s := openStore(t, t.TempDir())
	require.NoError(t, s.WriteConfig(topicsFile, []byte(`{"pocketmqDeletedTopics":{"a":0,"b":0},"pocketmqDeletedAt":{"b":17}}`)))
	b := openBroker(t, Config{Store: s})
	require.Equal(t, Deletions{"b": time.UnixMilli(17)}, b.Deletions())
	createTopic(t, b, "a", 1)
	require.Equal(t, Deletions{"b": time.UnixMilli(17)}, b.Deletions(), "when it is made again, too")
	createTopic(t, b, "b", 1)
	require.Equal(t, Deletions{"b": time.UnixMilli(17)}, b.Deletions(), "when it is made again, too")
}
