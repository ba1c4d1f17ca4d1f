package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// textsOf are those of what can be read of a queue, from its first offset on.
func textsOf(t *testing.T, b *Broker, topic string, queueID int32) (texts []string) {
	t.Helper()
	off, err := b.GetMinOffset(t.Context(), topic, queueID)
	require.NoError(t, err)
	end, err := b.GetMaxOffset(t.Context(), topic, queueID)
	require.NoError(t, err)
	for off < end {
		resp, ms := pull(t, b, protocol.PullMessageRequest{Topic: topic, QueueID: queueID, Offset: off, MaxMessages: 4096})
		require.Greater(t, resp.NextBeginOffset, off)
		for i, m := range ms {
			if m.QueueOffset != off+message.QueueOffset(i) {
				t.Fatalf("queue %s/%d: message %d after %d", topic, queueID, m.QueueOffset, off+message.QueueOffset(i)-1)
			}
			texts = append(texts, string(m.Body))
		}
		off = resp.NextBeginOffset
	}
	return texts
}

func TestDeleteTopic(t *testing.T) {
	names := &NameService{}
	b := openBroker(t, Config{NameService: names, NoAutoCreateTopic: true, Now: fixed(42)})
	ctx := t.Context()
	createTopic(t, b, "orders", 2)
	createTopic(t, b, "other", 1)
	for i := range 3 {
		send(t, b, "orders", 1, fmt.Sprint("old ", i), "KEYS", "k")
	}
	view := send(t, b, "orders", 0, "old 3").MessageID
	update(t, b, 1, 2, true)
	require.NoError(t, b.DeleteTopic(ctx, "orders"))

	notExist := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, protocol.TopicNotExist)
	}
	_, err := b.GetTopic(ctx, "orders")
	notExist(err)
	_, err = b.SendMessage(ctx, protocol.SendMessageRequest{Message: message.Message{Topic: "orders", Body: []byte("x")}})
	notExist(err)
	_, err = b.PullMessage(ctx, protocol.PullMessageRequest{Topic: "orders", QueueID: 1})
	notExist(err)
	_, err = b.GetMinOffset(ctx, "orders", 1)
	notExist(err)
	_, err = b.TopicStats(ctx, "orders")
	notExist(err)
	_, err = b.QueryMessage(ctx, protocol.QueryMessageRequest{Topic: "orders", Key: "k"})
	notExist(err)
	_, err = names.RouteOfTopic(ctx, "orders")
	notExist(err)
	_, err = b.ViewMessage(ctx, view)
	require.ErrorIs(t, err, message.ErrOffsetNotFound)
	topics, err := b.ListTopics(ctx)
	require.NoError(t, err)
	require.Len(t, topics, 1)
	require.Equal(t, "{\n\t\"offsetTable\":{}\n}", readOffsets(t, b))
	doc, err := os.ReadFile(configFile(b.store, topicsFile))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf(`{
	"dataVersion":{
		"counter":3,
		"timestamp":42
	},
	"pocketmqDeletedAt":{
		"orders":42
	},
	"pocketmqDeletedTopics":{
		"orders":%d
	},
	"topicConfigTable":{
		"other":{
			"order":false,
			"perm":6,
			"readQueueNums":1,
			"topicFilterType":"SINGLE_TAG",
			"topicName":"other",
			"topicSysFlag":0,
			"writeQueueNums":1
		}
	}
}`, b.store.MaxOffset()), string(doc))

	createTopic(t, b, "orders", 2)
	require.Empty(t, textsOf(t, b, "orders", 1))
	_, err = query(t, b, 1)
	require.ErrorIs(t, err, protocol.QueryNotFound)
	resp := send(t, b, "orders", 1, "new", "KEYS", "k")
	require.EqualValues(t, 3, resp.QueueOffset, "numbers go on: the log has the others")
	require.Equal(t, []string{"new"}, textsOf(t, b, "orders", 1))
	for off := range message.QueueOffset(3) {
		moved, ms := pull(t, b, protocol.PullMessageRequest{Topic: "orders", QueueID: 1, Offset: off})
		require.Empty(t, ms)
		require.Equal(t, protocol.PullMessageResponse{Code: protocol.PullOffsetMoved, Status: "OFFSET_TOO_SMALL", NextBeginOffset: 3, MinOffset: 3, MaxOffset: 4}, moved)
	}
	found, ms := pull(t, b, protocol.PullMessageRequest{Topic: "orders", QueueID: 1, Offset: 3})
	require.Len(t, ms, 1)
	require.EqualValues(t, 3, found.MinOffset)
	require.NoError(t, b.store.WaitIndexed(ctx, b.store.MaxOffset()))
	byKey, err := b.QueryMessage(ctx, protocol.QueryMessageRequest{Topic: "orders", Key: "k"})
	require.NoError(t, err)
	require.Len(t, byKey, 1)
	require.Equal(t, "new", string(byKey[0].Body))
	_, err = b.ViewMessage(ctx, view)
	require.ErrorIs(t, err, message.ErrOffsetNotFound)
}

