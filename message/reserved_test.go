package message

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReservedProperties has every name that means something to RocketMQ.
func TestReservedProperties(t *testing.T) {
	for _, name := range []string{
		"KEYS", "TAGS", "WAIT", "DELAY", "RETRY_TOPIC", "REAL_TOPIC", "REAL_QID", "TRAN_MSG", "PGROUP", "MIN_OFFSET", "MAX_OFFSET",
		"BUYER_ID", "ORIGIN_MESSAGE_ID", "TRANSFER_FLAG", "CORRECTION_FLAG", "MQ2_FLAG", "RECONSUME_TIME", "MAX_RECONSUME_TIMES",
		"MSG_REGION", "TRACE_ON", "UNIQ_KEY", "EXTEND_UNIQ_INFO", "CONSUME_START_TIME", "TRAN_PREPARED_QUEUE_OFFSET",
		"TRANSACTION_CHECK_TIMES", "__transactionId__", "INSTANCE_ID", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "ARRIVE_TIME",
		"PUSH_REPLY_TIME", "CLUSTER", "MSG_TYPE", "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET", "TIMER_DELIVER_MS",
		"TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES",
		"TIMER_DELAY_LEVEL", "TIMER_DEL_UNIQKEY", "POP_CK", "POP_CK_OFFSET", "1ST_POP_TIME", "DLQ_ORIGIN_TOPIC",
		"DLQ_ORIGIN_MESSAGE_ID", "INNER_NUM", "INNER_BASE", "DUP_INFO", "REDIRECT", "PROPERTY_FORWARD_QUEUE_ID", "TRACE_CONTEXT",
		"__BORNHOST", "BORN_TIMESTAMP", "__CRC32#", "__RMQ.TRANSIENT.x",
	} {
		t.Run(name, func(t *testing.T) {
			require.True(t, IsReservedProperty(name))
			p, err := Properties("a\x01b").WithUser(name, "x")
			require.ErrorIs(t, err, ErrIllegal)
			require.ErrorContains(t, err, name)
			require.Equal(t, Properties("a\x01b"), p)
		})
	}
	for _, name := range []string{"CHECK_IMMUNITY_TIME_IN_SECONDS", "__STARTDELIVERTIME", "__SHARDINGKEY", "keys", "traceparent"} {
		require.False(t, IsReservedProperty(name))
		p, err := Properties("").WithUser(name, "x")
		require.NoError(t, err)
		require.Equal(t, Properties(name+"\x01x"), p)
	}
}

func TestWithUserRefuses(t *testing.T) {
	for _, test := range []struct{ name, value, text string }{
		{"", "x", "is blank"}, {" \t", "x", "is blank"},
		{"a", "", "of a is blank"}, {"a", " ", "of a is blank"},
		{"a\x01b", "x", "separator"}, {"a\x02b", "x", "separator"},
		{"a", "x\x01y", "0x01"}, {"a", "x\x02y", "0x02"},
		{"\xff", "x", "not UTF-8"}, {"a", "\xff", "not UTF-8"},
	} {
		p, err := Properties("k\x01v").WithUser(test.name, test.value)
		require.ErrorIs(t, err, ErrIllegal, "%q %q", test.name, test.value)
		require.ErrorContains(t, err, test.text)
		require.Equal(t, Properties("k\x01v"), p)
	}
}
