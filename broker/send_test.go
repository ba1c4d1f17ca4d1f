package broker

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// TestPutAnswers goes through the statuses of the store.
func TestPutAnswers(t *testing.T) {
	for _, test := range []struct {
		status store.PutMessageStatus
		code   protocol.ResponseCode
		stored bool
	}{
		{store.PutOK, protocol.Success, true},
		{store.PutFlushDiskTimeout, protocol.FlushDiskTimeout, true},
		{store.PutServiceNotAvailable, protocol.ServiceNotAvailable, false},
		{store.PutCreateMapedFileFailed, protocol.SystemError, false},
		{store.PutMessageIllegal, protocol.MessageIllegal, false},
		{store.PutPropertiesSizeExceeded, protocol.MessageIllegal, false},
		{store.PutOSPageCacheBusy, protocol.SystemError, false},
		{store.PutUnknownError, protocol.SystemError, false},
		{store.PutMessageStatus(99), protocol.SystemError, false},
	} {
		t.Run(test.status.String(), func(t *testing.T) {
			var cause error
			if test.status != store.PutOK {
				cause = message.ErrFlush
			}
			code, err := answerPut(&store.PutMessageResult{Status: test.status, Count: 1}, cause)
			require.Equal(t, test.code, code)
			require.Equal(t, test.stored, code.Stored())
			if test.status == store.PutOK {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, test.code)
			require.ErrorIs(t, err, message.ErrFlush)
			busy := test.status == store.PutOSPageCacheBusy
			require.Equal(t, busy, protocol.Overloaded(err))
			if busy {
				require.ErrorContains(t, err, "[PC_SYNCHRONIZED]broker busy, start flow control for a while")
			} else {
				require.ErrorContains(t, err, test.status.String())
			}
		})
	}
	code, err := answerPut(&store.PutMessageResult{}, message.ErrClosed)
	require.Equal(t, protocol.SystemError, code, "an error is never an unqualified success")
	require.ErrorIs(t, err, message.ErrClosed)
}

// TestGetAnswers goes through the statuses of a get.
func TestGetAnswers(t *testing.T) {
	for _, test := range []struct {
		status       store.GetMessageStatus
		offset, next message.QueueOffset
		code         protocol.ResponseCode
	}{
		{store.GetFound, 5, 6, protocol.Success},
		{store.GetNoMatchedMessage, 5, 6, protocol.PullRetryImmediately},
		{store.GetMessageWasRemoving, 5, 6, protocol.PullRetryImmediately},
		{store.GetNoMessageInQueue, 0, 0, protocol.PullNotFound},
		{store.GetNoMessageInQueue, 5, 0, protocol.PullOffsetMoved},
		{store.GetOffsetFoundNull, 5, 100, protocol.PullRetryImmediately},
		{store.GetOffsetFoundNull, 5, 5, protocol.PullNotFound},
		{store.GetOffsetOverflowOne, 5, 5, protocol.PullNotFound},
		{store.GetOffsetOverflowBadly, 5, 3, protocol.PullOffsetMoved},
		{store.GetOffsetTooSmall, 5, 7, protocol.PullOffsetMoved},
	} {
		code := pullCode(&store.GetMessageResult{Status: test.status, NextBeginOffset: test.next}, test.offset)
		require.Equal(t, test.code, code, "%v at %d", test.status, test.offset)
	}
}

