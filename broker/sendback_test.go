package broker

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// TestRetryTimetable sends a message back each time it comes: it does 16 times,
// later and later, and then it is a dead letter.
func TestRetryTimetable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{Flush: store.FlushAsync})
		b := openBroker(t, Config{Store: s})
		createTopic(t, b, "orders", 2)
		sent := send(t, b, "orders", 1, "m", "TAGS", "red", "UNIQ_KEY", "U", "TRAN_MSG", "false")
		off := s.MinOffset()
		m, err := s.LookMessageByOffset(t.Context(), off)
		require.NoError(t, err)
		for times, wait := range []int{10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200} {
			require.EqualValues(t, times, m.ReconsumeTimes)
			require.NoError(t, b.SendMessageBack(t.Context(), protocol.SendMessageBackRequest{Group: "g", Offset: m.LogOffset}))
			_, ms := pull(t, b, protocol.PullMessageRequest{Topic: "%RETRY%g", Offset: message.QueueOffset(times)})
			require.Empty(t, ms)
			time.Sleep(time.Duration(wait)*time.Second - time.Millisecond)
			synctest.Wait()
			_, ms = pull(t, b, protocol.PullMessageRequest{Topic: "%RETRY%g", Offset: message.QueueOffset(times)})
			require.Empty(t, ms, "1 ms before time %d", times+1)
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			require.NoError(t, s.WaitDispatched(t.Context(), s.MaxOffset()))
			_, ms = pull(t, b, protocol.PullMessageRequest{Topic: "%RETRY%g", Offset: message.QueueOffset(times)})
			require.Len(t, ms, 1, "time %d", times+1)
			m = ms[0]
			require.Equal(t, "m", string(m.Body))
			require.Equal(t, message.Properties("TAGS\x01red\x02UNIQ_KEY\x01U\x02CLUSTER\x01DefaultCluster\x02RETRY_TOPIC\x01orders\x02ORIGIN_MESSAGE_ID\x01"+
				sent.MessageID.String()+"\x02DELAY\x01"+strconv.Itoa(times+3)+"\x02REAL_TOPIC\x01%RETRY%g\x02REAL_QID\x010"), m.Properties)
		}
		require.NoError(t, b.SendMessageBack(t.Context(), protocol.SendMessageBackRequest{Group: "g", Offset: m.LogOffset}))
		require.NoError(t, s.WaitDispatched(t.Context(), s.MaxOffset()))
		_, ms := pull(t, b, protocol.PullMessageRequest{Topic: "%DLQ%g"})
		require.Len(t, ms, 1)
		require.EqualValues(t, 17, ms[0].ReconsumeTimes)
		for name, want := range map[string]string{
			"DELAY": "0", "RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": sent.MessageID.String(),
			"DLQ_ORIGIN_TOPIC": "orders", "DLQ_ORIGIN_MESSAGE_ID": sent.MessageID.String(), "UNIQ_KEY": "U",
		} {
			got, _ := ms[0].Properties.Get(name)
			require.Equal(t, want, got, name)
		}
		for _, topic := range []string{"%RETRY%g", "%DLQ%g"} {
			cfg, err := b.GetTopic(t.Context(), topic)
			require.NoError(t, err)
			require.Equal(t, protocol.TopicConfig{Name: topic, ReadQueueNums: 1, WriteQueueNums: 1, Perm: protocol.PermReadWrite}, cfg)
		}
		require.Empty(t, bodies(t, s, message.HalfTopic, 0))
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}

