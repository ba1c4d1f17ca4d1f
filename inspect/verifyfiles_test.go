package inspect_test

import (
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// TestVerifyFindsDamagedFiles damages files beside log and queues.
func TestVerifyFindsDamagedFiles(t *testing.T) {
	tests := []struct {
		name, file, text string
		want             []string
	}{
		{"bare keys", "config/consumerOffset.json", "{\n\t\"offsetTable\":{\n\t\t\"a@g\":{0:1,12:3\n\t\t}\n\t}\n}", nil},
		{"quoted keys", "config/delayOffset.json.bak", `{"offsetTable":{"1":40}}`, nil},
		{"half a file", "config/topics.json", `{"topicConfigTable":{"a":`, []string{
			"error config: config/topics.json+25: does not parse: unexpected EOF"}},
		{"two objects", "config/topics.json.bak", `{}{}`, []string{
			"error config: config/topics.json.bak+3: does not parse: text behind the end"}},
		{"no object", "config/topics.json", `[1]`, []string{
			"error config: config/topics.json+3: does not parse: json: cannot unmarshal array into Go value of type map[string]json.RawMessage"}},
		{"zeros", "config/topics.json", "\x00\x00\x00\x00", []string{
			`error config: config/topics.json+1: does not parse: invalid character '\x00' looking for beginning of value`}},
		{"empty", "config/subscriptionGroup.json", "", []string{
			"error config: config/subscriptionGroup.json+0: is empty"}},
		{"other names", "config/notes.txt", "not JSON", nil},
		{"checksum", "pocketmq/store.json", "0123456789abcdef\n{}", []string{
			`error own-file: pocketmq/store.json+0: checksum "0123456789abcdef", that of the text is 2e1472b57af294d1`}},
		{"no checksum", "pocketmq/recovery.json", "{}", []string{
			`error own-file: pocketmq/recovery.json+0: checksum "{}", that of the text is ef46db3751d8e999`}},
		{"no JSON", "pocketmq/other.json", "ef46db3751d8e999\n", []string{
			"error own-file: pocketmq/other.json+0: does not parse"}},
		{"sound", "pocketmq/other.json", "2e1472b57af294d1\n{}", nil},
		{"lock", "lock", "lack", []string{
			`note lock: lock+0: holds "lack", RocketMQ writes "lock"`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir, _ := newStore(t, 4)
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "config"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, test.file), []byte(test.text), 0o600))
			_, found := verify(t, dir)
			require.Equal(t, test.want, found)
		})
	}
}

// sumOf is the value of RocketMQ 5's property __CRC32#.
func sumOf(b []byte) string {
	digits := []byte(strconv.Itoa(int(crc32.ChecksumIEEE(b) & 0x7FFFFFFF)))
	slices.Reverse(digits)
	return string(append(digits, "0000000000"...)[:10])
}

// TestVerifyRecordChecksum has records with the checksum that RocketMQ 5.1
// appends: what it covers, the body's does not.
func TestVerifyRecordChecksum(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), dir, store.Config{FlushTimeout: 10 * time.Minute, SegmentSize: segmentSize, NoIndex: true, AppendPropertyCRC: true})
	require.NoError(t, err)
	var r []store.PutMessageResult
	for range 3 {
		m := &message.MessageExtBrokerInner{}
		m.Topic, m.Body, m.Properties = "a", []byte("body"), "TAGS\x01red"
		p, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
		r = append(r, p)
	}
	require.NoError(t, s.Close())
	_, found := verify(t, dir)
	require.Empty(t, found)
	for _, p := range r {
		inLog(t, dir, p.LogOffset, func(b []byte) { require.Equal(t, sumOf(b[:p.Bytes-20]), string(b[p.Bytes-11:p.Bytes-1])) })
	}
	inLog(t, dir, r[1].LogOffset, func(b []byte) { b[19] ^= 1 }) // the application's flag
	sum, found := verify(t, dir)
	require.Len(t, found, 1)
	require.Regexp(t, `^error record-sum: commitlog/0{20}\+\d+: message 1 of queue a/0: corrupt data: record checksum [0-9a-f]{8}, the record says [0-9a-f]{8}$`, found[0])
	require.EqualValues(t, 3, sum.Records)
}

// TestFindingSaysWhatToRun has a command for every kind.
func TestFindingSaysWhatToRun(t *testing.T) {
	dir, r := newStore(t, 10)
	inLog(t, dir, r[4].LogOffset, func(b []byte) { b[90] ^= 1 })
	_, err := inspect.Verify(t.Context(), dir, func(f inspect.Finding) {
		require.Equal(t, inspect.RecordBody, f.Kind)
		require.Equal(t, "pocketmq repair --output NEW DIR", f.Run)
		require.Equal(t, "error: "+f.File+" at byte 692: "+f.Text+" (record-body; run: pocketmq repair --output NEW DIR)", f.String())
	})
	require.NoError(t, err)
}
