package broker

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// clockedBroker is a broker whose store's clock, in ms, is the test's.
func clockedBroker(t *testing.T, cfg store.Config) (*Broker, *atomic.Int64) {
	t.Helper()
	now := &atomic.Int64{}
	now.Store(t0)
	cfg.Flush, cfg.SegmentSize, cfg.ConsumeQueueFileSize, cfg.MaxBodySize = store.FlushAsync, 1<<20, 100*20, 128<<10
	cfg.Now = func() time.Time { return time.UnixMilli(now.Load()) }
	s, err := store.Open(t.Context(), t.TempDir(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return openBroker(t, Config{Store: s}), now
}

const t0 = 1_700_000_000_000

func TestTopicStats(t *testing.T) {
	b, _ := clockedBroker(t, store.Config{})
	require.NoError(t, b.CreateTopic(t.Context(), protocol.TopicConfig{Name: "orders", ReadQueueNums: 3, WriteQueueNums: 2}))
	send(t, b, "orders", 1, "a")
	send(t, b, "orders", 1, "b")
	stats, err := b.TopicStats(t.Context(), "orders")
	require.NoError(t, err)
	require.Equal(t, []protocol.QueueStats{{QueueID: 0}, {QueueID: 1, MaxOffset: 2, LastUpdate: t0}, {QueueID: 2}}, stats)
	_, err = b.TopicStats(t.Context(), "unknown")
	require.ErrorIs(t, err, protocol.TopicNotExist)
}

func TestConsumeStats(t *testing.T) {
	b, _ := clockedBroker(t, store.Config{})
	createTopic(t, b, "orders", 2)
	createTopic(t, b, "bills", 1)
	for range 3 {
		send(t, b, "orders", 1, "x")
	}
	_, err := b.ConsumeStats(t.Context(), "billing", "")
	require.ErrorIs(t, err, protocol.SubscriptionGroupNotExist)
	update(t, b, 1, 2, false)
	want := []protocol.ConsumeStats{{Topic: "orders", QueueID: 0}, {Topic: "orders", QueueID: 1, BrokerOffset: 3, ConsumerOffset: 2, LastTimestamp: t0}}
	for _, topic := range []string{"", "orders"} {
		stats, err := b.ConsumeStats(t.Context(), "billing", topic)
		require.NoError(t, err)
		require.Equal(t, want, stats)
		require.EqualValues(t, 1, stats[1].Lag())
	}
	stats, err := b.ConsumeStats(t.Context(), "billing", "bills")
	require.NoError(t, err)
	require.Equal(t, []protocol.ConsumeStats{{Topic: "bills"}}, stats, "it has read nothing there")
	_, err = b.ConsumeStats(t.Context(), "billing", "unknown")
	require.ErrorIs(t, err, protocol.TopicNotExist)
	_, err = b.ConsumeStats(t.Context(), "a b", "")
	require.ErrorIs(t, err, message.ErrIllegal)
	update(t, b, 1, 99, false)
	stats, err = b.ConsumeStats(t.Context(), "billing", "orders")
	require.NoError(t, err)
	require.Zero(t, stats[1].Lag(), "an offset beyond the queue is at its end")
}

func TestGroups(t *testing.T) {
	s := openStore(t, t.TempDir())
	b, err := New(t.Context(), Config{Store: s})
	require.NoError(t, err)
	ctx := t.Context()
	createTopic(t, b, "orders", 2)
	send(t, b, "orders", 1, "x")
	update(t, b, 1, 1, false)
	custom := protocol.DefaultSubscriptionGroup("accounting")
	custom.RetryMaxTimes = 3
	require.NoError(t, b.UpdateSubscriptionGroup(ctx, custom))
	list := func() []protocol.SubscriptionGroupConfig {
		t.Helper()
		groups, err := b.ListGroups(ctx)
		require.NoError(t, err)
		return groups
	}
	require.Equal(t, []protocol.SubscriptionGroupConfig{custom, protocol.DefaultSubscriptionGroup("billing")}, list())

	require.ErrorIs(t, b.DeleteGroup(ctx, "unknown"), protocol.SubscriptionGroupNotExist)
	require.ErrorIs(t, b.DeleteGroup(ctx, ""), message.ErrIllegal)
	require.NoError(t, b.DeleteGroup(ctx, "billing"))
	require.Equal(t, "{\n\t\"offsetTable\":{}\n}", readOffsets(t, b), "on disk")
	require.Equal(t, []protocol.SubscriptionGroupConfig{custom}, list())
	_, err = query(t, b, 1)
	require.ErrorIs(t, err, protocol.QueryNotFound)
	require.NoError(t, b.DeleteGroup(ctx, "accounting"))
	require.ErrorIs(t, b.DeleteGroup(ctx, "accounting"), protocol.SubscriptionGroupNotExist)
	require.NoError(t, b.Close())
	b = openBroker(t, Config{Store: s})
	require.Empty(t, list())
}

func TestResetOffset(t *testing.T) {
	b, now := clockedBroker(t, store.Config{})
	createTopic(t, b, "orders", 2)
	for i := range 10 {
		now.Store(t0 + int64(i)*1000)
		send(t, b, "orders", int32(i%2), "x") // queue 0 at 0, 2, 4, …, queue 1 at 1, 3, 5, … s
	}
	reset := func(req protocol.ResetOffsetRequest) ([]protocol.QueuePosition, error) {
		req.Group, req.Topic = "billing", "orders"
		return b.ResetOffset(t.Context(), req)
	}
	at := func(a, b message.QueueOffset) []protocol.QueuePosition {
		return []protocol.QueuePosition{{QueueID: 0, Offset: a}, {QueueID: 1, Offset: b}}
	}
	_, err := reset(protocol.ResetOffsetRequest{})
	require.ErrorIs(t, err, protocol.SystemError)
	require.ErrorContains(t, err, "group billing has no offset in topic orders")

	for _, test := range []struct {
		name  string
		start []protocol.QueuePosition
		req   protocol.ResetOffsetRequest
		want  []protocol.QueuePosition
	}{
		{"new group", nil, protocol.ResetOffsetRequest{Time: t0 + 3000, Force: true}, at(2, 1)},
		{"back in time", at(5, 5), protocol.ResetOffsetRequest{Time: t0 + 3000}, at(2, 1)},
		{"not forward", at(1, 5), protocol.ResetOffsetRequest{Time: t0 + 3000}, at(1, 1)},
		{"forward", at(1, 0), protocol.ResetOffsetRequest{Time: t0 + 3000, Force: true}, at(2, 1)},
		{"to the beginning", at(5, 5), protocol.ResetOffsetRequest{}, at(0, 0)},
		{"to the end", at(1, 2), protocol.ResetOffsetRequest{Time: protocol.EndOfQueue, Force: true}, at(5, 5)},
		{"to the end, not forward", at(1, 2), protocol.ResetOffsetRequest{Time: protocol.EndOfQueue}, at(1, 2)},
		{"later than all", at(1, 2), protocol.ResetOffsetRequest{Time: t0 + 1e9, Force: true}, at(5, 5)},
		{"one queue", at(4, 4), protocol.ResetOffsetRequest{Positions: []protocol.QueuePosition{{QueueID: 1, Offset: 3}}}, at(4, 3)},
		{"one queue, not forward", at(4, 2), protocol.ResetOffsetRequest{Positions: []protocol.QueuePosition{{QueueID: 1, Offset: 3}}}, at(4, 2)},
		{"no queue", at(4, 2), protocol.ResetOffsetRequest{Positions: []protocol.QueuePosition{}}, at(4, 2)},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.start != nil {
				require.NoError(t, b.UpdateConsumerOffset(t.Context(), protocol.UpdateConsumerOffsetRequest{Group: "billing", Topic: "orders", Offsets: test.start}))
			}
			got, err := reset(test.req)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			require.Contains(t, readOffsets(t, b), fmt.Sprintf(`"orders@billing":{0:%d,1:%d`, got[0].Offset, got[1].Offset), "on disk")
		})
	}
	for text, req := range map[string]protocol.ResetOffsetRequest{
		"time (negative): -2 ms":                           {Time: -2, Force: true},
		"queue id: 2 (counted from 0), limit is 1":         {Positions: []protocol.QueuePosition{{QueueID: 2}}},
		"offset: 6 (queue offset), limit is 5":             {Positions: []protocol.QueuePosition{{QueueID: 1, Offset: 6}}},
		"offset: -1 (queue offset), at least 0 are needed": {Positions: []protocol.QueuePosition{{QueueID: 1, Offset: -1}}},
	} {
		_, err := reset(req)
		require.ErrorIs(t, err, protocol.SystemError)
		require.ErrorIs(t, err, message.ErrLimit)
		require.ErrorContains(t, err, text)
	}
	_, err = b.ResetOffset(t.Context(), protocol.ResetOffsetRequest{Group: "billing", Topic: "unknown"})
	require.ErrorIs(t, err, protocol.TopicNotExist)
	_, err = b.ResetOffset(t.Context(), protocol.ResetOffsetRequest{Group: "a b", Topic: "orders"})
	require.ErrorIs(t, err, message.ErrIllegal)
}