func TestDeleteTopicRefuses(t *testing.T) {
	b := openBroker(t, Config{Name: "broker-a"})
	for _, test := range []struct {
		topic, text string
		code        protocol.ResponseCode
	}{
		{"", "blank", protocol.SystemError},
		{"a/b", "character", protocol.SystemError},
		{"TBW102", "system topic", protocol.SystemError},
		{"SCHEDULE_TOPIC_XXXX", "system topic", protocol.SystemError},
		{"broker-a", "system topic", protocol.SystemError},
		{"unknown", "topic unknown does not exist", protocol.TopicNotExist},
	} {
		err := b.DeleteTopic(t.Context(), test.topic)
		require.ErrorIs(t, err, test.code, test.topic)
		require.ErrorContains(t, err, test.text)
	}
	require.NoError(t, b.Close())
	require.ErrorIs(t, b.DeleteTopic(t.Context(), "t"), message.ErrClosed)
}

// TestDeletedTopicStaysDeleted opens the directory again after a stop, without the
// files that are derived from the log, and in the background: what was deleted does
// not come back, and what came after it is there.
func TestDeletedTopicStaysDeleted(t *testing.T) {
	for _, test := range []struct {
		name       string
		background bool
		lose       []string
	}{
		{"clean", false, nil},
		{"no queues", false, []string{"consumequeue"}},
		{"nothing derived", false, []string{"consumequeue", "index", "checkpoint", "pocketmq/recovery.json"}},
		{"background", true, []string{"consumequeue"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			s := openStore(t, dir)
			b, err := New(t.Context(), Config{Store: s})
			require.NoError(t, err)
			createTopic(t, b, "gone", 3)
			createTopic(t, b, "orders", 3)
			for id := range int32(3) {
				send(t, b, "gone", id, "old")
				send(t, b, "orders", id, "old")
			}
			require.NoError(t, b.DeleteTopic(t.Context(), "gone"))
			require.NoError(t, b.DeleteTopic(t.Context(), "orders"))
			createTopic(t, b, "orders", 1)
			send(t, b, "orders", 0, "new")
			require.NoError(t, b.Close())
			require.NoError(t, s.Close())
			for _, name := range test.lose {
				require.NoError(t, os.RemoveAll(filepath.Join(dir, name)))
			}

			s, err = store.Open(t.Context(), dir, store.Config{Flush: store.FlushAsync, SegmentSize: 1 << 20, ConsumeQueueFileSize: 100 * 20, MaxBodySize: 128 << 10, RebuildInBackground: test.background})
			require.NoError(t, err)
			t.Cleanup(func() { s.Close() })
			b = openBroker(t, Config{Store: s})
			topics, err := b.ListTopics(t.Context())
			require.NoError(t, err)
			require.Equal(t, []protocol.TopicConfig{{Name: "orders", ReadQueueNums: 1, WriteQueueNums: 1, Perm: protocol.PermReadWrite}}, topics)
			require.NoError(t, s.WaitDispatched(t.Context(), s.MaxOffset()))
			require.Equal(t, []string{"new"}, textsOf(t, b, "orders", 0))
			require.EqualValues(t, 2, send(t, b, "orders", 0, "newer").QueueOffset)
			createTopic(t, b, "gone", 3)
			require.Empty(t, textsOf(t, b, "gone", 0))
			require.EqualValues(t, 1, send(t, b, "gone", 0, "new").QueueOffset)
			require.Equal(t, []string{"new"}, textsOf(t, b, "gone", 0))
		})
	}
}

