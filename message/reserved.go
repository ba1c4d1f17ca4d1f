package message

import "strings"

// reserved are the names of properties that mean something to clients or brokers
// of RocketMQ, up to version 5, and are set by them.
//
// Source: RocketMQ common/message/MessageConst.java.
var reserved = nameSet(`
	KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET BUYER_ID
	ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MAX_RECONSUME_TIMES MSG_REGION TRACE_ON
	UNIQ_KEY EXTEND_UNIQ_INFO CONSUME_START_TIME TRAN_PREPARED_QUEUE_OFFSET TRANSACTION_CHECK_TIMES __transactionId__
	INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE
	INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET
	TIMER_DELIVER_MS TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_OUT_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES
	TIMER_DELAY_LEVEL TIMER_DEL_UNIQKEY POP_CK POP_CK_OFFSET 1ST_POP_TIME DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID
	INNER_NUM INNER_BASE DUP_INFO REDIRECT PROPERTY_FORWARD_QUEUE_ID TRACE_CONTEXT __BORNHOST BORN_TIMESTAMP __CRC32#
`)

// reservedPrefix begins names that are reserved as well.
const reservedPrefix = "__RMQ.TRANSIENT."

func nameSet(names string) map[string]bool {
	set := map[string]bool{}
	for name := range strings.FieldsSeq(names) {
		set[name] = true
	}
	return set
}

// IsReservedProperty reports whether a property is for clients and brokers to set,
// so that an application does not invent one of that name. CHECK_IMMUNITY_TIME_IN_SECONDS,
// __STARTDELIVERTIME and __SHARDINGKEY are the application's.
func IsReservedProperty(name string) bool {
	return reserved[name] || strings.HasPrefix(name, reservedPrefix)
}

// WithUser is With for a property of the application's own: a reserved name, and a
// name or value that is blank or has a separator byte (0x01, 0x02), is an
// *IllegalError.
//
// Source: RocketMQ common/message/Message.java, putUserProperty.
func (p Properties) WithUser(name, value string) (Properties, error) {
	switch {
	case strings.TrimSpace(name) == "":
		return p, &IllegalError{"property name", shorten(name), "is blank"}
	case IsReservedProperty(name):
		return p, &IllegalError{"property name", name, "is reserved"}
	case strings.TrimSpace(value) == "":
		return p, &IllegalError{"property value", shorten(value), "of " + shorten(name) + " is blank"}
	case strings.IndexByte(value, nameValueSeparator) >= 0:
		return p, &IllegalError{"property value", shorten(value), "of " + shorten(name) + " has the separator byte 0x01"}
	}
	return p.With(name, value)
}