func TestSearchOffset(t *testing.T) {
	b, now := clockedBroker(t, store.Config{})
	createTopic(t, b, "orders", 1)
	for i := range 3 {
		now.Store(t0 + int64(i)*1000)
		send(t, b, "orders", 0, "x")
	}
	for time, want := range map[int64]message.QueueOffset{0: 0, t0: 0, t0 + 1: 1, t0 + 1000: 1, t0 + 2000: 2, t0 + 2001: 3} {
		off, err := b.SearchOffset(t.Context(), "orders", 0, time)
		require.NoError(t, err)
		require.Equal(t, want, off, time)
	}
	_, err := b.SearchOffset(t.Context(), "orders", 0, -1)
	require.ErrorContains(t, err, "time (negative): -1 ms")
	_, err = b.SearchOffset(t.Context(), "orders", 1, 0)
	require.ErrorIs(t, err, message.ErrLimit)
	require.NoError(t, b.DeleteTopic(t.Context(), "orders"))
	createTopic(t, b, "orders", 1)
	off, err := b.SearchOffset(t.Context(), "orders", 0, t0)
	require.NoError(t, err)
	require.EqualValues(t, 3, off, "not among what was deleted")
}

func TestCloneOffsets(t *testing.T) {
	b := openBroker(t, Config{})
	ctx := t.Context()
	createTopic(t, b, "orders", 2)
	createTopic(t, b, "bills", 1)
	send(t, b, "orders", 1, "x")
	update(t, b, 1, 1, false)
	require.NoError(t, b.UpdateConsumerOffset(ctx, protocol.UpdateConsumerOffsetRequest{Group: "billing", Topic: "bills", Offsets: []protocol.QueuePosition{{}}}))
	require.NoError(t, b.CloneOffsets(ctx, protocol.CloneOffsetsRequest{From: "billing", To: "one", Topic: "orders"}))
	require.NoError(t, b.CloneOffsets(ctx, protocol.CloneOffsetsRequest{From: "billing", To: "all"}))
	require.Equal(t, "{\n\t\"offsetTable\":{\n\t\t\"bills@all\":{0:0\n\t\t},\n\t\t\"bills@billing\":{0:0\n\t\t},\n\t\t\"orders@all\":{1:1\n\t\t},\n"+
		"\t\t\"orders@billing\":{1:1\n\t\t},\n\t\t\"orders@one\":{1:1\n\t\t}\n\t}\n}", readOffsets(t, b))
	for _, test := range []struct {
		req  protocol.CloneOffsetsRequest
		code protocol.ResponseCode
		text string
	}{
		{protocol.CloneOffsetsRequest{From: "unknown", To: "x"}, protocol.SystemError, "group unknown has no offsets to clone"},
		{protocol.CloneOffsetsRequest{From: "one", To: "x", Topic: "bills"}, protocol.SystemError, "no offsets to clone"},
		{protocol.CloneOffsetsRequest{From: "one", To: "x", Topic: "unknown"}, protocol.TopicNotExist, "unknown"},
		{protocol.CloneOffsetsRequest{From: "one"}, protocol.SystemError, "group \"\": is blank"},
		{protocol.CloneOffsetsRequest{To: "one"}, protocol.SystemError, "group \"\": is blank"},
	} {
		err := b.CloneOffsets(ctx, test.req)
		require.ErrorIs(t, err, test.code)
		require.ErrorContains(t, err, test.text)
	}
}

