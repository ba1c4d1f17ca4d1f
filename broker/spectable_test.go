package broker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// refusals is a broker with the topics that the tables need.
func refusals(t *testing.T, cfg Config) *Broker {
	t.Helper()
	b := openBroker(t, cfg)
	createTopic(t, b, "orders", 4)
	for _, topic := range []protocol.TopicConfig{
		{Name: "readonly", ReadQueueNums: 1, WriteQueueNums: 1, Perm: protocol.PermRead},
		{Name: "shrinking", ReadQueueNums: 4, WriteQueueNums: 2},
		{Name: "growing", ReadQueueNums: 2, WriteQueueNums: 4},
	} {
		require.NoError(t, b.CreateTopic(t.Context(), topic))
	}
	return b
}

// TestPreSendTable has the checks before a message is stored, in their order: the
// code, and that nothing is stored.
func TestPreSendTable(t *testing.T) {
	plain := func(topic string, queueID int32) protocol.SendMessageRequest {
		return protocol.SendMessageRequest{Message: message.Message{Topic: topic, Body: []byte("x")}, QueueID: queueID}
	}
	now := time.UnixMilli(1e12)
	for _, row := range []struct {
		name string
		cfg  Config
		req  protocol.SendMessageRequest
		code protocol.ResponseCode
	}{
		{"before the time to accept", Config{AcceptSendFrom: now.Add(time.Second)}, plain("a!", 0), protocol.SystemError},
		{"broker not writable, any topic", Config{Permission: protocol.PermRead}, plain("orders", 0), protocol.NoPermission},
		{"blank topic", Config{}, plain("", 0), protocol.SystemError},
		{"illegal character", Config{}, plain("a.b", 0), protocol.SystemError},
		{"long topic", Config{}, plain(strings.Repeat("t", 128), 0), protocol.SystemError},
		{"topic not allowed", Config{}, plain("SCHEDULE_TOPIC_XXXX", 0), protocol.NoPermission},
		{"topic does not exist", Config{NoAutoCreateTopic: true}, plain("letters", 0), protocol.TopicNotExist},
		{"topic not writable", Config{}, plain("readonly", 0), protocol.NoPermission},
		{"queue id too high", Config{}, plain("orders", 4), protocol.SystemError},
		{"queue id too high for both numbers", Config{}, plain("shrinking", 4), protocol.SystemError},
		{"queue id of readers", Config{}, plain("shrinking", 3), protocol.Success},
		{"queue id of writers", Config{}, plain("growing", 3), protocol.Success},
		{"topic is made", Config{}, plain("letters", 3), protocol.Success},
		{"retry topic is made without a template", Config{NoAutoCreateTopic: true}, plain("%RETRY%g", 0), protocol.Success},
		{"retry topic of an unknown group", Config{NoAutoCreateGroup: true}, plain("%RETRY%g", 0), protocol.SubscriptionGroupNotExist},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.cfg.Now = func() time.Time { return now }
			b := refusals(t, row.cfg)
			resp, err := b.SendMessage(t.Context(), row.req)
			require.Equal(t, row.code, resp.Code, err)
			require.Equal(t, row.code, protocol.CodeOf(err))
			require.Equal(t, row.code == protocol.Success, b.store.MaxOffset() > 0)
		})
	}
}

// TestBrokerTopicTable: names that no topic has are a SystemError on send and on
// creation, those of the system on creation.
func TestBrokerTopicTable(t *testing.T) {
	b := refusals(t, Config{Name: "a", Cluster: "c"})
	for _, row := range []struct {
		topic        string
		send, create protocol.ResponseCode
	}{
		{" ", protocol.SystemError, protocol.SystemError},
		{"a.b", protocol.SystemError, protocol.SystemError},
		{strings.Repeat("t", 128), protocol.SystemError, protocol.SystemError},
		{"TBW102", protocol.Success, protocol.SystemError},
		{"SCHEDULE_TOPIC_XXXX", protocol.NoPermission, protocol.SystemError},
		{"RMQ_SYS_TRANS_HALF_TOPIC", protocol.NoPermission, protocol.SystemError},
		{"RMQ_SYS_TRANS_OP_HALF_TOPIC", protocol.NoPermission, protocol.SystemError},
		{"TRANS_CHECK_MAX_TIME_TOPIC", protocol.NoPermission, protocol.SystemError},
		{"SELF_TEST_TOPIC", protocol.NoPermission, protocol.SystemError},
		{"OFFSET_MOVED_EVENT", protocol.NoPermission, protocol.SystemError},
		{"BenchmarkTest", protocol.Success, protocol.SystemError},
		{"RMQ_SYS_TRACE_TOPIC", protocol.Success, protocol.SystemError},
		{"rmq_sys_wheel_timer", protocol.NoPermission, protocol.SystemError},
		{"a", protocol.Success, protocol.SystemError},
		{"c", protocol.Success, protocol.SystemError},
		{"c_REPLY_TOPIC", protocol.Success, protocol.SystemError},
		{"letters", protocol.Success, protocol.Success},
	} {
		t.Run(row.topic, func(t *testing.T) {
			err := b.CreateTopic(t.Context(), protocol.TopicConfig{Name: row.topic, ReadQueueNums: 1, WriteQueueNums: 1})
			require.Equal(t, row.create, protocol.CodeOf(err))
			before := b.store.MaxOffset()
			resp, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{Message: message.Message{Topic: row.topic, Body: []byte("x")}})
			require.Equal(t, row.send, resp.Code, err)
			require.Equal(t, row.send == protocol.Success, b.store.MaxOffset() > before)
		})
	}
}

