package broker

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

func TestMain(m *testing.M) {
	if err := os.Setenv("TMPDIR", crashfs.Dir()); err != nil { // where files cost least
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// openStore opens a small store that lives as long as the test.
func openStore(t *testing.T, dir string) *store.DefaultMessageStore {
	t.Helper()
	s, err := store.Open(t.Context(), dir, store.Config{
		Flush: store.FlushAsync, SegmentSize: 1 << 20, ConsumeQueueFileSize: 100 * 20, MaxBodySize: 128 << 10,
	})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// openBroker opens a broker that lives as long as the test.
func openBroker(t *testing.T, cfg Config) *Broker {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = openStore(t, t.TempDir())
	}
	b, err := New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

func createTopic(t *testing.T, b *Broker, name string, queues int32) {
	t.Helper()
	require.NoError(t, b.CreateTopic(t.Context(), protocol.TopicConfig{Name: name, ReadQueueNums: queues, WriteQueueNums: queues}))
}

// send stores a message and waits until it can be read.
func send(t *testing.T, b *Broker, topic string, queueID int32, body string, properties ...string) protocol.SendMessageResponse {
	t.Helper()
	p, err := message.NewProperties(properties...)
	require.NoError(t, err)
	resp, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{
		Message: message.Message{Topic: topic, Body: []byte(body), Properties: p}, QueueID: queueID,
	})
	require.NoError(t, err)
	require.Equal(t, protocol.Success, resp.Code)
	require.NoError(t, b.store.WaitDispatched(t.Context(), b.store.MaxOffset()))
	return resp
}

// pull returns what one pull without waiting gives, with the messages copied.
func pull(t *testing.T, b *Broker, req protocol.PullMessageRequest) (protocol.PullMessageResponse, []message.MessageExt) {
	t.Helper()
	resp, err := b.PullMessage(t.Context(), req)
	require.NoError(t, err)
	var ms []message.MessageExt
	for _, v := range resp.Messages {
		ms = append(ms, v.Message())
	}
	if resp.Release != nil {
		resp.Release()
	}
	return resp, ms
}

func configFile(s *store.DefaultMessageStore, name string) string {
	return filepath.Join(s.Dir(), "config", name)
}

// fixed is a clock that stands still.
func fixed(ms int64) func() time.Time { return func() time.Time { return time.UnixMilli(ms) } }
