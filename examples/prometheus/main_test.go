package main

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// TestMetrics reads what Prometheus would read, also of a store that is closed.
func TestMetrics(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), store.Config{})
	require.NoError(t, err)
	defer s.Close()
	m := &message.MessageExtBrokerInner{}
	m.Topic, m.Body = "t", []byte("x")
	for range 10 {
		_, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
	}
	require.NoError(t, s.WaitDispatched(t.Context(), s.MaxOffset()))
	require.Eventually(t, func() bool { return s.Stats().GroupSize.Count() == 10 }, time.Minute, time.Millisecond,
		"a sync is counted after the put has returned")
	requireLines(t, s,
		"pocketmq_store_put_messages_total 10",
		"pocketmq_store_messages 10",
		"pocketmq_store_dispatch_lag_bytes 0",
		"pocketmq_store_put_seconds_count 10",
		`pocketmq_store_put_seconds_bucket{le="+Inf"} 10`,
		`pocketmq_store_put_seconds_bucket{le="1.023e-06"} 0`,
		`pocketmq_store_put_seconds_bucket{le="68.719476735"} 10`,
		"pocketmq_store_sync_seconds_count 10",
		`pocketmq_store_sync_messages_bucket{le="0"} 0`,
		`pocketmq_store_sync_messages_bucket{le="1"} 10`,
		"pocketmq_store_sync_messages_sum 10",
		`pocketmq_store_waiting_puts{for="sync"} 0`,
		"pocketmq_store_healthy 2",
	)
	require.NoError(t, s.Close())
	requireLines(t, s, "pocketmq_store_healthy 0", `pocketmq_store_unhealthy{reason="closed"} 1`, "pocketmq_store_put_messages_total 10")
}

func requireLines(t *testing.T, s *store.DefaultMessageStore, want ...string) {
	t.Helper()
	answer := httptest.NewRecorder()
	handler(s).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	require.Equal(t, 200, answer.Code, answer.Body)
	require.Subset(t, strings.Split(answer.Body.String(), "\n"), want)
}