// TestAdmissionTable has what the store refuses, by the code that clients see.
func TestAdmissionTable(t *testing.T) {
	long := message.Properties("a\x01" + strings.Repeat("x", message.MaxPropertiesLength-1))
	for _, row := range []struct {
		name  string
		body  []byte
		props message.Properties
		close bool
		code  protocol.ResponseCode
	}{
		{"store shut down", []byte("x"), "", true, protocol.ServiceNotAvailable},
		{"properties too long", []byte("x"), long, false, protocol.MessageIllegal},
		{"body too long", make([]byte, 128<<10+1), "", false, protocol.MessageIllegal},
		{"body as long as can be", make([]byte, 128<<10), "", false, protocol.Success},
		{"no body", nil, "", false, protocol.MessageIllegal},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := refusals(t, Config{})
			if row.close {
				require.NoError(t, b.store.Close())
			}
			resp, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{Message: message.Message{Topic: "orders", Body: row.body, Properties: row.props}})
			require.Equal(t, row.code, resp.Code, err)
			require.Equal(t, row.code, protocol.CodeOf(err))
			require.Equal(t, row.code == protocol.Success, b.store.MaxOffset() > 0)
		})
	}
}

// TestBatchTable has what a batch may not be, at the broker.
func TestBatchTable(t *testing.T) {
	element := func(p message.Properties, body string) []byte {
		b, err := message.AppendBatchElement(nil, &message.Message{Body: []byte(body), Properties: p})
		require.NoError(t, err)
		return b
	}
	for _, row := range []struct {
		name  string
		topic string
		body  []byte
		props message.Properties
		code  protocol.ResponseCode
	}{
		{"long topic", strings.Repeat("t", 128), element("", "x"), "", protocol.SystemError},
		{"delay in the request", "orders", element("", "x"), "DELAY\x011", protocol.MessageIllegal},
		{"delay level 0", "orders", element("", "x"), "DELAY\x010", protocol.Success},
		{"delay of an element", "orders", element("DELAY\x011", "x"), "", protocol.MessageIllegal},
		{"empty", "orders", nil, "", protocol.MessageIllegal},
		{"torn", "orders", element("", "x")[:10], "", protocol.MessageIllegal},
		{"too large", "orders", element("", strings.Repeat("x", 128<<10)), "", protocol.MessageIllegal},
		{"properties for all", "orders", append(element("a\x01b", "x"), element("", "y")...), "c\x01d", protocol.Success},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := refusals(t, Config{NoClusterProperty: true})
			resp, err := b.SendMessageBatch(t.Context(), protocol.SendMessageBatchRequest{SendMessageRequest: protocol.SendMessageRequest{
				Message: message.Message{Topic: row.topic, Body: row.body, Properties: row.props}, QueueID: 2,
			}})
			require.Equal(t, row.code, resp.Code, err)
			require.Equal(t, row.code == protocol.Success, b.store.MaxOffset() > 0)
			if row.name == "properties for all" {
				var got []message.Properties
				require.NoError(t, b.store.WaitDispatched(t.Context(), b.store.MaxOffset()))
				for v, err := range b.store.Messages(t.Context(), store.GetQuery{Topic: "orders", QueueID: 2}) {
					require.NoError(t, err)
					got = append(got, message.Properties(v.Properties()))
				}
				require.Equal(t, []message.Properties{"a\x01b\x02c\x01d", "c\x01d"}, got)
			}
		})
	}
}