// TestSendBackChoices: level, maximum, and what is refused.
func TestSendBackChoices(t *testing.T) {
	b := openBroker(t, Config{NoAutoCreateGroup: true})
	createTopic(t, b, "orders", 1)
	send(t, b, "orders", 0, "m")
	group := func(name string, change func(*protocol.SubscriptionGroupConfig)) {
		cfg := protocol.DefaultSubscriptionGroup(name)
		if change != nil {
			change(&cfg)
		}
		require.NoError(t, b.UpdateSubscriptionGroup(t.Context(), cfg))
	}
	group("g", nil)
	group("few", func(c *protocol.SubscriptionGroupConfig) { c.RetryMaxTimes = 0 })
	group("none", func(c *protocol.SubscriptionGroupConfig) { c.RetryQueueNums = 0 })
	group("closed", nil)
	require.NoError(t, b.CreateTopic(t.Context(), protocol.TopicConfig{Name: "%RETRY%closed", ReadQueueNums: 1, WriteQueueNums: 1, Perm: protocol.PermRead}))
	group(strings.Repeat("x", 121), nil)
	back := func(req protocol.SendMessageBackRequest) error {
		before := b.store.MaxOffset()
		err := b.SendMessageBack(t.Context(), req)
		require.NoError(t, b.store.WaitDispatched(t.Context(), b.store.MaxOffset()))
		if err != nil {
			require.Equal(t, before, b.store.MaxOffset())
		}
		return err
	}
	const parkedQueues = 18
	for level, want := range map[int]int32{0: 2, 1: 0, 18: 17, 99: 17} {
		before := b.store.MaxOffsetInQueue(message.ScheduleTopic, want)
		require.NoError(t, back(protocol.SendMessageBackRequest{Group: "g", DelayLevel: level}))
		require.Equal(t, before+1, b.store.MaxOffsetInQueue(message.ScheduleTopic, want), "level %d", level)
		require.Less(t, want, int32(parkedQueues))
	}
	require.NoError(t, back(protocol.SendMessageBackRequest{Group: "g", DelayLevel: -1}))
	require.Len(t, bodies(t, b.store, "%DLQ%g", 0), 1)
	require.NoError(t, back(protocol.SendMessageBackRequest{Group: "few"}))
	require.Len(t, bodies(t, b.store, "%DLQ%few", 0), 1)
	require.NoError(t, back(protocol.SendMessageBackRequest{Group: "few", MaxReconsumeTimes: 1}))
	require.Len(t, bodies(t, b.store, "%DLQ%few", 0), 1)
	before := b.store.MaxOffset()
	require.NoError(t, back(protocol.SendMessageBackRequest{Group: "none"}))
	require.Equal(t, before, b.store.MaxOffset())

	parked, ok := b.store.CommitLogOffsetInQueue(message.ScheduleTopic, 2, 0)
	require.True(t, ok)
	for name, test := range map[string]struct {
		req  protocol.SendMessageBackRequest
		code protocol.ResponseCode
		text string
	}{
		"unknown group":  {protocol.SendMessageBackRequest{Group: "other"}, protocol.SubscriptionGroupNotExist, "other"},
		"bad group":      {protocol.SendMessageBackRequest{Group: "a@b"}, protocol.SystemError, "character"},
		"long group":     {protocol.SendMessageBackRequest{Group: strings.Repeat("x", 121)}, protocol.SystemError, "limit is 120"},
		"no message":     {protocol.SendMessageBackRequest{Group: "g", Offset: 7}, protocol.SystemError, "look message by offset failed"},
		"parked message": {protocol.SendMessageBackRequest{Group: "g", Offset: parked}, protocol.SystemError, "reserved"},
		"closed topic":   {protocol.SendMessageBackRequest{Group: "closed"}, protocol.NoPermission, "R--"},
	} {
		err := back(test.req)
		require.ErrorIs(t, err, test.code, name)
		require.ErrorContains(t, err, test.text, name)
	}
	require.NoError(t, b.Close())
	require.ErrorIs(t, b.SendMessageBack(t.Context(), protocol.SendMessageBackRequest{Group: "g"}), message.ErrClosed)
}

// TestSendBackOfTheLargestMessage: what is added does not count for its size.
func TestSendBackOfTheLargestMessage(t *testing.T) {
	b := openBroker(t, Config{})
	createTopic(t, b, "orders", 1)
	body := strings.Repeat("x", b.store.MaxBodySize())
	send(t, b, "orders", 0, body, "TRAN_MSG", "false")
	require.NoError(t, b.SendMessageBack(t.Context(), protocol.SendMessageBackRequest{Group: "g", DelayLevel: -1}))
	require.Equal(t, []string{body}, bodies(t, b.store, "%DLQ%g", 0))
}

// TestFailedSendBack is an error, and stores nothing.
func TestFailedSendBack(t *testing.T) {
	b := openBroker(t, Config{})
	createTopic(t, b, "orders", 1)
	send(t, b, "orders", 0, "m")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.SendMessageBack(ended, protocol.SendMessageBackRequest{Group: "g"}), protocol.SystemError)
	require.NoError(t, b.store.Close())
	require.Error(t, b.SendMessageBack(t.Context(), protocol.SendMessageBackRequest{Group: "g"}))
}

