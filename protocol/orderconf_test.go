package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

func TestParseOrderConf(t *testing.T) {
	for text, want := range map[string][]OrderQueues{
		"":            nil,
		"a:2":         {{"a", 2}},
		"b:1;a:4;c:0": {{"b", 1}, {"a", 4}, {"c", 0}},
	} {
		got, err := ParseOrderConf(text)
		require.NoError(t, err)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"a", ":1", "a:", "a:x", "a:-1", "a:1;", ";a:1", "a:1:2", "a:2147483648"} {
		_, err := ParseOrderConf(text)
		require.ErrorIs(t, err, message.ErrIllegal, text)
	}
}

// TestRouteWithOrder takes the queues that the order names, whatever the brokers say.
func TestRouteWithOrder(t *testing.T) {
	r := TopicRoute{Queues: []QueueData{{BrokerName: "a", WriteQueueNums: 4, ReadQueueNums: 4, Perm: PermReadWrite}},
		Brokers: []BrokerData{{Name: "a", Addrs: map[int64]string{MasterID: "x"}}}}
	require.Len(t, r.WriteQueues("t"), 4)
	r.OrderConf = "b:2;a:1"
	require.Equal(t, []MessageQueue{{"t", "b", 0}, {"t", "b", 1}, {"t", "a", 0}}, r.WriteQueues("t"))
	require.Len(t, r.ReadQueues("t"), 4)
	r.OrderConf = "b"
	require.Len(t, r.WriteQueues("t"), 4, "what can not be read does not count")
}

func TestReplyTopic(t *testing.T) {
	require.Equal(t, "c_REPLY_TOPIC", ReplyTopic("c"))
	require.True(t, IsReplyTopic("c_REPLY_TOPIC"))
	require.False(t, IsReplyTopic("c_REPLY_TOPIC_"))
}