// TestRetryTopicTable is a normal send to a retry topic: how often it may come, and
// what becomes of it then.
func TestRetryTopicTable(t *testing.T) {
	for _, row := range []struct {
		name        string
		times, most int32 // of the request
		props       message.Properties
		dead        bool
		stored      int32 // reconsumeTimes
	}{
		{"below the group's", 15, 0, "", false, 15},
		{"as many as the group's", 16, 0, "", false, 16},
		{"more than the group's", 17, 0, "", true, 17},
		{"as many as the request's", 3, 3, "", false, 3},
		{"more than the request's", 4, 3, "DELAY\x013", true, 4},
		{"by the property", 0, 0, "RECONSUME_TIME\x0117", true, 17},
		{"by both properties", 0, 0, "RECONSUME_TIME\x013\x02MAX_RECONSUME_TIMES\x013", false, 3},
		{"beyond both properties", 0, 0, "RECONSUME_TIME\x014\x02MAX_RECONSUME_TIMES\x013", true, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := refusals(t, Config{NoClusterProperty: true})
			resp, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{
				Message:        message.Message{Topic: "%RETRY%g", Body: []byte("x"), Properties: row.props},
				ReconsumeTimes: row.times, MaxReconsumeTimes: row.most,
			})
			require.NoError(t, err)
			m, err := b.store.LookMessageByOffset(t.Context(), resp.MessageID.Offset)
			require.NoError(t, err)
			want := "%RETRY%g"
			if row.dead {
				want = "%DLQ%g"
				delay, _ := m.Properties.Get("DELAY")
				require.Equal(t, "0", delay)
			}
			require.Equal(t, want, m.Topic)
			require.Equal(t, row.stored, m.ReconsumeTimes)
			for _, name := range []string{"RECONSUME_TIME", "MAX_RECONSUME_TIMES"} {
				_, ok := m.Properties.Get(name)
				require.False(t, ok, name)
			}
		})
	}
}

// TestSendBackTable has the outcomes of sending a message back.
func TestSendBackTable(t *testing.T) {
	type request = protocol.SendMessageBackRequest
	for _, row := range []struct {
		name   string
		cfg    Config
		group  *protocol.SubscriptionGroupConfig
		req    request
		before int32 // how often the message came
		code   protocol.ResponseCode
		topic  string // where it goes; empty: nowhere
		level  string
	}{
		{"unknown group", Config{NoAutoCreateGroup: true}, nil, request{}, 0, protocol.SubscriptionGroupNotExist, "", ""},
		{"broker not writable", Config{Permission: protocol.PermRead}, nil, request{}, 0, protocol.NoPermission, "", ""},
		{"no retry queues", Config{}, &protocol.SubscriptionGroupConfig{Name: "g", ConsumeEnable: true}, request{}, 0, protocol.Success, "", ""},
		{"no message there", Config{}, nil, request{Offset: 1 << 30}, 0, protocol.SystemError, "", ""},
		{"first failure", Config{}, nil, request{}, 0, protocol.Success, "%RETRY%g", "3"},
		{"second failure", Config{}, nil, request{}, 1, protocol.Success, "%RETRY%g", "4"},
		{"16th failure", Config{}, nil, request{}, 15, protocol.Success, "%RETRY%g", "18"},
		{"17th failure", Config{}, nil, request{}, 16, protocol.Success, "%DLQ%g", "0"},
		{"own level", Config{}, nil, request{DelayLevel: 7}, 5, protocol.Success, "%RETRY%g", "7"},
		{"negative level", Config{}, nil, request{DelayLevel: -1}, 0, protocol.Success, "%DLQ%g", "0"},
		{"own maximum", Config{}, nil, request{MaxReconsumeTimes: 2}, 2, protocol.Success, "%DLQ%g", "0"},
		{"below the own maximum", Config{}, nil, request{MaxReconsumeTimes: 20}, 16, protocol.Success, "%RETRY%g", "18"},
		{"group without retries", Config{}, &protocol.SubscriptionGroupConfig{Name: "g", ConsumeEnable: true, RetryQueueNums: 1}, request{}, 0, protocol.Success, "%DLQ%g", "0"},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := refusals(t, row.cfg)
			if row.group != nil {
				require.NoError(t, b.UpdateSubscriptionGroup(t.Context(), *row.group))
			}
			original := message.MessageExtBrokerInner{MessageExt: message.MessageExt{
				Message:        message.Message{Topic: "orders", Flag: 7, Body: []byte("x"), Properties: "TAGS\x01red\x02UNIQ_KEY\x01U"},
				ReconsumeTimes: row.before, BornTimestamp: 1234, BornHost: b.host,
			}}
			res, err := b.store.PutMessage(t.Context(), &original)
			require.NoError(t, err)
			end := b.store.MaxOffset()
			row.req.Group = "g"
			if row.req.Offset == 0 {
				row.req.Offset = res.LogOffset
			}
			require.Equal(t, row.code, protocol.CodeOf(b.SendMessageBack(t.Context(), row.req)))
			if row.topic == "" {
				require.Equal(t, end, b.store.MaxOffset())
				return
			}
			m, err := b.store.LookMessageByOffset(t.Context(), end)
			require.NoError(t, err)
			topic := m.Topic
			if topic == message.ScheduleTopic {
				topic, _ = m.Properties.Get("REAL_TOPIC")
			}
			require.Equal(t, row.topic, topic)
			for name, want := range map[string]string{
				"DELAY": row.level, "RETRY_TOPIC": "orders", "TAGS": "red", "UNIQ_KEY": "U",
				"ORIGIN_MESSAGE_ID": message.OffsetMessageID{Host: res.StoreHost, Offset: res.LogOffset}.String(),
			} {
				got, _ := m.Properties.Get(name)
				require.Equal(t, want, got, name)
			}
			require.Equal(t, row.before+1, m.ReconsumeTimes)
			require.Equal(t, original.Body, m.Body)
			require.Equal(t, original.Flag, m.Flag)
			require.EqualValues(t, 1234, m.BornTimestamp)
		})
	}
}