// TestDeletedTopicInMoreQueues makes a topic with more messages in queues that it
// had before and has not any more: they are adopted when they are its own.
func TestDeletedTopicInMoreQueues(t *testing.T) {
	s := openStore(t, t.TempDir())
	b, err := New(t.Context(), Config{Store: s})
	require.NoError(t, err)
	createTopic(t, b, "orders", 3)
	for id := range int32(3) {
		send(t, b, "orders", id, "old")
	}
	require.NoError(t, b.DeleteTopic(t.Context(), "orders"))
	createTopic(t, b, "orders", 2)
	send(t, b, "orders", 1, "new")
	createTopic(t, b, "orders", 1) // hides queue 1
	require.NoError(t, b.Close())
	b = openBroker(t, Config{Store: s})
	cfg, err := b.GetTopic(t.Context(), "orders")
	require.NoError(t, err)
	require.EqualValues(t, 2, cfg.ReadQueueNums)
	require.Equal(t, []string{"new"}, textsOf(t, b, "orders", 1))
}

// TestDeletionBehindTheLog opens a directory whose log lost its end: new messages
// that come there are not hidden, now and after the next restart.
func TestDeletionBehindTheLog(t *testing.T) {
	s := openStore(t, t.TempDir())
	require.NoError(t, s.WriteConfig(topicsFile, []byte(`{"pocketmqDeletedTopics":{"orders":100000},"topicConfigTable":{"orders":{"readQueueNums":1,"writeQueueNums":1}}}`)))
	for i := range 3 {
		b, err := New(t.Context(), Config{Store: s})
		require.NoError(t, err)
		require.Len(t, textsOf(t, b, "orders", 0), i)
		send(t, b, "orders", 0, "new")
		require.Len(t, textsOf(t, b, "orders", 0), i+1)
		require.NoError(t, b.Close())
	}
}

// TestDeletedTopicsFile refuses what makes no sense.
func TestDeletedTopicsFile(t *testing.T) {
	for text, want := range map[string]string{
		`{"pocketmqDeletedTopics":7}`:                                     "not of type object",
		`{"pocketmqDeletedTopics":{"t":"x"}}`:                             "not of type integer",
		`{"pocketmqDeletedTopics":{"t":-1}}`:                              "not of type log offset",
		`{"pocketmqDeletedAt":7}`:                                         "not of type object",
		`{"pocketmqDeletedTopics":{"t":1},"pocketmqDeletedAt":{"t":"x"}}`: "not of type integer",
		`{"topicConfigTable":{"t":{"pocketmqMaxDepth":-1}}}`:              "not of type positive integer",
	} {
		s := openStore(t, t.TempDir())
		require.NoError(t, s.WriteConfig(topicsFile, []byte(text)))
		_, err := New(t.Context(), Config{Store: s})
		require.ErrorIs(t, err, message.ErrCorrupt, text)
		require.ErrorContains(t, err, want)
	}
}

// TestDeletedOffsetsAfterCrash has a crash, or a late commit, between the deletion
// of a topic and that of its offsets.
func TestDeletedOffsetsAfterCrash(t *testing.T) {
	s := openStore(t, t.TempDir())
	require.NoError(t, s.WriteConfig(topicsFile, []byte(`{"pocketmqDeletedTopics":{"orders":0}}`)))
	require.NoError(t, s.WriteConfig(offsetsFile, fmt.Appendf(nil, oneOffset, 5)))
	b := openBroker(t, Config{Store: s})
	require.Equal(t, "{\n\t\"offsetTable\":{}\n}", readOffsets(t, b))
}

// TestDeleteTopicNotOnDisk fails each write of a deletion in turn.
func TestDeleteTopicNotOnDisk(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	b := openBroker(t, Config{Store: s})
	createTopic(t, b, "orders", 2)
	send(t, b, "orders", 1, "old")
	update(t, b, 1, 1, true)
	block := func(name string) (unblock func()) {
		t.Helper()
		tmp := configFile(s, name) + ".tmp"
		require.NoError(t, os.MkdirAll(filepath.Join(tmp, "x"), 0o700))
		return func() { require.NoError(t, os.RemoveAll(tmp)) }
	}
	unblock := block(topicsFile)
	require.ErrorIs(t, b.DeleteTopic(t.Context(), "orders"), protocol.SystemError)
	unblock()
	require.Equal(t, []string{"old"}, textsOf(t, b, "orders", 1), "nothing has changed")
	off, err := query(t, b, 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, off)

	unblock = block(offsetsFile)
	require.ErrorIs(t, b.DeleteTopic(t.Context(), "orders"), protocol.SystemError)
	unblock()
	require.ErrorIs(t, b.DeleteTopic(t.Context(), "orders"), protocol.TopicNotExist, "the topic is gone")
	require.NoError(t, b.Close())
	require.Equal(t, "{\n\t\"offsetTable\":{}\n}", readOffsets(t, b), "Close saves")
}

