package mq

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// traceTexts has a record of each type and the bytes that RocketMQ writes for it.
var traceTexts = []struct {
	name   string
	record TraceRecord
	text   string
}{
	{
		"pub", TraceRecord{
			Type: TracePub, Timestamp: 1700000000123, Region: "DefaultRegion", Group: "senders", Topic: "orders",
			MsgID: "7F00000100012A3B4C5D000000010000", Tags: "red", Keys: "k1 k2", StoreHost: "127.0.0.1:10911", BodyLength: 42,
			CostTime: 5, MessageType: MessageHalf, OffsetMsgID: "7F00000100002A9F0000000000000064", Success: true,
		},
		"Pub\x011700000000123\x01DefaultRegion\x01senders\x01orders\x017F00000100012A3B4C5D000000010000\x01red\x01k1 k2\x01" +
			"127.0.0.1:10911\x0142\x015\x011\x017F00000100002A9F0000000000000064\x01true\x02",
	},
	{
		"pub without tags and keys", TraceRecord{
			Type: TracePub, Timestamp: 1, Region: "r", Group: "g", Topic: "t", MsgID: "id", StoreHost: "h", MessageType: MessageDelay, OffsetMsgID: "o",
		},
		"Pub\x011\x01r\x01g\x01t\x01id\x01null\x01null\x01h\x010\x010\x013\x01o\x01false\x02",
	},
	{
		"before", TraceRecord{
			Type: TraceSubBefore, Timestamp: 2, Region: "r", Group: "readers", RequestID: "req", MsgID: "id", RetryTimes: 3, Keys: "k1",
		},
		"SubBefore\x012\x01r\x01readers\x01req\x01id\x013\x01k1\x02",
	},
	{
		"before without keys", TraceRecord{Type: TraceSubBefore, Timestamp: 2, Region: "r", Group: "g", RequestID: "req", MsgID: "id"},
		"SubBefore\x012\x01r\x01g\x01req\x01id\x010\x01null\x02",
	},
	{
		"after", TraceRecord{
			Type: TraceSubAfter, Timestamp: 9, Group: "readers", RequestID: "req", MsgID: "id", CostTime: 7, Success: false, Keys: "k1", ContextCode: TraceFailed,
		},
		"SubAfter\x01req\x01id\x017\x01false\x01k1\x014\x019\x01readers\x02",
	},
	{
		"end of a transaction", TraceRecord{
			Type: TraceEndTransaction, Timestamp: 3, Region: "r", Group: "g", Topic: "t", MsgID: "id", Tags: "red", Keys: "k",
			StoreHost: "h", MessageType: MessageCommit, TransactionID: "tx", TransactionState: "COMMIT_MESSAGE", FromCheck: true,
		},
		"EndTransaction\x013\x01r\x01g\x01t\x01id\x01red\x01k\x01h\x012\x01tx\x01COMMIT_MESSAGE\x01true\x02",
	},
}

func TestTraceText(t *testing.T) {
	var all []byte
	var records []TraceRecord
	for _, test := range traceTexts {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.text, string(AppendTrace(nil, &test.record)))
			got, err := DecodeTrace([]byte(test.text))
			require.NoError(t, err)
			require.Equal(t, []TraceRecord{test.record}, got)
		})
		all = AppendTrace(all, &test.record)
		records = append(records, test.record)
	}
	got, err := DecodeTrace(all)
	require.NoError(t, err)
	require.Equal(t, records, got, "one after the other")
	for typ, want := range map[TraceType]string{TracePub: "Pub", TraceEndTransaction: "EndTransaction", 9: "TraceType(9)"} {
		require.Equal(t, want, typ.String())
	}
}

// TestTraceSeparators: what is in a field can not begin another one.
func TestTraceSeparators(t *testing.T) {
	r := TraceRecord{Type: TraceSubBefore, Region: "r", Group: "g", RequestID: "q", MsgID: "a\x01b", Keys: "c\x02d\x01"}
	got, err := DecodeTrace(AppendTrace(nil, &r))
	require.NoError(t, err)
	r.MsgID, r.Keys = "a b", "c d "
	require.Equal(t, []TraceRecord{r}, got)
}