// TestSendToRetryTopic is what a consumer does that can not send back, and one
// that consumes in order.
func TestSendToRetryTopic(t *testing.T) {
	for name, test := range map[string]struct {
		times, most int32
		properties  message.Properties
		topic       string
		want        int32
		code        protocol.ResponseCode
	}{
		"first":                {0, 0, "", "%RETRY%g", 0, protocol.Success},
		"at the maximum":       {16, 0, "", "%RETRY%g", 16, protocol.Success},
		"beyond":               {17, 0, "DELAY\x013", "%DLQ%g", 17, protocol.Success},
		"own maximum":          {3, 2, "", "%DLQ%g", 3, protocol.Success},
		"properties":           {0, 0, "RECONSUME_TIME\x015\x02MAX_RECONSUME_TIMES\x015", "%RETRY%g", 5, protocol.Success},
		"properties, beyond":   {0, 0, "RECONSUME_TIME\x016\x02MAX_RECONSUME_TIMES\x015", "%DLQ%g", 6, protocol.Success},
		"property is a word":   {0, 0, "RECONSUME_TIME\x01x", "", 0, protocol.MessageIllegal},
		"property is negative": {0, 0, "MAX_RECONSUME_TIMES\x01-1", "", 0, protocol.MessageIllegal},
	} {
		t.Run(name, func(t *testing.T) {
			b := openBroker(t, Config{NoClusterProperty: true})
			resp, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{
				Message:        message.Message{Topic: "%RETRY%g", Body: []byte("m"), Properties: test.properties},
				ReconsumeTimes: test.times, MaxReconsumeTimes: test.most,
			})
			require.Equal(t, test.code, resp.Code)
			if test.code != protocol.Success {
				require.ErrorIs(t, err, test.code)
				require.Empty(t, b.store.Queues())
				return
			}
			require.NoError(t, err)
			require.NoError(t, b.store.WaitDispatched(t.Context(), b.store.MaxOffset()))
			_, ms := pull(t, b, protocol.PullMessageRequest{Topic: test.topic})
			require.Len(t, ms, 1)
			require.Equal(t, test.want, ms[0].ReconsumeTimes)
			for _, name := range []string{"RECONSUME_TIME", "MAX_RECONSUME_TIMES"} {
				_, ok := ms[0].Properties.Get(name)
				require.False(t, ok)
			}
		})
	}
	b := openBroker(t, Config{NoAutoCreateGroup: true})
	_, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{Message: message.Message{Topic: "%RETRY%g", Body: []byte("m")}})
	require.ErrorIs(t, err, protocol.SubscriptionGroupNotExist)
}

// TestGroupsFile has RocketMQ's form, and keeps what is not known.
func TestGroupsFile(t *testing.T) {
	s := openStore(t, t.TempDir())
	require.NoError(t, s.WriteConfig(groupsFile, []byte(`{"dataVersion":{"counter":1,"timestamp":1650000000000},"later":1,
		"subscriptionGroupTable":{"old":{"consumeEnable":false,"groupName":"old","retryMaxTimes":3,"attributes":{}}}}`)))
	b := openBroker(t, Config{Store: s, Now: fixed(1700000000000)})
	old, err := b.GetSubscriptionGroup(t.Context(), "old")
	require.NoError(t, err)
	want := protocol.DefaultSubscriptionGroup("old")
	want.ConsumeEnable, want.RetryMaxTimes = false, 3
	require.Equal(t, want, old)
	_, err = b.GetSubscriptionGroup(t.Context(), "billing")
	require.ErrorIs(t, err, protocol.SubscriptionGroupNotExist)
	require.NoError(t, b.UpdateSubscriptionGroup(t.Context(), protocol.DefaultSubscriptionGroup("billing")))
	text, err := os.ReadFile(configFile(s, groupsFile))
	require.NoError(t, err)
	require.Equal(t, `{
	"dataVersion":{
		"counter":2,
		"timestamp":1700000000000
	},
	"later":1,
	"subscriptionGroupTable":{
		"billing":{
			"brokerId":0,
			"consumeBroadcastEnable":true,
			"consumeEnable":true,
			"consumeFromMinEnable":true,
			"groupName":"billing",
			"notifyConsumerIdsChangedEnable":true,
			"retryMaxTimes":16,
			"retryQueueNums":1,
			"whichBrokerWhenConsumeSlowly":1
		},
		"old":{
			"attributes":{},
			"consumeEnable":false,
			"groupName":"old",
			"retryMaxTimes":3
		}
	}
}`, string(text))
	require.NoError(t, b.Close())
	b = openBroker(t, Config{Store: s})
	again, err := b.GetSubscriptionGroup(t.Context(), "billing")
	require.NoError(t, err)
	require.Equal(t, protocol.DefaultSubscriptionGroup("billing"), again)

	createTopic(t, b, "orders", 1)
	_, err = b.PullMessage(t.Context(), protocol.PullMessageRequest{Group: "old", Topic: "orders"})
	require.ErrorIs(t, err, protocol.NoPermission)
	require.ErrorIs(t, b.UpdateSubscriptionGroup(t.Context(), protocol.SubscriptionGroupConfig{Name: "x", RetryMaxTimes: -1}), message.ErrLimit)
	require.ErrorIs(t, b.UpdateSubscriptionGroup(t.Context(), protocol.SubscriptionGroupConfig{Name: "x", RetryQueueNums: MaxQueueNums + 1}), message.ErrLimit)
	require.ErrorIs(t, b.UpdateSubscriptionGroup(t.Context(), protocol.SubscriptionGroupConfig{Name: "a@b"}), message.ErrIllegal)
	require.NoError(t, b.Close())

	for range 2 { // the file and its backup
		require.NoError(t, s.WriteConfig(groupsFile, []byte(`{"subscriptionGroupTable":{"g":{"retryMaxTimes":"x"}}}`)))
	}
	_, err = New(t.Context(), Config{Store: s})
	require.ErrorIs(t, err, message.ErrCorrupt)
	require.ErrorContains(t, err, "retryMaxTimes")
}
