package message_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/pocketmq/pocketmq/message"
)

// vectorTests checks the vectors that this package covers, by their key in the
// file. It covers of indexKey and zlibBody only the hash.
var vectorTests = map[string]func(*testing.T, json.RawMessage){
	"javaStringHash":  testJavaHash,
	"indexKey":        testIndexKey,
	"offsetMessageId": testOffsetMessageID,
	"uniqKey":         testUniqueID,
	"propertyString":  testPropertyString,
	"propertyParse":   testPropertyParse,
	"bodyCrc":         testBodyCRC,
	"record":          testRecord,
	"blankRecord":     testBlank,
	"batchElement":    testBatchElement,
	"delayTagsCode":   testDelayTagsCode,
	"zlibBody":        testZlibBody,
	"tagFilter":       testTagFilter,
}

// vectorsElsewhere names the packages that the other vectors belong to.
var vectorsElsewhere = map[string]string{
	"about":                    "says what the file is",
	"recordIPv6":               "here: tested together with record",
	"consumeQueuePreBlankUnit": "consumequeue",
	"consumeQueueExt":          "consumequeue",
	"indexFileSmall":           "indexfile",
	"checkpoint":               "store",
	"dledgerEntry":             "replication, which is another module",
	"fileName":                 "internal/segment",
	"rollNextFile":             "internal/segment",
}

// TestGoldenVectors compares with vectors made from RocketMQ's format.
func TestGoldenVectors(t *testing.T) {
	for key, raw := range vectors(t) {
		test, ok := vectorTests[key]
		if !ok {
			if vectorsElsewhere[key] == "" {
				t.Errorf("nobody tests the vectors %s", key)
			}
			continue
		}
		t.Run(key, func(t *testing.T) { test(t, raw) })
	}
	if got, want := len(vectors(t)), len(vectorTests)+len(vectorsElsewhere); got != want {
		t.Errorf("%d kinds of vectors, %d are known", got, want)
	}
}

func vectors(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	decode(t, text, &all)
	return all
}

