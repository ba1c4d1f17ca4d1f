package broker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// TestBrokerPermission: what may not be done at a broker is refused whatever the
// topic, and routes say so.
func TestBrokerPermission(t *testing.T) {
	for _, test := range []struct {
		perm        protocol.Perm
		write, read bool
	}{
		{0, true, true}, {protocol.PermReadWrite, true, true}, {protocol.PermRead, false, true}, {protocol.PermWrite, true, false}, {protocol.PermInherit, false, false},
	} {
		t.Run(test.perm.String(), func(t *testing.T) {
			names := &NameService{}
			b := openBroker(t, Config{Permission: test.perm, NameService: names, Name: "a"})
			createTopic(t, b, "orders", 1)
			check := func(what string, allowed bool, code protocol.ResponseCode, err error) {
				t.Helper()
				if allowed {
					require.NotErrorIs(t, err, protocol.NoPermission, what)
					return
				}
				require.ErrorIs(t, err, protocol.NoPermission, what)
				require.Equal(t, protocol.NoPermission, code)
				require.ErrorContains(t, err, "broker a can not be")
			}
			resp, err := b.SendMessage(t.Context(), keyed("orders", 0, "A"))
			check("send", test.write, resp.Code, err)
			batch, err := b.SendMessageBatch(t.Context(), batchOf(t, "orders", 0, "A"))
			check("batch", test.write, batch.Code, err)
			err = b.SendMessageBack(t.Context(), protocol.SendMessageBackRequest{Group: "g"})
			check("send back", test.write, protocol.CodeOf(err), err)
			err = b.Writable(t.Context())
			check("writable", test.write, protocol.CodeOf(err), err)
			pulled, err := b.PullMessage(t.Context(), protocol.PullMessageRequest{Topic: "orders"})
			check("pull", test.read, pulled.Code, err)
			if pulled.Release != nil {
				pulled.Release()
			}
			if !test.write {
				require.Zero(t, b.store.MaxOffset())
			}
			route, err := names.RouteOfTopic(t.Context(), "orders")
			require.NoError(t, err)
			require.Equal(t, test.write, len(route.WriteQueues("orders")) == 1)
			require.Equal(t, test.read, len(route.ReadQueues("orders")) == 1)
			cfg, err := b.GetTopic(t.Context(), "orders")
			require.NoError(t, err)
			require.Equal(t, protocol.PermReadWrite, cfg.Perm, "the topic is what it is")
		})
	}
	_, err := New(t.Context(), Config{Permission: 8, MaxSendWait: -1})
	require.ErrorContains(t, err, `Config.Permission "8"`)
	require.ErrorContains(t, err, "Config.MaxSendWait (negative)")
}

// TestAcceptSendFrom refuses messages before a time; reads go on.
func TestAcceptSendFrom(t *testing.T) {
	start := time.Date(2024, 5, 6, 7, 8, 9, 0, time.Local)
	var later atomic.Int64
	b := openBroker(t, Config{
		AcceptSendFrom: start.Add(time.Second), Now: func() time.Time { return start.Add(time.Duration(later.Load())) },
	})
	createTopic(t, b, "orders", 1)
	resp, err := b.SendMessage(t.Context(), keyed("orders", 0, "A"))
	require.Equal(t, protocol.SystemError, resp.Code)
	require.EqualError(t, err, "SYSTEM_ERROR: broker unable to service, until 2024-05-06 07:08:10")
	_, err = b.SendMessageBatch(t.Context(), batchOf(t, "orders", 0, "A"))
	require.ErrorIs(t, err, protocol.SystemError)
	require.Zero(t, b.store.MaxOffset())
	_, err = b.PullMessage(t.Context(), protocol.PullMessageRequest{Topic: "orders"})
	require.NoError(t, err)
	later.Store(int64(time.Second))
	mustSend(t, b, keyed("orders", 0, "A"))
}