func TestQueryMessage(t *testing.T) {
	b, now := clockedBroker(t, store.Config{MaxQueryResults: 2})
	createTopic(t, b, "orders", 2)
	createTopic(t, b, "other", 1)
	const unique = "0A0000010001000000010000000A0000"
	for i, keys := range []string{"a b", "a", "c", "a"} {
		now.Store(t0 + int64(i)*1000)
		send(t, b, "orders", int32(i%2), fmt.Sprint(i), "KEYS", keys, "UNIQ_KEY", unique)
	}
	send(t, b, "other", 0, "other", "KEYS", "a "+unique)
	require.NoError(t, b.store.WaitIndexed(t.Context(), b.store.MaxOffset()))
	for _, test := range []struct {
		name string
		req  protocol.QueryMessageRequest
		want string // bodies; "" for none
	}{
		{"one", protocol.QueryMessageRequest{Key: "b"}, "0"},
		{"the newest, oldest first", protocol.QueryMessageRequest{Key: "a"}, "13"},
		{"fewer", protocol.QueryMessageRequest{Key: "a", MaxNum: 1}, "3"},
		{"from", protocol.QueryMessageRequest{Key: "a", Begin: t0 + 1001}, "3"},
		{"to", protocol.QueryMessageRequest{Key: "a", End: t0 + 1000}, "01"},
		{"between", protocol.QueryMessageRequest{Key: "a", Begin: t0 + 1000, End: t0 + 1000}, "1"},
		{"another topic", protocol.QueryMessageRequest{Topic: "other", Key: "a"}, "other"},
		{"none", protocol.QueryMessageRequest{Key: "d"}, ""},
		{"a unique key is no word", protocol.QueryMessageRequest{Key: unique}, ""},
		{"unique: the first one", protocol.QueryMessageRequest{Key: unique, Unique: true}, "0"},
		{"a word is no unique key", protocol.QueryMessageRequest{Key: "a", Unique: true}, ""},
		{"nor is it in another topic", protocol.QueryMessageRequest{Topic: "other", Key: unique, Unique: true}, ""},
		{"unique, in no form", protocol.QueryMessageRequest{Key: "x", Unique: true}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.req.Topic == "" {
				test.req.Topic = "orders"
			}
			found, err := b.QueryMessage(t.Context(), test.req)
			if test.want == "" {
				require.ErrorIs(t, err, protocol.QueryNotFound)
				require.ErrorContains(t, err, "no message with key "+test.req.Key)
				return
			}
			require.NoError(t, err)
			var got string
			for _, m := range found {
				require.Equal(t, test.req.Topic, m.Topic)
				got += string(m.Body)
			}
			require.Equal(t, test.want, got)
		})
	}
	for text, req := range map[string]protocol.QueryMessageRequest{
		"key \"\": is empty":                  {},
		"maxNum (negative): -1":               {Key: "a", MaxNum: -1},
		"begin (negative): -5 ms":             {Key: "a", Begin: -5},
		"end (negative): -5 ms":               {Key: "a", End: -5},
		"begin (after end): 3 ms, limit is 2": {Key: "a", Begin: 3, End: 2},
	} {
		req.Topic = "orders"
		_, err := b.QueryMessage(t.Context(), req)
		require.ErrorIs(t, err, protocol.SystemError)
		require.ErrorContains(t, err, text)
	}
	_, err := b.QueryMessage(t.Context(), protocol.QueryMessageRequest{Topic: "unknown", Key: "a"})
	require.ErrorIs(t, err, protocol.TopicNotExist)
}