func TestSendRefuses(t *testing.T) {
	b := openBroker(t, Config{})
	createTopic(t, b, "orders", 2)
	require.NoError(t, b.CreateTopic(t.Context(), protocol.TopicConfig{Name: "readonly", ReadQueueNums: 1, WriteQueueNums: 1, Perm: protocol.PermRead}))
	props := func(namesAndValues ...string) message.Properties {
		p, err := message.NewProperties(namesAndValues...)
		require.NoError(t, err)
		return p
	}
	type req = protocol.SendMessageRequest
	msg := func(topic string, p message.Properties) message.Message {
		return message.Message{Topic: topic, Body: []byte("x"), Properties: p}
	}
	for name, test := range map[string]struct {
		req   req
		code  protocol.ResponseCode
		cause error
		text  string
	}{
		"blank topic":        {req{Message: msg(" ", "")}, protocol.SystemError, message.ErrIllegal, "blank"},
		"illegal topic":      {req{Message: msg("a.b", "")}, protocol.SystemError, message.ErrIllegal, "character"},
		"long topic":         {req{Message: msg(strings.Repeat("x", 128), "")}, protocol.SystemError, message.ErrLimit, "128"},
		"schedule topic":     {req{Message: msg("SCHEDULE_TOPIC_XXXX", "")}, protocol.NoPermission, message.ErrIllegal, "reserved"},
		"half topic":         {req{Message: msg("RMQ_SYS_TRANS_HALF_TOPIC", "")}, protocol.NoPermission, message.ErrIllegal, "reserved"},
		"read-only topic":    {req{Message: msg("readonly", "")}, protocol.NoPermission, nil, "R--"},
		"queue too high":     {req{Message: msg("orders", ""), QueueID: 2}, protocol.SystemError, message.ErrLimit, "queue id: 2 (counted from 0), limit is 1"},
		"delay is a word":    {req{Message: msg("orders", props("DELAY", "4x"))}, protocol.MessageIllegal, message.ErrIllegal, "DELAY"},
		"delay is too large": {req{Message: msg("orders", props("DELAY", "2147483648"))}, protocol.MessageIllegal, message.ErrIllegal, "DELAY"},
		"half message":       {req{Message: msg("orders", props("TRAN_MSG", "true"))}, protocol.RequestCodeNotSupported, message.ErrIllegal, "transactions"},
		"prepared":           {req{Message: msg("orders", ""), SysFlag: message.TransactionPrepared}, protocol.RequestCodeNotSupported, message.ErrIllegal, "transactions"},
		"long body": {req{Message: message.Message{Topic: "orders", Body: make([]byte, 128<<10+1)}},
			protocol.MessageIllegal, message.ErrLimit, "limit is 131072"},
		"long properties": {req{Message: msg("orders", props("a", strings.Repeat("x", 32766)))}, protocol.MessageIllegal, message.ErrLimit, "properties"},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := b.SendMessage(t.Context(), test.req)
			require.Equal(t, test.code, resp.Code)
			require.ErrorIs(t, err, test.code)
			if test.cause != nil {
				require.ErrorIs(t, err, test.cause)
			}
			require.ErrorContains(t, err, test.text)
		})
	}
	require.Empty(t, b.store.Queues(), "nothing was stored")
	require.NoError(t, b.Close())
	resp, err := b.SendMessage(t.Context(), req{Message: msg("orders", "")})
	require.Equal(t, protocol.ServiceNotAvailable, resp.Code)
	require.ErrorIs(t, err, message.ErrClosed)
}