// lagging opens a store whose dispatcher stands still, at a queue that can not be
// made, until it is let go, and fills it so that puts wait.
func lagging(t *testing.T, cfg Config) (b *Broker, letGo func()) {
	t.Helper()
	gate := make(chan struct{})
	s := openDelayStore(t, t.TempDir(), store.Config{
		Flush: store.FlushAsync, MaxDispatchLag: 2000, NoIndex: true,
		Events: store.Events{DispatchFailed: func(store.DispatchEvent) { <-gate }},
	})
	cfg.Store = s
	b = openBroker(t, cfg)
	createTopic(t, b, "orders", 1)
	createTopic(t, b, "blocked", 1)
	blocked := filepath.Join(s.Dir(), "consumequeue", "blocked")
	require.NoError(t, os.MkdirAll(filepath.Dir(blocked), 0o755))
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	mustSend(t, b, keyed("blocked", 0, "B"))
	for s.Stats().DispatchLag <= 2000 {
		mustSend(t, b, keyed("orders", 0, "A"))
	}
	return b, func() {
		require.NoError(t, os.Remove(blocked))
		close(gate)
		synctest.Wait()
	}
}

// TestMaxSendWait has a dispatcher that lags make puts wait: with a bound the
// answer is that the broker is busy, in time; without, it is the context's.
func TestMaxSendWait(t *testing.T) {
	for _, test := range []struct {
		bound, waited time.Duration
		code          protocol.ResponseCode
		text          string
	}{
		{200 * time.Millisecond, 200 * time.Millisecond, protocol.SystemBusy, "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: 200ms"},
		{0, 5 * time.Second, protocol.SystemError, "[PC_SYNCHRONIZED]broker busy, start flow control for a while"},
		{time.Minute, 5 * time.Second, protocol.SystemError, "[PC_SYNCHRONIZED]broker busy, start flow control for a while"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, letGo := lagging(t, Config{MaxSendWait: test.bound})
			end := b.store.MaxOffset()
			for range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				began := time.Now()
				resp, err := b.SendMessage(ctx, keyed("orders", 0, "A"))
				cancel()
				require.ErrorContains(t, err, test.text)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, test.code, resp.Code)
				require.True(t, protocol.Overloaded(err), "producers pause and try again")
				require.Equal(t, test.waited, time.Since(began))
				require.Equal(t, end, b.store.MaxOffset())
				require.Equal(t, test.code == protocol.SystemBusy, errors.Is(err, store.ErrBusy))
			}
			letGo()
			time.Sleep(2 * time.Second) // the dispatcher tries again
			mustSend(t, b, keyed("orders", 0, "A"))
			require.NoError(t, b.Close())
			require.NoError(t, b.store.Close())
		})
	}
}

// TestTraceTopic is made when it is wanted, once.
func TestTraceTopic(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	names := &NameService{}
	b := openBroker(t, Config{Store: s, NameService: names, TraceTopicEnable: true, NoAutoCreateTopic: true})
	want := protocol.TopicConfig{Name: protocol.TraceTopic, ReadQueueNums: 1, WriteQueueNums: 1, Perm: protocol.PermReadWrite}
	got, err := b.GetTopic(t.Context(), protocol.TraceTopic)
	require.NoError(t, err)
	require.Equal(t, want, got)
	route, err := names.RouteOfTopic(t.Context(), protocol.TraceTopic)
	require.NoError(t, err)
	require.Len(t, route.WriteQueues(protocol.TraceTopic), 1)
	send(t, b, protocol.TraceTopic, 0, "x")
	topics, err := b.ListTopics(t.Context())
	require.NoError(t, err)
	require.Empty(t, topics, "it is the system's")
	require.NoError(t, b.Close())
	b = openBroker(t, Config{Store: s, TraceTopicEnable: true})
	got, err = b.GetTopic(t.Context(), protocol.TraceTopic)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, b.Close())

	b = openBroker(t, Config{NoAutoCreateTopic: true})
	_, err = b.SendMessage(t.Context(), keyed(protocol.TraceTopic, 0, "A"))
	require.ErrorIs(t, err, protocol.TopicNotExist)
}
