package mq

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pocketmq/pocketmq/message"
)

// TraceType says what a TraceRecord tells. Its text is RocketMQ's name.
type TraceType uint8

// The types.
const (
	TracePub            TraceType = iota // a message was stored
	TraceSubBefore                       // a consumer got a message
	TraceSubAfter                        // it is done with it
	TraceEndTransaction                  // a transaction was committed or rolled back
)

var traceTypeNames = [...]string{"Pub", "SubBefore", "SubAfter", "EndTransaction"}

func (t TraceType) String() string {
	if int(t) < len(traceTypeNames) {
		return traceTypeNames[t]
	}
	return fmt.Sprintf("TraceType(%d)", uint8(t))
}

// TraceRecord is one line of a message trace. Which fields count depends on Type;
// the others are zero.
//
// Source: RocketMQ client/trace/TraceContext.java and TraceBean.java.
type TraceRecord struct {
	Type      TraceType
	Timestamp int64  // when it began, of TraceSubAfter when it ended; ms since the Unix epoch
	Region    string // not of TraceSubAfter
	Group     string

	MsgID string // the unique key; without one the offset message id
	Keys  string // separated by spaces

	// Of TracePub and TraceEndTransaction.
	Topic       string
	Tags        string
	StoreHost   string
	MessageType MessageType

	// Of TracePub.
	BodyLength  int
	OffsetMsgID string

	// Of TracePub and TraceSubAfter.
	CostTime int64 // in ms
	Success  bool

	// Of TraceSubBefore and TraceSubAfter, which have one in common.
	RequestID   string
	RetryTimes  int32 // of TraceSubBefore: how often the message came again so far
	ContextCode int   // of TraceSubAfter: TraceConsumed or TraceFailed, or RocketMQ's 1 to 3

	// Of TraceEndTransaction.
	TransactionID    string
	TransactionState string // COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW
	FromCheck        bool   // the broker had asked
}

// The values of TraceRecord.ContextCode that consumers of this package give.
//
// Source: RocketMQ client/consumer/listener/ConsumeReturnType.java.
const (
	TraceConsumed = 0
	TraceFailed   = 4
)

// Separators of the text.
//
//	field 0x01 field 0x01 … field 0x02   one record; the next follows
//
// Source: RocketMQ client/trace/TraceConstants.java.
const (
	traceFieldEnd  = 0x01
	traceRecordEnd = 0x02

	// traceNothing is what Java's text of a value that is missing is. Readers of
	// RocketMQ want the field not to be empty.
	traceNothing = "null"
)

// AppendTrace appends the text of a record to b, as RocketMQ writes it. Separator
// bytes in a field become spaces.
//
// Source: RocketMQ client/trace/TraceDataEncoder.java, encoderFromContextBean.
func AppendTrace(b []byte, r *TraceRecord) []byte {
	t := traceText{b: b}
	t.text(r.Type.String())
	switch r.Type {
	case TracePub:
		t.begin(r)
		t.message(r)
		t.number(int64(r.BodyLength))
		t.number(r.CostTime)
		t.number(int64(r.MessageType))
		t.text(r.OffsetMsgID)
		t.flag(r.Success)
	case TraceSubBefore:
		t.begin(r)
		t.text(r.RequestID)
		t.text(r.MsgID)
		t.number(int64(r.RetryTimes))
		t.optional(r.Keys)
	case TraceSubAfter:
		t.text(r.RequestID)
		t.text(r.MsgID)
		t.number(r.CostTime)
		t.flag(r.Success)
		t.optional(r.Keys)
		t.number(int64(r.ContextCode))
		t.number(r.Timestamp)
		t.text(r.Group)
	case TraceEndTransaction:
		t.begin(r)
		t.message(r)
		t.number(int64(r.MessageType))
		t.optional(r.TransactionID)
		t.text(r.TransactionState)
		t.flag(r.FromCheck)
	}
	t.b[len(t.b)-1] = traceRecordEnd
	return t.b
}

// traceText writes fields, each with a separator behind it.
type traceText struct{ b []byte }

// begin writes what nearly all records begin with.
func (t *traceText) begin(r *TraceRecord) {
	t.number(r.Timestamp)
	t.text(r.Region)
	t.text(r.Group)
}

// message writes which message it was.
func (t *traceText) message(r *TraceRecord) {
	t.text(r.Topic)
	t.text(r.MsgID)
	t.optional(r.Tags)
	t.optional(r.Keys)
	t.text(r.StoreHost)
}

func (t *traceText) text(s string) {
	start := len(t.b)
	t.b = append(append(t.b, s...), traceFieldEnd)
	for i, c := range t.b[start : len(t.b)-1] {
		if c == traceFieldEnd || c == traceRecordEnd {
			t.b[start+i] = ' '
		}
	}
}

func (t *traceText) optional(s string) {
	if s == "" {
		s = traceNothing
	}
	t.text(s)
}