// TestPropertyTable has the properties that the broker sets and clears: what is in
// the log of a message that was sent, and when it was delivered.
func TestPropertyTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openDelayStore(t, t.TempDir(), store.Config{Flush: store.FlushAsync})
		b := openBroker(t, Config{Store: s, Cluster: "c"})
		createTopic(t, b, "orders", 2)
		for _, row := range []struct {
			name          string
			in            message.Properties
			sent          message.Properties // in the log
			afterDelay    message.Properties // in the log, when it was delivered; empty: it was at once
			parkedAtFirst bool
		}{
			{"KEYS and TAGS stay", "KEYS\x01a b\x02TAGS\x01red", "KEYS\x01a b\x02TAGS\x01red\x02CLUSTER\x01c", "", false},
			{"WAIT is not stored", "WAIT\x01true\x02TAGS\x01red", "TAGS\x01red\x02CLUSTER\x01c", "", false},
			{"CLUSTER is the broker's", "CLUSTER\x01x", "CLUSTER\x01c", "", false},
			{"UNIQ_KEY stays", "UNIQ_KEY\x01U", "UNIQ_KEY\x01U\x02CLUSTER\x01c", "", false},
			{"user properties stay", "CHECK_IMMUNITY_TIME_IN_SECONDS\x015\x02__STARTDELIVERTIME\x011\x02__SHARDINGKEY\x01k", "CHECK_IMMUNITY_TIME_IN_SECONDS\x015\x02__STARTDELIVERTIME\x011\x02__SHARDINGKEY\x01k\x02CLUSTER\x01c", "", false},
			{
				"DELAY, REAL_TOPIC and REAL_QID", "DELAY\x011", "DELAY\x011\x02CLUSTER\x01c\x02REAL_TOPIC\x01orders\x02REAL_QID\x011",
				"DELAY\x011\x02CLUSTER\x01c\x02REAL_TOPIC\x01orders\x02REAL_QID\x011", true,
			},
			{
				"DELAY above the last level", "DELAY\x0199", "DELAY\x0118\x02CLUSTER\x01c\x02REAL_TOPIC\x01orders\x02REAL_QID\x011",
				"DELAY\x0118\x02CLUSTER\x01c\x02REAL_TOPIC\x01orders\x02REAL_QID\x011", true,
			},
			{"MSG_REGION and TRACE_ON stay", "MSG_REGION\x01north\x02TRACE_ON\x01false", "MSG_REGION\x01north\x02TRACE_ON\x01false\x02CLUSTER\x01c", "", false},
		} {
			at := s.MaxOffset()
			require.NoError(t, s.WaitDispatched(t.Context(), at))
			next := s.MaxOffsetInQueue("orders", 1)
			_, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{
				Message: message.Message{Topic: "orders", Body: []byte("x"), Properties: row.in}, QueueID: 1,
			})
			require.NoError(t, err, row.name)
			m, err := s.LookMessageByOffset(t.Context(), at)
			require.NoError(t, err, row.name)
			require.Equal(t, row.sent, m.Properties, row.name)
			require.Equal(t, row.parkedAtFirst, m.Topic == message.ScheduleTopic, row.name)
			if !row.parkedAtFirst {
				continue
			}
			time.Sleep(2*time.Hour + time.Second)
			synctest.Wait()
			require.NoError(t, s.WaitDispatched(t.Context(), s.MaxOffset()))
			off, ok := s.CommitLogOffsetInQueue("orders", 1, next)
			require.True(t, ok, row.name)
			m, err = s.LookMessageByOffset(t.Context(), off)
			require.NoError(t, err)
			require.Equal(t, row.afterDelay, m.Properties, row.name)
			require.Equal(t, "orders", m.Topic)
		}
		require.NoError(t, b.Close())
		require.NoError(t, s.Close())
	})
}
