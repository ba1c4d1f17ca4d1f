package broker

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/golden"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// TestRocketMQsDelays goes on where RocketMQ has stopped: 12 messages were
// delivered, of which its file counts one, and one waits. The others are
// recognized, and what RocketMQ delivered is what we would have.
func TestRocketMQsDelays(t *testing.T) {
	c, err := golden.Load("delay_delivered")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, c.Unpack(golden.StoreArchive, dir))
	now := func() time.Time { return time.UnixMilli(1795973113607 + 20_000) }
	s, err := store.Open(t.Context(), dir, store.Config{Flush: store.FlushAsync, MaxBodySize: 32 << 10, Now: now})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	require.Contains(t, delayFileText(t, s), "{1:1\n")

	read := func(topic string, queueID int32) (ms []message.MessageExt) {
		for v, err := range s.Messages(t.Context(), store.GetQuery{Topic: topic, QueueID: queueID}) {
			require.NoError(t, err)
			ms = append(ms, v.Message())
		}
		return ms
	}
	for i, parked := range read(message.ScheduleTopic, 0) {
		want, err := delivery(parked)
		require.NoError(t, err)
		got := read("DelayTopic", want.QueueID)[i/4]
		require.Equal(t, want.Message, got.Message)
		require.Equal(t, want.BornTimestamp, got.BornTimestamp)
		require.Equal(t, want.BornHost, got.BornHost)
		require.Equal(t, want.StoreHost, got.StoreHost)
	}

	b := openBroker(t, Config{Store: s, Now: now})
	require.Eventually(t, func() bool { return s.MaxOffsetInQueue("DelayTopic", 0) == 4 }, time.Minute, time.Millisecond)
	require.NoError(t, b.Close())
	require.Contains(t, delayFileText(t, s), "{1:12,3:1\n")
	require.NoError(t, s.WaitDispatched(t.Context(), s.MaxOffset()))
	for id := range int32(4) {
		keys := map[string]int{}
		for _, m := range read("DelayTopic", id) {
			k, _ := m.Properties.Get(message.PropertyKeys)
			keys[k]++
		}
		want := map[string]int{}
		for i := id; i < 12; i += 4 {
			want["dk"+strconv.Itoa(int(i))] = 1
		}
		if id == 0 {
			want["later"] = 1
		}
		require.Equal(t, want, keys)
	}
}