// TestDecodeTraceOfOthers reads the shorter records of earlier versions and the
// longer ones of later versions.
func TestDecodeTraceOfOthers(t *testing.T) {
	for text, want := range map[string]TraceRecord{
		"Pub\x011\x01r\x01g\x01t\x01id\x01null\x01null\x01h\x017\x012\x010\x01true\x02": {
			Type: TracePub, Timestamp: 1, Region: "r", Group: "g", Topic: "t", MsgID: "id", StoreHost: "h", BodyLength: 7, CostTime: 2, Success: true,
		},
		"Pub\x011\x01r\x01g\x01t\x01id\x01\x01\x01h\x017\x012\x010\x01off\x01true\x01client\x02": {
			Type: TracePub, Timestamp: 1, Region: "r", Group: "g", Topic: "t", MsgID: "id", StoreHost: "h", BodyLength: 7, CostTime: 2, OffsetMsgID: "off", Success: true,
		},
		"SubAfter\x01q\x01id\x013\x01true\x01null\x02":                {Type: TraceSubAfter, RequestID: "q", MsgID: "id", CostTime: 3, Success: true},
		"SubAfter\x01q\x01id\x013\x01true\x01k\x012\x02":              {Type: TraceSubAfter, RequestID: "q", MsgID: "id", CostTime: 3, Success: true, Keys: "k", ContextCode: 2},
		"SubAfter\x01q\x01id\x013\x01true\x01k\x010\x015\x02":         {Type: TraceSubAfter, RequestID: "q", MsgID: "id", CostTime: 3, Success: true, Keys: "k", Timestamp: 5},
		"SubAfter\x01q\x01id\x013\x01true\x01k\x010\x01\x01\x02":      {},
		"SubAfter\x01q\x01id\x013\x01true\x01k\x010\x015\x01group":    {Type: TraceSubAfter, RequestID: "q", MsgID: "id", CostTime: 3, Success: true, Keys: "k", Timestamp: 5, Group: "group"},
		"SubAfter\x01q\x01id\x013\x01true\x01k\x010\x01\x015\x02\x02": {},
	} {
		got, err := DecodeTrace([]byte(text))
		if want == (TraceRecord{}) {
			require.ErrorContains(t, err, `trace record 0: timestamp "": is no number`, "%q", text)
			continue
		}
		require.NoError(t, err, "%q", text)
		require.Equal(t, []TraceRecord{want}, got, "%q", text)
	}
}

func TestDecodeTraceRefuses(t *testing.T) {
	good := traceTexts[0].text
	for text, want := range map[string]string{
		"Push\x011\x02":         `trace record 0: type "Push": is none of Pub, SubBefore, SubAfter, EndTransaction`,
		good + "Pub\x02":        `trace record 1: timestamp "": is missing`,
		good + "Pub\x01x\x02":   `trace record 1: timestamp "x": is no number: invalid syntax`,
		"SubBefore\x011\x01r":   `trace record 0: group "": is missing`,
		"\x01":                  `trace record 0: type "": is none of`,
		"EndTransaction\x01now": `timestamp "now"`,
		strings.Replace(good, "\x011\x017F", "\x014\x017F", 1):           `message type "4": is none of 0 to 3`,
		strings.Replace(good, "\x0142\x01", "\x0199999999999\x01", 1):    `body length "99999999999": is no number: value out of range`,
		strings.Replace(traceTexts[2].text, "\x013\x01", "\x01x\x01", 1): `retry times "x"`,
	} {
		records, err := DecodeTrace([]byte(text))
		require.ErrorContains(t, err, want, "%q", text)
		var illegal *message.IllegalError
		require.ErrorAs(t, err, &illegal)
		require.Len(t, records, strings.Count(text[:len(text)-1], "\x02"), "those before it")
	}
	records, err := DecodeTrace(nil)
	require.NoError(t, err)
	require.Empty(t, records)
}

// FuzzDecodeTrace: what was read is written so that it is read the same.
func FuzzDecodeTrace(f *testing.F) {
	for _, test := range traceTexts {
		f.Add([]byte(test.text))
	}
	f.Add([]byte("Pub\x01\x02SubAfter"))
	f.Fuzz(func(t *testing.T, body []byte) {
		records, err := DecodeTrace(body)
		if err != nil {
			return
		}
		var again []byte
		for i := range records {
			again = AppendTrace(again, &records[i])
		}
		got, err := DecodeTrace(again)
		require.NoError(t, err)
		require.Equal(t, records, got)
	})
}