// TestQueryUniqueOutsideItsTime finds a message by a unique key whose time is later
// than when it was stored: its producer lives in another time zone, say.
func TestQueryUniqueOutsideItsTime(t *testing.T) {
	b, _ := clockedBroker(t, store.Config{})
	createTopic(t, b, "orders", 1)
	made := time.Now().Add(-time.Minute) // years after the store's clock
	key := message.NewUniqueIDs(netip.Addr{}, 1, 2, func() time.Time { return made }).Next().String()
	send(t, b, "orders", 0, "x", "UNIQ_KEY", key)
	require.NoError(t, b.store.WaitIndexed(t.Context(), b.store.MaxOffset()))
	found, err := b.QueryMessage(t.Context(), protocol.QueryMessageRequest{Topic: "orders", Key: key, Unique: true})
	require.NoError(t, err)
	require.Len(t, found, 1)
}

func TestQueryWithoutIndex(t *testing.T) {
	b, _ := clockedBroker(t, store.Config{NoIndex: true})
	createTopic(t, b, "orders", 1)
	_, err := b.QueryMessage(t.Context(), protocol.QueryMessageRequest{Topic: "orders", Key: "a"})
	require.ErrorIs(t, err, store.ErrNoIndex)
	require.ErrorIs(t, err, protocol.SystemError)
}