// TestDeletedTopicIsRemoved has retention remove what was deleted, though a group
// had not consumed it.
func TestDeletedTopicIsRemoved(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), store.Config{
		Flush: store.FlushAsync, SegmentSize: 1 << 20, ConsumeQueueFileSize: 100 * 20, MaxBodySize: 128 << 10,
		Retention: store.Retention{Groups: store.RemoveConsumed},
	})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	b := openBroker(t, Config{Store: s})
	createTopic(t, b, "orders", 2)
	body := string(make([]byte, 100<<10))
	for range 25 {
		send(t, b, "orders", 1, body)
	}
	update(t, b, 1, 1, true)
	removal, err := s.DeleteExpired(t.Context())
	require.NoError(t, err)
	require.Empty(t, removal.Files)
	require.NoError(t, b.DeleteTopic(t.Context(), "orders"))
	_, err = s.DeleteExpired(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, s.MinOffset(), message.LogOffset(2<<20))
	createTopic(t, b, "orders", 2)
	require.EqualValues(t, 25, send(t, b, "orders", 1, "new").QueueOffset)
	require.Equal(t, []string{"new"}, textsOf(t, b, "orders", 1))
}

// TestDeleteAndCreateConcurrently deletes and makes a topic while others send and
// read. After the last time offsets are dense, and what was acknowledged since is
// there.
func TestDeleteAndCreateConcurrently(t *testing.T) {
	b := openBroker(t, Config{})
	createTopic(t, b, "orders", 1)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop() // also when the test has failed
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{Message: message.Message{Topic: "orders", Body: []byte("x")}, DefaultTopicQueueNums: 1})
				if err != nil {
					t.Errorf("send: %v", err)
				}
			}
		})
	}
	wg.Go(func() {
		var off message.QueueOffset
		for ctx.Err() == nil {
			resp, err := b.PullMessage(t.Context(), protocol.PullMessageRequest{Topic: "orders", Offset: off})
			if err != nil && !errors.Is(err, protocol.TopicNotExist) {
				t.Errorf("pull: %v", err)
			}
			if err == nil {
				off = max(off, resp.NextBeginOffset)
			}
			if resp.Release != nil {
				resp.Release()
			}
		}
	})
	for range 5 {
		err := b.DeleteTopic(t.Context(), "orders")
		if err != nil {
			require.ErrorIs(t, err, protocol.TopicNotExist)
		}
		require.NoError(t, b.CreateTopic(t.Context(), protocol.TopicConfig{Name: "orders", ReadQueueNums: 1, WriteQueueNums: 1}))
	}
	stop()
	wg.Wait()
	require.NoError(t, b.store.WaitDispatched(t.Context(), b.store.MaxOffset()))
	before := len(textsOf(t, b, "orders", 0))
	for range 5 {
		send(t, b, "orders", 0, "last")
	}
	require.Len(t, textsOf(t, b, "orders", 0), before+5)
}

// TestDeletedTopicAfterKill looks at the directory as a kill leaves it: what a
// deletion, and sends after it, have confirmed is so.
func TestDeletedTopicAfterKill(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, Config{Store: openStore(t, dir)})
	createTopic(t, b, "orders", 1)
	send(t, b, "orders", 0, "old")
	killed := func() *Broker {
		t.Helper()
		image := filepath.Join(t.TempDir(), "image")
		require.NoError(t, copyOpen(image, dir))
		return openBroker(t, Config{Store: openStore(t, image)})
	}
	require.Equal(t, []string{"old"}, textsOf(t, killed(), "orders", 0))
	require.NoError(t, b.DeleteTopic(t.Context(), "orders"))
	_, err := killed().GetTopic(t.Context(), "orders")
	require.ErrorIs(t, err, protocol.TopicNotExist)
	send(t, b, "orders", 0, "new") // makes it
	require.Equal(t, []string{"new"}, textsOf(t, killed(), "orders", 0))
	require.NoError(t, b.DeleteTopic(t.Context(), "orders"))
	_, err = killed().GetTopic(t.Context(), "orders")
	require.ErrorIs(t, err, protocol.TopicNotExist)
}
