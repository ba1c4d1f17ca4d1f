package broker

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

func update(t *testing.T, b *Broker, queueID int32, off message.QueueOffset, sync bool) {
	t.Helper()
	require.NoError(t, b.UpdateConsumerOffset(t.Context(), protocol.UpdateConsumerOffsetRequest{
		Group: "billing", Topic: "orders", Offsets: []protocol.QueuePosition{{QueueID: queueID, Offset: off}}, Sync: sync,
	}))
}

func query(t *testing.T, b *Broker, queueID int32) (message.QueueOffset, error) {
	t.Helper()
	return b.QueryConsumerOffset(t.Context(), protocol.QueryConsumerOffsetRequest{Group: "billing", Topic: "orders", QueueID: queueID})
}

func readOffsets(t *testing.T, b *Broker) string {
	t.Helper()
	text, err := os.ReadFile(configFile(b.store, offsetsFile))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return string(text)
}

const oneOffset = "{\n\t\"offsetTable\":{\n\t\t\"orders@billing\":{1:%d\n\t\t}\n\t}\n}"

// TestOffsetsAreSaved follows an offset to disk on each of its three ways.
func TestOffsetsAreSaved(t *testing.T) {
	b := openBroker(t, Config{OffsetPersistInterval: 20 * time.Millisecond})
	createTopic(t, b, "orders", 2)
	update(t, b, 1, 3, false)
	require.Eventually(t, func() bool { return readOffsets(t, b) == fmt.Sprintf(oneOffset, 3) }, time.Minute, time.Millisecond, "by the interval")

	require.NoError(t, b.Close())
	b = openBroker(t, Config{Store: b.store, OffsetPersistInterval: time.Hour})
	update(t, b, 1, 4, false)
	require.Equal(t, fmt.Sprintf(oneOffset, 3), readOffsets(t, b), "not yet")
	update(t, b, 1, 5, true)
	require.Equal(t, fmt.Sprintf(oneOffset, 5), readOffsets(t, b), "by request")
	backup, err := os.ReadFile(configFile(b.store, offsetsFile+".bak"))
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf(oneOffset, 3), string(backup))
	update(t, b, 1, 4, false)
	require.NoError(t, b.Close())
	require.Equal(t, fmt.Sprintf(oneOffset, 4), readOffsets(t, b), "by Close, and backwards")
	require.NoError(t, b.Close())
}

// TestIdleBrokerWritesNothing deletes the file: nobody makes it again.
func TestIdleBrokerWritesNothing(t *testing.T) {
	b := openBroker(t, Config{OffsetPersistInterval: time.Millisecond})
	createTopic(t, b, "orders", 2)
	update(t, b, 1, 3, true)
	require.NoError(t, os.Remove(configFile(b.store, offsetsFile)))
	for range 20 {
		update(t, b, 1, 3, true) // no change
		_, err := query(t, b, 1)
		require.NoError(t, err)
	}
	require.NoError(t, b.Close())
	require.Empty(t, readOffsets(t, b))
}

// TestOffsetsNotSaved breaks the directory: a synchronous commit says so, and
// the next save has everything.
func TestOffsetsNotSaved(t *testing.T) {
	b := openBroker(t, Config{OffsetPersistInterval: 5 * time.Millisecond})
	createTopic(t, b, "orders", 2)
	repair := breakConfig(t, b.store)
	err := b.UpdateConsumerOffset(t.Context(), protocol.UpdateConsumerOffsetRequest{
		Group: "billing", Topic: "orders", Offsets: []protocol.QueuePosition{{QueueID: 1, Offset: 3}}, Sync: true,
	})
	require.ErrorIs(t, err, protocol.SystemError)
	repair()
	require.Eventually(t, func() bool { return readOffsets(t, b) == fmt.Sprintf(oneOffset, 3) }, time.Minute, time.Millisecond)
}

func TestOffsetsStayInTheQueue(t *testing.T) {
	b := openBroker(t, Config{})
	createTopic(t, b, "orders", 2)
	_, err := query(t, b, 0)
	require.ErrorIs(t, err, protocol.QueryNotFound)
	for i := range 3 {
		send(t, b, "orders", 0, fmt.Sprint(i))
	}
	for stored, want := range map[message.QueueOffset]message.QueueOffset{0: 0, 2: 2, 3: 3, 4: 3, 1 << 40: 3} {
		update(t, b, 0, stored, false)
		got, err := query(t, b, 0)
		require.NoError(t, err)
		require.Equal(t, want, got, "stored %d", stored)
	}
}

func TestUpdateConsumerOffsetRefuses(t *testing.T) {
	b := openBroker(t, Config{})
	createTopic(t, b, "orders", 2)
	for name, test := range map[string]struct {
		req  protocol.UpdateConsumerOffsetRequest
		want error
	}{
		"no group":  {protocol.UpdateConsumerOffsetRequest{Topic: "orders"}, message.ErrIllegal},
		"bad group": {protocol.UpdateConsumerOffsetRequest{Group: "a@b", Topic: "orders"}, message.ErrIllegal},
		"no topic": {protocol.UpdateConsumerOffsetRequest{Group: "g", Topic: "none",
			Offsets: []protocol.QueuePosition{{}}}, protocol.TopicNotExist},
		"no queue": {protocol.UpdateConsumerOffsetRequest{Group: "g", Topic: "orders",
			Offsets: []protocol.QueuePosition{{QueueID: 2}}}, message.ErrLimit},
		"negative": {protocol.UpdateConsumerOffsetRequest{Group: "g", Topic: "orders",
			Offsets: []protocol.QueuePosition{{Offset: -1}}}, message.ErrLimit},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, b.UpdateConsumerOffset(t.Context(), test.req), test.want)
		})
	}
}

// TestOffsetsFileOlder restores a file from before: messages come twice, none
// is left out, and new messages go behind those that are there.
func TestOffsetsFileOlder(t *testing.T) {
	s := openStore(t, t.TempDir())
	b := openBroker(t, Config{Store: s})
	createTopic(t, b, "orders", 2)
	for i := range 5 {
		send(t, b, "orders", 1, fmt.Sprint(i))
	}
	update(t, b, 1, 5, true)
	require.NoError(t, b.Close())
	require.NoError(t, s.WriteConfig(offsetsFile, fmt.Appendf(nil, oneOffset, 2)))

	b = openBroker(t, Config{Store: s})
	off, err := query(t, b, 1)
	require.NoError(t, err)
	require.EqualValues(t, 2, off)
	require.EqualValues(t, 5, send(t, b, "orders", 1, "new").QueueOffset)
	_, ms := pull(t, b, protocol.PullMessageRequest{Topic: "orders", QueueID: 1, Offset: off})
	require.Len(t, ms, 4)
}

func TestOffsetsConcurrently(t *testing.T) {
	b := openBroker(t, Config{OffsetPersistInterval: time.Millisecond})
	createTopic(t, b, "orders", 8)
	var wg sync.WaitGroup
	for q := range int32(8) {
		wg.Go(func() {
			for i := range message.QueueOffset(100) {
				update(t, b, q, i, i%50 == 0)
				_, _ = query(t, b, (q+1)%8)
			}
		})
	}
	wg.Wait()
	require.NoError(t, b.Close())
	_, table, err := parseOffsets([]byte(readOffsets(t, b)))
	require.NoError(t, err)
	for q := range int32(8) {
		require.EqualValues(t, 99, table["orders@billing"][q])
	}
}