// TestViewMessage hides a whole record, with its own place in it, in the body of
// another: only what begins in the log is a message.
func TestViewMessage(t *testing.T) {
	dir := t.TempDir()
	b := openBroker(t, Config{Store: openStore(t, dir)})
	ctx := t.Context()
	createTopic(t, b, "orders", 1)
	first := send(t, b, "orders", 0, "first", "KEYS", "k")
	m, err := b.ViewMessage(ctx, first.MessageID)
	require.NoError(t, err)
	require.Equal(t, "first", string(m.Body))
	require.Equal(t, first.MessageID, m.OffsetMessageID())

	log, err := os.ReadFile(dir + "/commitlog/00000000000000000000")
	require.NoError(t, err)
	size := binary.BigEndian.Uint32(log)
	record := log[:size]
	inBody := int64(size) + 88 // behind the fixed fields with IPv4 hosts, and the body's length
	binary.BigEndian.PutUint64(record[28:], uint64(inBody))
	second := send(t, b, "orders", 0, string(record))
	raw, err := b.store.LookMessageByOffset(ctx, message.LogOffset(inBody))
	require.NoError(t, err, "the store takes it for a message")
	require.Equal(t, "first", string(raw.Body))

	host := b.store.StoreHost()
	foreign := message.Host{Addr: netip.MustParseAddr("10.0.0.1"), Port: 10911}
	for _, test := range []struct {
		name  string
		id    message.OffsetMessageID
		cause error
	}{
		{"within a record", message.OffsetMessageID{Host: host, Offset: message.LogOffset(inBody)}, message.ErrOffsetNotFound},
		{"between", message.OffsetMessageID{Host: host, Offset: 1}, message.ErrOffsetNotFound},
		{"the end", message.OffsetMessageID{Host: host, Offset: b.store.MaxOffset()}, message.ErrOffsetNotFound},
		{"far behind", message.OffsetMessageID{Host: host, Offset: 1 << 60}, message.ErrOffsetNotFound},
		{"negative", message.OffsetMessageID{Host: host, Offset: -1}, message.ErrOffsetNotFound},
		{"another store", message.OffsetMessageID{Host: foreign, Offset: 0}, message.ErrIllegal},
		{"another store, and between", message.OffsetMessageID{Host: foreign, Offset: 1}, message.ErrIllegal},
	} {
		_, err := b.ViewMessage(ctx, test.id)
		require.ErrorIs(t, err, protocol.SystemError, test.name)
		require.ErrorIs(t, err, test.cause, test.name)
		require.ErrorContains(t, err, test.id.String())
	}

	f, err := os.OpenFile(dir+"/commitlog/00000000000000000000", os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("F"), 88)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = b.ViewMessage(ctx, first.MessageID)
	require.ErrorIs(t, err, message.ErrCorrupt)
	_, err = b.ViewMessage(ctx, second.MessageID)
	require.NoError(t, err)
}

// TestViewOfOtherBroker finds a message that was stored when another broker had the
// directory, by the id that it gave.
func TestViewOfOtherBroker(t *testing.T) {
	b := openBroker(t, Config{})
	var inner message.MessageExtBrokerInner
	inner.Topic, inner.Body, inner.StoreHost = "orders", []byte("x"), message.Host{Addr: netip.MustParseAddr("10.0.0.1"), Port: 10911}
	res, err := b.store.PutMessage(t.Context(), &inner)
	require.NoError(t, err)
	m, err := b.ViewMessage(t.Context(), message.OffsetMessageID{Host: inner.StoreHost, Offset: res.LogOffset})
	require.NoError(t, err)
	require.Equal(t, "x", string(m.Body))
	_, err = b.ViewMessage(t.Context(), message.OffsetMessageID{Host: b.host, Offset: res.LogOffset})
	require.ErrorIs(t, err, message.ErrIllegal)
}

// TestViewWithoutQueue finds what no consume queue knows by reading the log.
func TestViewWithoutQueue(t *testing.T) {
	b := openBroker(t, Config{})
	var inner message.MessageExtBrokerInner
	inner.Topic, inner.Body, inner.SysFlag = "half", []byte("half"), message.TransactionPrepared
	var ids []message.OffsetMessageID
	for range 3 {
		res, err := b.store.PutMessage(t.Context(), &inner)
		require.NoError(t, err)
		ids = append(ids, message.OffsetMessageID{Host: res.StoreHost, Offset: res.LogOffset})
	}
	for _, id := range ids {
		m, err := b.ViewMessage(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, id, m.OffsetMessageID())
	}
}