// TestRefusedMessagesMakeNoTopic has everything wrong with a message that can
// be seen without its topic.
func TestRefusedMessagesMakeNoTopic(t *testing.T) {
	b := openBroker(t, Config{})
	createTopic(t, b, "other", 1)
	before, err := os.ReadFile(configFile(b.store, topicsFile))
	require.NoError(t, err)
	added := len("\x02CLUSTER\x01DefaultCluster")
	long := func(n int) message.Properties { return message.Properties("a\x01" + strings.Repeat("x", n-2)) }
	element := func(p message.Properties) []byte {
		body, err := message.AppendBatchElement(nil, &message.Message{Body: []byte("x"), Properties: p})
		require.NoError(t, err)
		return body
	}
	req := func(body []byte, p message.Properties) protocol.SendMessageRequest {
		return protocol.SendMessageRequest{Message: message.Message{Topic: "orders", Body: body, Properties: p}}
	}
	limit := message.MaxPropertiesLength - added
	tooLong := "properties: 32768 bytes, limit is 32767"
	for name, test := range map[string]struct {
		req   protocol.SendMessageRequest
		batch bool
		text  string
	}{
		"long properties":            {req([]byte("x"), long(limit+1)), false, tooLong},
		"malformed delay":            {req([]byte("x"), "DELAY\x01soon"), false, "DELAY"},
		"long properties with delay": {req([]byte("x"), long(limit-10)+"\x02DELAY\x011"), false, "properties"},
		"long properties of element": {req(element(long(limit+1)), ""), true, tooLong},
		"long properties together":   {req(element(long(limit-1)), "b"), true, tooLong},
		"long properties of batch":   {req(element(""), long(limit+1)), true, tooLong},
		"delayed element":            {req(element("DELAY\x011"), ""), true, "does not go with a batch"},
		"torn batch":                 {req([]byte("x"), ""), true, "batch element"},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			if test.batch {
				_, err = b.SendMessageBatch(t.Context(), protocol.SendMessageBatchRequest{SendMessageRequest: test.req})
			} else {
				_, err = b.SendMessage(t.Context(), test.req)
			}
			require.ErrorContains(t, err, test.text)
			_, err = b.GetTopic(t.Context(), "orders")
			require.ErrorIs(t, err, protocol.TopicNotExist)
		})
	}
	after, err := os.ReadFile(configFile(b.store, topicsFile))
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))

	_, err = b.SendMessage(t.Context(), req([]byte("x"), long(limit)))
	require.NoError(t, err)
	_, err = b.SendMessage(t.Context(), req([]byte("x"), long(limit)+"\x02"))
	require.NoError(t, err, "no separator is added to one that is there")
	_, err = b.SendMessageBatch(t.Context(), protocol.SendMessageBatchRequest{SendMessageRequest: req(element(long(limit)), "")})
	require.NoError(t, err)
}

func TestStoredProperties(t *testing.T) {
	for _, test := range []struct {
		name      string
		noCluster bool
		in        message.Properties
		want      message.Properties
		noWait    bool
	}{
		{"none", false, "", "CLUSTER\x01DefaultCluster", false},
		{"none, no cluster", true, "", "", false},
		{"user's", false, "a\x01b", "a\x01b\x02CLUSTER\x01DefaultCluster", false},
		{"trailing separator", false, "a\x01b\x02", "a\x01b\x02CLUSTER\x01DefaultCluster", false},
		{"other cluster", false, "CLUSTER\x01x\x02a\x01b", "CLUSTER\x01DefaultCluster\x02a\x01b", false},
		{"other cluster, no cluster", true, "CLUSTER\x01x\x02a\x01b", "CLUSTER\x01x\x02a\x01b", false},
		{"wait", true, "a\x01b\x02WAIT\x01true\x02c\x01d", "a\x01b\x02c\x01d", false},
		{"no wait", true, "WAIT\x01false", "", true},
		{"wait is anything", true, "WAIT\x01maybe", "", false},
		{"zero delay", true, "DELAY\x010", "DELAY\x010", false},
		{"no transaction", true, "TRAN_MSG\x01false", "TRAN_MSG\x01false", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := openBroker(t, Config{NoClusterProperty: test.noCluster})
			inner, err := b.admit(t.Context(), &protocol.SendMessageRequest{
				Message: message.Message{Topic: "orders", Body: []byte("x"), Properties: test.in},
			})
			require.NoError(t, err)
			require.Equal(t, test.want, inner.Properties)
			require.Equal(t, test.noWait, inner.NoWait)
			require.Equal(t, b.host, inner.BornHost)
		})
	}
}

