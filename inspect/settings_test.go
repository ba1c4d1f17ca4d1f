package inspect_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/message"
)

// writeSettings makes a directory that counts as a store, with files in config/.
func writeSettings(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"commitlog", "config"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config", name), []byte(text), 0o600))
	}
	return dir
}

func TestReadSettings(t *testing.T) {
	dir := writeSettings(t, map[string]string{
		"topics.json": `{"pocketmqDeletedTopics":{"gone":7,"orders":5},"topicConfigTable":{
			"orders":{"readQueueNums":3,"writeQueueNums":2,"perm":4,"order":true,"pocketmqMaxDepth":9},"bills":{}}}`,
		"subscriptionGroup.json": `{"subscriptionGroupTable":{"idle":{"groupName":"idle"}}}`,
		"consumerOffset.json":    `{"offsetTable":{"orders@b":{1:7,0:12},"orders@a":{"0":1},"strange":{0:1},"bills@b":{0:2}}}`,
	})
	s, err := inspect.ReadSettings(dir)
	require.NoError(t, err)
	require.Equal(t, []inspect.TopicSettings{
		{Name: "bills", ReadQueues: 16, WriteQueues: 16, Perm: 6}, {Name: "orders", ReadQueues: 3, WriteQueues: 2, Perm: 4, Order: true, MaxDepth: 9},
	}, s.Topics)
	require.Equal(t, []string{"a", "b", "idle"}, s.Groups)
	require.Equal(t, []inspect.GroupOffset{
		{Group: "a", Topic: "orders", Offset: 1}, {Group: "b", Topic: "bills", Offset: 2}, {Group: "b", Topic: "orders", Offset: 12}, {Group: "b", Topic: "orders", QueueID: 1, Offset: 7},
	}, s.Offsets)
	require.EqualValues(t, 5, s.DeletedBefore("orders"))
	require.Zero(t, s.DeletedBefore("bills"))
	topic, ok := s.Topic("orders")
	require.True(t, ok)
	require.EqualValues(t, 9, topic.MaxDepth)
	_, ok = s.Topic("gone")
	require.False(t, ok)
}

func TestReadSettingsOfOddDirectories(t *testing.T) {
	s, err := inspect.ReadSettings(writeSettings(t, nil))
	require.NoError(t, err)
	require.Empty(t, s)

	s, err = inspect.ReadSettings(writeSettings(t, map[string]string{"topics.json": `{"topicCon`, "topics.json.bak": `{"topicConfigTable":{"old":{}}}`}))
	require.NoError(t, err)
	require.Equal(t, "old", s.Topics[0].Name)

	dir := writeSettings(t, map[string]string{"consumerOffset.json": `{"offsetTable":7}`})
	_, err = inspect.ReadSettings(dir)
	require.ErrorIs(t, err, message.ErrCorrupt)
	require.ErrorContains(t, err, filepath.Join(dir, "config", "consumerOffset.json"))

	_, err = inspect.ReadSettings(t.TempDir())
	require.ErrorIs(t, err, inspect.ErrNoStore)
}

func TestLookAtQueue(t *testing.T) {
	dir, r := newStore(t, 100)
	for _, test := range []struct {
		name string
		from message.LogOffset
		want inspect.QueueState
	}{
		{"all", 0, inspect.QueueState{Min: 0, Max: 50, LastTime: r[98].StoreTimestamp}},
		{"from a message on", r[20].LogOffset, inspect.QueueState{Min: 10, Max: 50, LastTime: r[98].StoreTimestamp}},
		{"behind it", r[20].LogOffset + 1, inspect.QueueState{Min: 11, Max: 50, LastTime: r[98].StoreTimestamp}},
		{"behind all", r[99].LogOffset + 1, inspect.QueueState{Min: 50, Max: 50}},
	} {
		s, err := inspect.LookAtQueue(dir, "a", 0, test.from)
		require.NoError(t, err)
		require.Equal(t, test.want, s, test.name)
	}
	s, err := inspect.LookAtQueue(dir, "unknown", 0, 0)
	require.NoError(t, err)
	require.Equal(t, inspect.QueueState{}, s)

	inLog(t, dir, r[98].LogOffset, func(b []byte) { b[90] ^= 1 })
	s, err = inspect.LookAtQueue(dir, "a", 0, 0)
	require.NoError(t, err)
	require.Equal(t, inspect.QueueState{Max: 50}, s, "the time can not be trusted")
}

func TestMessageAt(t *testing.T) {
	dir, r := newStore(t, 100)
	for i := range r {
		m, err := inspect.MessageAt(dir, r[i].LogOffset)
		require.NoError(t, err)
		require.Contains(t, string(m.Body), fmt.Sprintf("message %03d,", i))
	}
	for _, off := range []message.LogOffset{-1, r[50].LogOffset + 1, r[99].LogOffset - 1, r[99].LogOffset + message.LogOffset(r[99].Bytes), 1 << 60} {
		_, err := inspect.MessageAt(dir, off)
		require.ErrorIs(t, err, message.ErrOffsetNotFound, off)
	}
	for _, i := range []int{40, 99} {
		inLog(t, dir, r[i].LogOffset, func(b []byte) { b[90] ^= 1 })
		_, err := inspect.MessageAt(dir, r[i].LogOffset)
		require.ErrorIs(t, err, message.ErrCorrupt, i)
	}
	_, err := inspect.MessageAt(t.TempDir(), 0)
	require.ErrorIs(t, err, inspect.ErrNoStore)
}
