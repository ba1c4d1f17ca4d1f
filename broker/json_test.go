package broker

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// The texts that RocketMQ 4.9.3 writes.
const (
	offsetsText = `{
	"offsetTable":{
		"%RETRY%billing@billing":{0:0
		},
		"orders@billing":{0:120,1:118,10:121
		}
	}
}`
	topicsText = `{
	"dataVersion":{
		"counter":5,
		"timestamp":1650000000000
	},
	"topicConfigTable":{
		"orders":{
			"order":false,
			"perm":6,
			"readQueueNums":8,
			"topicFilterType":"SINGLE_TAG",
			"topicName":"orders",
			"topicSysFlag":0,
			"writeQueueNums":8
		}
	}
}`
)

func TestAppendObjectIsFastjson(t *testing.T) {
	offsets := object{"offsetTable": object{
		"orders@billing":         queueOffsets{10: 121, 0: 120, 1: 118},
		"%RETRY%billing@billing": queueOffsets{0: 0},
	}}
	require.Equal(t, offsetsText, string(appendObject(nil, offsets, 0)))

	topics := object{
		"dataVersion": object{"timestamp": int64(1650000000000), "counter": int64(5)},
		"topicConfigTable": object{"orders": object{
			"topicName": "orders", "readQueueNums": int64(8), "writeQueueNums": int64(8), "perm": int64(6),
			"topicFilterType": "SINGLE_TAG", "topicSysFlag": int64(0), "order": false, "gone": nil,
		}},
	}
	require.Equal(t, topicsText, string(appendObject(nil, topics, 0)))

	for want, o := range map[string]object{
		`{}`:                                   {},
		"{\n\t\"a\":{}\n}":                     {"a": object{}},
		"{\n\t\"a\":{},\n\t\"b\":\"\\\"<\"\n}": {"a": queueOffsets{}, "b": `"<`},
		"{\n\t\"a\":[1,\"x\",null,true]\n}":    {"a": []any{json.Number("1"), "x", nil, true}},
		"{\n\t\"a\":{-1:-2\n\t}\n}":            {"a": queueOffsets{-1: -2}},
	} {
		require.Equal(t, want, string(appendObject(nil, o, 0)))
	}
}

func TestParseOffsetsAnyForm(t *testing.T) {
	want := map[string]queueOffsets{
		"orders@billing":         {0: 120, 1: 118, 10: 121},
		"%RETRY%billing@billing": {0: 0},
	}
	for _, text := range []string{
		offsetsText,
		`{"offsetTable":{"orders@billing":{"0":120,"1":118,"10":121},"%RETRY%billing@billing":{"0":0}}}`,
		`{"offsetTable":{"orders@billing":{10:121,0:120,"1":118},"%RETRY%billing@billing":{0:0}},"more":[1]}`,
	} {
		_, table, err := parseOffsets([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, table)
	}
}

// TestParseRefuses lists texts that a torn or mixed file has; none of them may
// be read as an empty table.
func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		``, ` `, `null`, `[]`, `0`, `{`, `{"offsetTable":`, offsetsText[:40], offsetsText[:len(offsetsText)-1],
		offsetsText + "}", offsetsText + offsetsText[20:], "\x00\x00\x00\x00",
		`{"offsetTable":[]}`, `{"offsetTable":{"a@b":5}}`, `{"offsetTable":{"a@b":{"x":5}}}`,
		`{"offsetTable":{"a@b":{"0":"5"}}}`, `{"offsetTable":{"a@b":{0:1.5}}}`, `{"offsetTable":{"a@b":{99999999999:1}}}`,
	} {
		_, _, err := parseOffsets([]byte(text))
		require.Error(t, err, text)
	}
	for _, text := range []string{
		``, topicsText[:100], topicsText + topicsText[10:], `{"topicConfigTable":{"a":1}}`,
		`{"topicConfigTable":{"a":{"readQueueNums":-1}}}`, `{"topicConfigTable":{"a":{"perm":"6"}}}`,
		`{"topicConfigTable":{"a":{"order":1}}}`, `{"topicConfigTable":{"a":{"writeQueueNums":4294967296}}}`,
		`{"dataVersion":7}`, `{"dataVersion":{"counter":"x"}}`,
	} {
		_, _, err := parseTopics([]byte(text))
		require.Error(t, err, text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(offsetsText))
	f.Add([]byte(topicsText))
	f.Fuzz(func(t *testing.T, text []byte) {
		if doc, table, err := parseOffsets(text); err == nil {
			groups := object{}
			for k, v := range table {
				groups[k] = v
			}
			doc["offsetTable"] = groups
			_, again, err := parseOffsets(appendObject(nil, doc, 0))
			require.NoError(t, err)
			require.Equal(t, table, again)
		}
		_, _, _ = parseTopics(text)
	})
}