func TestSendAndPull(t *testing.T) {
	b := openBroker(t, Config{})
	require.NoError(t, b.CreateTopic(t.Context(), protocol.TopicConfig{Name: "orders", ReadQueueNums: 2, WriteQueueNums: 2, FilterType: protocol.MultiTag}))
	p, err := message.NewProperties("TAGS", "red")
	require.NoError(t, err)
	born := message.Host{Addr: b.host.Addr, Port: 7}
	sent := message.Message{Topic: "orders", Flag: 9, Body: []byte("body"), Properties: p}
	resp, err := b.SendMessage(t.Context(), protocol.SendMessageRequest{Message: sent, QueueID: 1, BornTimestamp: 1234, BornHost: born})
	require.NoError(t, err)
	require.NoError(t, b.store.WaitDispatched(t.Context(), b.store.MaxOffset()))
	_, ms := pull(t, b, protocol.PullMessageRequest{Topic: "orders", QueueID: 1})
	require.Len(t, ms, 1)
	m := ms[0]
	require.Equal(t, resp.MessageID, m.OffsetMessageID())
	require.Equal(t, resp.StoreTimestamp, m.StoreTimestamp)
	require.Equal(t, born, m.BornHost)
	require.EqualValues(t, 1234, m.BornTimestamp)
	require.Equal(t, message.FlagMultiTags, m.SysFlag)
	sent.Properties += "\x02CLUSTER\x01DefaultCluster"
	require.Equal(t, sent, m.Message)
}

// TestSendBatch stores a batch whose tags come last, so that a property added
// by the broker must not become part of them.
func TestSendBatch(t *testing.T) {
	b := openBroker(t, Config{})
	createTopic(t, b, "orders", 2)
	var body []byte
	for _, text := range []string{"one", "two"} {
		var err error
		body, err = message.AppendBatchElement(body, &message.Message{Body: []byte(text), Properties: "TAGS\x01TagA"})
		require.NoError(t, err)
	}
	batch := func(topic string, body []byte, p message.Properties) protocol.SendMessageBatchRequest {
		return protocol.SendMessageBatchRequest{SendMessageRequest: protocol.SendMessageRequest{
			Message: message.Message{Topic: topic, Body: body, Properties: p}, QueueID: 1,
		}}
	}
	resp, err := b.SendMessageBatch(t.Context(), batch("orders", body, "WAIT\x01false"))
	require.NoError(t, err)
	require.Len(t, resp.Offsets, 2)
	require.NoError(t, b.store.WaitDispatched(t.Context(), b.store.MaxOffset()))
	_, ms := pull(t, b, protocol.PullMessageRequest{Topic: "orders", QueueID: 1, TagExpression: "TagA"})
	require.Len(t, ms, 2)
	for i, m := range ms {
		require.Equal(t, []string{"one", "two"}[i], string(m.Body))
		require.EqualValues(t, i, m.QueueOffset)
		require.Equal(t, resp.Offsets[i], m.LogOffset)
		require.Equal(t, message.Properties("TAGS\x01TagA\x02CLUSTER\x01DefaultCluster"), m.Properties)
	}

	delayed, err := message.AppendBatchElement(body, &message.Message{Body: []byte("x"), Properties: "DELAY\x011"})
	require.NoError(t, err)
	for name, test := range map[string]struct {
		req  protocol.SendMessageBatchRequest
		code protocol.ResponseCode
	}{
		"empty":           {batch("orders", nil, ""), protocol.MessageIllegal},
		"torn":            {batch("orders", body[:len(body)-1], ""), protocol.MessageIllegal},
		"delayed":         {batch("orders", body, "DELAY\x011"), protocol.MessageIllegal},
		"delayed element": {batch("orders", delayed, ""), protocol.MessageIllegal},
		"reserved":        {batch("SCHEDULE_TOPIC_XXXX", body, ""), protocol.NoPermission},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := b.SendMessageBatch(t.Context(), test.req)
			require.ErrorIs(t, err, test.code)
			require.Equal(t, test.code, resp.Code)
		})
	}
}