func decode(t *testing.T, raw []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatal(err)
	}
	if r := reflect.ValueOf(v).Elem(); r.Kind() == reflect.Slice && r.Len() == 0 {
		t.Fatal("no vectors")
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func pairs(t *testing.T, list [][2]string) message.Properties {
	t.Helper()
	var flat []string
	for _, nv := range list {
		flat = append(flat, nv[0], nv[1])
	}
	p, err := message.NewProperties(flat...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func testJavaHash(t *testing.T, raw json.RawMessage) {
	var all []struct {
		S          string
		UTF16Units int
		UTF8Hex    string
		Hash32     int32
		TagsCode64 int64
	}
	decode(t, raw, &all)
	for _, v := range all {
		equal(t, v.S+": units", len(utf16.Encode([]rune(v.S))), v.UTF16Units)
		equal(t, v.S+": bytes", hex.EncodeToString([]byte(v.S)), v.UTF8Hex)
		equal(t, v.S+": hash", message.JavaHash(v.S), v.Hash32)
		equal(t, v.S+": hash of bytes", message.JavaHash([]byte(v.S)), v.Hash32)
		equal(t, v.S+": tags code", message.TagsCode(v.S), v.TagsCode64)
	}
}

func testIndexKey(t *testing.T, raw json.RawMessage) {
	var all []struct {
		Topic, Key, IndexKey, RawIndexKey string
		JavaHash                          int32
	}
	decode(t, raw, &all)
	for _, v := range all {
		key := v.RawIndexKey
		if key == "" {
			key = v.Topic + "#" + v.Key
			equal(t, "index key", key, v.IndexKey)
		}
		equal(t, key, message.JavaHash(key), v.JavaHash)
	}
}

func testOffsetMessageID(t *testing.T, raw json.RawMessage) {
	var all []struct {
		IP     netip.Addr
		Port   int32
		Offset message.LogOffset
		MsgID  string
		Length int
	}
	decode(t, raw, &all)
	for _, v := range all {
		id := message.OffsetMessageID{Host: message.Host{Addr: v.IP, Port: v.Port}, Offset: v.Offset}
		equal(t, "text", id.String(), v.MsgID)
		equal(t, "length", len(id.String()), v.Length)
		back, err := message.ParseOffsetMessageID(v.MsgID)
		if err != nil || back != id {
			t.Errorf("%s is read as %v, %v", v.MsgID, back, err)
		}
	}
}

func testUniqueID(t *testing.T, raw json.RawMessage) {
	var all []struct {
		IP                    netip.Addr
		PID                   int
		LoaderHash            uint32
		MillisSinceMonthStart int64
		Counter               int
		ID                    string
	}
	decode(t, raw, &all)
	for _, v := range all {
		month := time.Date(2022, time.April, 1, 0, 0, 0, 0, time.Local)
		now := month.Add(time.Duration(v.MillisSinceMonthStart) * time.Millisecond)
		ids := message.NewUniqueIDs(v.IP, v.PID, v.LoaderHash, func() time.Time { return now })
		for range v.Counter {
			ids.Next()
		}
		equal(t, "id", ids.Next().String(), v.ID)
	}
}

func testPropertyString(t *testing.T, raw json.RawMessage) {
	var all []struct {
		Pairs   [][2]string
		UTF8Hex string
		Length  int
	}
	decode(t, raw, &all)
	for _, v := range all {
		p := pairs(t, v.Pairs)
		equal(t, "bytes", hex.EncodeToString([]byte(p)), v.UTF8Hex)
		equal(t, "length", len(p), v.Length)
		var back [][2]string
		for name, value := range p.All() {
			back = append(back, [2]string{name, value})
		}
		if len(back) != len(v.Pairs) || len(back) > 0 && !reflect.DeepEqual(back, v.Pairs) {
			t.Errorf("%q is read as %q", p, back)
		}
	}
}

func testPropertyParse(t *testing.T, raw json.RawMessage) {
	var all []struct {
		In  message.Properties
		Out map[string]string
	}
	decode(t, raw, &all)
	for _, v := range all {
		got := make(map[string]string)
		for name, value := range v.In.All() {
			got[name] = value
		}
		if !maps.Equal(got, v.Out) {
			t.Errorf("%q is read as %q, not %q", v.In, got, v.Out)
		}
		for name, want := range v.Out {
			got, ok := v.In.Get(name)
			if !ok || got != want {
				t.Errorf("%q: %s is %q, %t", v.In, name, got, ok)
			}
		}
	}
}

func testBodyCRC(t *testing.T, raw json.RawMessage) {
	var all []struct {
		BodyHex       string
		StoredBodyCRC uint32
	}
	decode(t, raw, &all)
	for _, v := range all {
		equal(t, v.BodyHex, message.BodyCRC(unhex(t, v.BodyHex)), v.StoredBodyCRC)
	}
}

// recordFields are the fields of the vector of a record.
type recordFields struct {
	TotalSize                 int
	BodyCRC                   uint32
	QueueID                   int32
	Flag                      int32
	QueueOffset               message.QueueOffset
	PhysicalOffset            message.LogOffset
	SysFlag                   message.SysFlag
	BornTimestamp             int64
	BornHost                  string
	StoreTimestamp            int64
	StoreHost                 string
	ReconsumeTimes            int32
	PreparedTransactionOffset message.LogOffset
	Body                      string
	Topic                     string
	Properties                [][2]string
}

func (f recordFields) message(t *testing.T) message.MessageExt {
	t.Helper()
	born, err := message.ParseHost(f.BornHost)
	if err != nil {
		t.Fatal(err)
	}
	store, err := message.ParseHost(f.StoreHost)
	if err != nil {
		t.Fatal(err)
	}
	return message.MessageExt{
		Message: message.Message{Topic: f.Topic, Flag: f.Flag, Body: []byte(f.Body), Properties: pairs(t, f.Properties)},
		QueueID: f.QueueID, StoreSize: int32(f.TotalSize), QueueOffset: f.QueueOffset, LogOffset: f.PhysicalOffset,
		SysFlag: f.SysFlag, BodyCRC: f.BodyCRC, BornTimestamp: f.BornTimestamp, BornHost: born,
		StoreTimestamp: f.StoreTimestamp, StoreHost: store, ReconsumeTimes: f.ReconsumeTimes,
		PreparedTransactionOffset: f.PreparedTransactionOffset,
	}
}

func testRecord(t *testing.T, raw json.RawMessage) {
	var v, v6 struct {
		Fields  recordFields
		Hex     string
		Derived struct {
			TagsCode    int64
			OffsetMsgID string
		}
	}
	decode(t, raw, &v)
	v6.Fields = v.Fields
	decode(t, vectors(t)["recordIPv6"], &v6) // its fields say only what differs
	levels, err := message.ParseDelayLevels(message.DefaultDelayLevels)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		fields recordFields
		hex    string
	}{{v.Fields, v.Hex}, {v6.Fields, v6.Hex}} {
		want := unhex(t, one.hex)
		m := one.fields.message(t)
		equal(t, "size", m.RecordSize(), one.fields.TotalSize)
		got := make([]byte, m.RecordSize())
		m.PutRecord(got)
		if !bytes.Equal(got, want) {
			t.Errorf("encoded\n%x, want\n%x", got, want)
		}
		view, kind, err := message.ReadRecord(want)
		if kind != message.KindRecord || err != nil {
			t.Fatalf("%s, %v", kind, err)
		}
		if back := view.Message(); !reflect.DeepEqual(back, m) {
			t.Errorf("decoded\n%+v, want\n%+v", back, m)
		}
		if err := view.CheckBody(); err != nil {
			t.Error(err)
		}
		equal(t, "tags code", levels.TagsCode(view), v.Derived.TagsCode)
	}
	m := v.Fields.message(t)
	equal(t, "message id", m.OffsetMessageID().String(), v.Derived.OffsetMsgID)
}

func testBlank(t *testing.T, raw json.RawMessage) {
	var v struct {
		RemainingBytesInFile int
		Hex                  string
	}
	decode(t, raw, &v)
	b := make([]byte, v.RemainingBytesInFile)
	message.PutBlank(b, v.RemainingBytesInFile)
	equal(t, "blank", hex.EncodeToString(b[:message.BlankSize]), v.Hex)
	if _, kind, err := message.ReadRecord(b); kind != message.KindBlank || err != nil {
		t.Errorf("read as %s, %v", kind, err)
	}
}

func testBatchElement(t *testing.T, raw json.RawMessage) {
	var v struct {
		Flag                int32
		Body                string
		Properties          [][2]string
		Hex                 string
		BatchProperties     [][2]string
		StoredPropertiesHex string
	}
	decode(t, raw, &v)
	m := message.Message{Flag: v.Flag, Body: []byte(v.Body), Properties: pairs(t, v.Properties)}
	got, err := message.AppendBatchElement(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "element", hex.EncodeToString(got), v.Hex)
	for e, err := range message.BatchElements(unhex(t, v.Hex)) {
		if err != nil || e.Flag != m.Flag || string(e.Body) != v.Body || e.Properties != m.Properties {
			t.Errorf("read as %+v, %v", e, err)
		}
	}
	joined := message.JoinProperties(m.Properties, pairs(t, v.BatchProperties))
	equal(t, "joined properties", hex.EncodeToString([]byte(joined)), v.StoredPropertiesHex)
}

func testDelayTagsCode(t *testing.T, raw json.RawMessage) {
	var all []struct {
		Level          int
		DelayMillis    int64
		StoreTimestamp int64
		TagsCode       int64
		QueueID        int32
	}
	decode(t, raw, &all)
	levels, err := message.ParseDelayLevels(message.DefaultDelayLevels)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		equal(t, "delay", levels[v.Level-1].Milliseconds(), v.DelayMillis)
		equal(t, "delivery time", levels.DeliveryTime(v.Level, v.StoreTimestamp), v.TagsCode)
		var m message.MessageExtBrokerInner
		m.Topic, m.Properties = "T", pairs(t, [][2]string{{message.PropertyDelayLevel, strconv.Itoa(v.Level)}})
		parked, err := levels.Park(m)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "queue", parked.QueueID, v.QueueID)
		parked.StoreTimestamp = v.StoreTimestamp
		b := make([]byte, parked.RecordSize())
		parked.PutRecord(b)
		view, _, err := message.ReadRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "tags code", levels.TagsCode(view), v.TagsCode)
	}
}

func testZlibBody(t *testing.T, raw json.RawMessage) {
	var v struct {
		CompressedHex string
		StoredBodyCRC uint32
		SysFlag       message.SysFlag
	}
	decode(t, raw, &v)
	equal(t, "checksum", message.BodyCRC(unhex(t, v.CompressedHex)), v.StoredBodyCRC)
	equal(t, "flag", message.FlagCompressed, v.SysFlag)
}

func testTagFilter(t *testing.T, raw json.RawMessage) {
	var all []struct {
		Expression string
		MatchesAll bool
		Codes      []int64
	}
	decode(t, raw, &all)
	for _, v := range all {
		f := message.ParseTagFilter(v.Expression)
		equal(t, v.Expression+": matches all", f.MatchesAll(), v.MatchesAll)
		for _, code := range v.Codes {
			equal(t, v.Expression+": its code", f.Match(code), true)
		}
		equal(t, v.Expression+": another code", f.Match(message.TagsCode("other")), v.MatchesAll)
	}
}