func (t *traceText) number(n int64) { t.b = append(strconv.AppendInt(t.b, n, 10), traceFieldEnd) }
func (t *traceText) flag(v bool)    { t.b = append(strconv.AppendBool(t.b, v), traceFieldEnd) }

// DecodeTrace reads the body of a message of the trace topic, RocketMQ's too,
// with the shorter records of its earlier versions. The error is a
// *message.IllegalError, and names the record and the field.
//
// Source: RocketMQ client/trace/TraceDataEncoder.java, decoderFromTraceDataString.
func DecodeTrace(body []byte) ([]TraceRecord, error) {
	var records []TraceRecord
	for line := range strings.SplitSeq(string(body), string(rune(traceRecordEnd))) {
		if line == "" {
			continue
		}
		r, err := decodeTraceRecord(line)
		if err != nil {
			return records, fmt.Errorf("trace record %d: %w", len(records), err)
		}
		records = append(records, r)
	}
	return records, nil
}

func decodeTraceRecord(line string) (TraceRecord, error) {
	f := traceFields{rest: strings.Split(line, string(rune(traceFieldEnd)))}
	r := TraceRecord{Type: TraceType(len(traceTypeNames))}
	name := f.text("type")
	for i, known := range traceTypeNames {
		if name == known {
			r.Type = TraceType(i)
		}
	}
	switch r.Type {
	case TracePub:
		f.begin(&r)
		f.message(&r)
		r.BodyLength = int(f.number("body length", 32))
		r.CostTime = f.number("cost time", 64)
		r.MessageType = f.messageType()
		if len(f.rest) > 1 { // RocketMQ 4.4 had no offset message id
			r.OffsetMsgID = f.text("offset message id")
		}
		r.Success = f.flag("success")
	case TraceSubBefore:
		f.begin(&r)
		r.RequestID = f.text("request id")
		r.MsgID = f.text("message id")
		r.RetryTimes = int32(f.number("retry times", 32))
		r.Keys = f.optional("keys")
	case TraceSubAfter:
		r.RequestID = f.text("request id")
		r.MsgID = f.text("message id")
		r.CostTime = f.number("cost time", 64)
		r.Success = f.flag("success")
		r.Keys = f.optional("keys")
		f.subAfterEnd(&r)
	case TraceEndTransaction:
		f.begin(&r)
		f.message(&r)
		r.MessageType = f.messageType()
		r.TransactionID = f.optional("transaction id")
		r.TransactionState = f.text("transaction state")
		r.FromCheck = f.flag("from check")
	default:
		return r, &message.IllegalError{Field: "type", Value: name, Reason: "is none of " + strings.Join(traceTypeNames[:], ", ")}
	}
	return r, f.err
}

// traceFields takes fields from the front. What goes wrong first is kept in err.
type traceFields struct {
	rest []string
	err  error
}

func (f *traceFields) text(field string) string {
	if len(f.rest) == 0 {
		f.illegal(field, "", "is missing")
		return ""
	}
	s := f.rest[0]
	f.rest = f.rest[1:]
	return s
}

func (f *traceFields) illegal(field, value, reason string) {
	if f.err == nil {
		f.err = &message.IllegalError{Field: field, Value: value, Reason: reason}
	}
}

func (f *traceFields) begin(r *TraceRecord) {
	r.Timestamp = f.number("timestamp", 64)
	r.Region = f.text("region")
	r.Group = f.text("group")
}

func (f *traceFields) message(r *TraceRecord) {
	r.Topic = f.text("topic")
	r.MsgID = f.text("message id")
	r.Tags = f.optional("tags")
	r.Keys = f.optional("keys")
	r.StoreHost = f.text("store host")
}

// subAfterEnd reads what later versions have put there, one after the other.
func (f *traceFields) subAfterEnd(r *TraceRecord) {
	if len(f.rest) > 0 {
		r.ContextCode = int(f.number("context code", 32))
	}
	if len(f.rest) > 0 {
		r.Timestamp = f.number("timestamp", 64)
	}
	if len(f.rest) > 0 {
		r.Group = f.text("group")
	}
}

func (f *traceFields) optional(field string) string {
	s := f.text(field)
	if s == traceNothing {
		return ""
	}
	return s
}

func (f *traceFields) number(field string, bits int) int64 {
	s := f.text(field)
	n, err := strconv.ParseInt(s, 10, bits)
	if err != nil {
		f.illegal(field, s, "is no number: "+errors.Unwrap(err).Error())
	}
	return n
}

func (f *traceFields) messageType() MessageType {
	n := f.number("message type", 32)
	if n < int64(MessageNormal) || n > int64(MessageDelay) {
		f.illegal("message type", strconv.FormatInt(n, 10), "is none of 0 to 3")
		return 0
	}
	return MessageType(n)
}

// flag is true for what Java's parseBoolean takes for true.
func (f *traceFields) flag(field string) bool { return strings.EqualFold(f.text(field), "true") }