func TestRuntimeInfo(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Date(2026, 3, 10, 23, 59, 0, 0, time.UTC).UnixMilli())
	pass := func(d time.Duration) { now.Add(d.Milliseconds()) }
	b := openBroker(t, Config{Now: func() time.Time { return time.UnixMilli(now.Load()).UTC() }})
	createTopic(t, b, "orders", 1)
	info := func() map[string]string {
		t.Helper()
		info, err := b.RuntimeInfo(t.Context())
		require.NoError(t, err)
		return info
	}
	has := func(info map[string]string, want map[string]string) {
		t.Helper()
		for k, v := range want {
			require.Equal(t, v, info[k], k)
		}
	}
	for range 30 {
		send(t, b, "orders", 0, "x")
	}
	has(info(), map[string]string{"putTps": "0.0000 0.0000 0.0000", "msgPutTotalTodayNow": "30"})
	pass(30 * time.Second)
	has(info(), map[string]string{"putTps": "1.0000 1.0000 1.0000", "getTransferedTps": "0.0000 0.0000 0.0000", "msgPutTotalTodayNow": "30", "msgPutTotalTodayMorning": "0"})
	for range 50 {
		send(t, b, "orders", 0, "x")
	}
	_, ms := pull(t, b, protocol.PullMessageRequest{Topic: "orders", MaxMessages: 20})
	require.Len(t, ms, 20)
	pass(10 * time.Second)
	has(info(), map[string]string{"putTps": "5.0000 2.0000 2.0000", "getTransferedTps": "2.0000 0.5000 0.5000"})
	pass(20 * time.Minute) // the next day
	last := info()
	has(last, map[string]string{
		"putTps": "0.0000 0.0000 0.0000", "msgPutTotalTodayNow": "80", "msgPutTotalTodayMorning": "80", "msgPutTotalYesterdayMorning": "0",
		"msgGetTotalTodayNow": "20", "msgGetTotalTodayMorning": "20", "msgGetTotalYesterdayMorning": "0",
		"putMessageTimesTotal": "80", "putMessageFailedTimes": "0", "commitLogMinOffset": "0",
		"commitLogMaxOffset": strconv.FormatInt(int64(b.store.MaxOffset()), 10), "dispatchBehindBytes": "0",
		"runtime": "[ 0 days, 0 hours, 20 minutes, 40 seconds ]",
	})
	require.NotEmpty(t, last[protocol.InfoVersion])
	for _, key := range []string{"putTps", "getTransferedTps", "getFoundTps", "getTotalTps"} {
		require.Regexp(t, regexp.MustCompile(`^\d+\.\d+ \d+\.\d+ \d+\.\d+$`), last[key], key)
	}
	send(t, b, "orders", 0, "later", message.PropertyDelayLevel, "3")
	has(info(), map[string]string{"scheduleMessageOffset_3": "0,1"})
	require.NoError(t, b.Close())
	_, err := b.RuntimeInfo(t.Context())
	require.ErrorIs(t, err, message.ErrClosed)
}

// TestAdminOfClosedBroker asks everything of a broker that is closed.
func TestAdminOfClosedBroker(t *testing.T) {
	b := openBroker(t, Config{})
	createTopic(t, b, "orders", 1)
	require.NoError(t, b.Close())
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"TopicStats":   func() error { _, err := b.TopicStats(ctx, "orders"); return err },
		"SearchOffset": func() error { _, err := b.SearchOffset(ctx, "orders", 0, 0); return err },
		"ListGroups":   func() error { _, err := b.ListGroups(ctx); return err },
		"DeleteGroup":  func() error { return b.DeleteGroup(ctx, "g") },
		"ConsumeStats": func() error { _, err := b.ConsumeStats(ctx, "g", ""); return err },
		"ResetOffset": func() error {
			_, err := b.ResetOffset(ctx, protocol.ResetOffsetRequest{Group: "g", Topic: "orders"})
			return err
		},
		"CloneOffsets": func() error { return b.CloneOffsets(ctx, protocol.CloneOffsetsRequest{From: "a", To: "b"}) },
		"QueryMessage": func() error {
			_, err := b.QueryMessage(ctx, protocol.QueryMessageRequest{Topic: "orders", Key: "k"})
			return err
		},
		"ViewMessage": func() error { _, err := b.ViewMessage(ctx, message.OffsetMessageID{}); return err },
	} {
		err := call()
		require.ErrorIs(t, err, protocol.ServiceNotAvailable, name)
		require.ErrorIs(t, err, message.ErrClosed, name)
	}
}
