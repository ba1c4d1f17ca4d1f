package inspect_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/internal/golden"
	"github.com/pocketmq/pocketmq/message"
)

var update = flag.Bool("update", false, "write what is expected of Dump anew into testdata/dump")

// dumpText is what Dump tells, as text and as JSON.
func dumpText(t *testing.T, path string, cfg inspect.DumpConfig) (text, lines string) {
	t.Helper()
	var b, j bytes.Buffer
	err := inspect.Dump(t.Context(), path, cfg, func(e inspect.Entry) error {
		fmt.Fprintln(&b, e)
		enc := json.NewEncoder(&j)
		enc.SetEscapeHTML(false)
		return enc.Encode(e)
	})
	require.NoError(t, err)
	return b.String(), j.String()
}

// TestDumpRocketMQ compares with testdata/dump what Dump tells of recorded stores.
func TestDumpRocketMQ(t *testing.T) {
	for name, cfg := range map[string]inspect.DumpConfig{
		"index":             {Limit: 3},
		"crash_tail_torn":   {From: 365000},
		"transaction":       {},
		"delay":             {Limit: 2},
		"crash_cq_behind":   {From: 360000, Limit: 1},
		"normalstop_reopen": {From: 1 << 40},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := filepath.Abs(filepath.Join("testdata", "dump", name))
			require.NoError(t, err)
			c, err := golden.Load(name)
			require.NoError(t, err)
			dir := t.TempDir()
			require.NoError(t, c.Unpack(golden.StoreArchive, dir))
			t.Chdir(dir)
			text, lines := dumpText(t, ".", cfg)
			for suffix, got := range map[string]string{".txt": text, ".json": lines} {
				if *update {
					require.NoError(t, os.WriteFile(want+suffix, []byte(got), 0o600))
				}
				b, err := os.ReadFile(want + suffix)
				require.NoError(t, err)
				require.Equal(t, string(b), got)
			}
		})
	}
}

// TestDumpFiles tells of single files, recognized by path or by content.
func TestDumpFiles(t *testing.T) {
	ext := make([]byte, 60)
	binary.BigEndian.PutUint16(ext, 22)
	binary.BigEndian.PutUint64(ext[2:], 112785)
	binary.BigEndian.PutUint64(ext[10:], 1_700_000_000_000)
	binary.BigEndian.PutUint16(ext[18:], 2)
	ext[20], ext[21] = 0xAB, 0xCD
	unused := bytes.Clone(ext)
	binary.BigEndian.PutUint16(unused[22:], 0xFFFF)
	units := make([]byte, 100)
	for i := range 2 {
		binary.BigEndian.PutUint32(units[20*i+8:], 0x7FFFFFFF)
	}
	binary.BigEndian.PutUint64(units[60:], 1000)
	binary.BigEndian.PutUint32(units[68:], 150)
	ledger := ledgerEntry("a b", 3, 16, 50)
	ledger = append(ledger, ledgerEntry("t", 0, 0, 1)...)
	ledger = append(ledger, make([]byte, 21)...)
	const twenty = "00000000000000000000"
	m := message.MessageExt{LogOffset: 7_000_000, StoreTimestamp: 1_700_000_000_000}
	m.Topic, m.Body = "a b", bytes.Repeat([]byte("0123456789"), 7)
	m.BodyCRC = message.BodyCRC(m.Body)
	record := make([]byte, m.RecordSize()+8)
	m.PutRecord(record)
	message.PutBlank(record[m.RecordSize():], 8)
	line := `record @0 logOffset=7000000 size=164 topic="a b" queueId=0 queueOffset=0 storeTime=2023-11-14T22:13:20.000Z bornTime=0 ` +
		`bornHost=0.0.0.0:0 storeHost=0.0.0.0:0 sysFlag=0 flag=0 reconsumeTimes=0 preparedOffset=0 bodyCrc=1851009249 bodySize=70 properties="" ` +
		`body="0123456789012345678901234567890123456789012345678901234567890123"…`
	body := bytes.Clone(record)
	body[88] ^= 1
	tests := []struct {
		path string
		data []byte
		want []string
	}{
		{"consumequeue_ext/t/0/" + twenty, ext, []string{
			"is=consumequeue_ext size=60", "ext-unit @0 size=22 tagsCode=112785 storeTime=2023-11-14T22:13:20.000Z bitmap=abcd", "unused @22 size=38"}},
		{"consumequeue_ext/t/0/" + twenty, unused, []string{
			"is=consumequeue_ext size=60", "ext-unit @0 size=22 tagsCode=112785 storeTime=2023-11-14T22:13:20.000Z bitmap=abcd", "blank @22 left=38"}},
		{"consumequeue_ext/t/0/" + twenty, []byte("no ext unit"), []string{
			"is=consumequeue_ext size=11", `damage @0 size=11 why="behind the end, and not zero at byte 0"`}},
		{"consumequeue/t/0/00000000000000000200", units, []string{
			"is=consumequeue size=100", "blanks @0 queueOffset=10 count=2", "unused @40 size=20", "unit @60 queueOffset=13 logOffset=1000 size=150 tagsCode=0", "unused @80 size=20"}},
		{"elsewhere/" + twenty, units, []string{
			"is=consumequeue size=100", "blanks @0 queueOffset=0 count=2", "unused @40 size=20", "unit @60 queueOffset=3 logOffset=1000 size=150 tagsCode=0", "unused @80 size=20"}},
		{"elsewhere/copy of a log", record, []string{"is=commitlog size=172", line, "blank @164 logOffset=7000164 left=8"}},
		{"elsewhere/copy of a log", body, []string{"is=commitlog size=172",
			strings.ReplaceAll(line, `body="0`, `body="1`) + ` damage="body checksum 3732108a, the record says 6e5428e1"`, "blank @164 logOffset=7000164 left=8"}},
		{"commitlog/" + twenty, record, []string{
			"is=commitlog size=172", `damage @0 size=172 why="a record that was written for offset 7000000"`}},
		{"commitlog/99999999999999999999", record, []string{
			"is=commitlog size=172", line, "blank @164 logOffset=7000164 left=8"}},
		{"checkpoint", []byte("short"), []string{"is=checkpoint size=5", `damage @0 size=5 why="too short for its three times"`}},
		{"abort", nil, []string{"is=abort size=0", "text @0", ""}},
		{"lock", []byte("lock"), []string{"is=lock size=4", "text @0", "lock"}},
		{"config/consumerOffset.json", []byte("{\"offsetTable\":{\n\t\"a@g\":{0:1}}}"), []string{
			"is=config size=31", "json @0", "{\"offsetTable\":{", "\t\"a@g\":{0:1}}}"}},
		{"config/topics.json.bak", []byte("{"), []string{
			"is=config size=1", `damage @1 size=1 why="does not parse: unexpected EOF"`, "text @0", "{"}},
		{"elsewhere/copy", []byte("2e1472b57af294d1\n{}"), []string{"is=own size=19", "json @0 checksum=2e1472b57af294d1", "{}"}},
		{"pocketmq/store.json", []byte("0000000000000000\n{}"), []string{
			"is=own size=19", `damage @0 size=19 why="checksum \"0000000000000000\", that of the text is 2e1472b57af294d1"`, "text @0", "0000000000000000", "{}"}},
		{"pocketmq/queues.1", ledger, []string{
			"is=ledger size=69", `queue @0 topic="a b" queueId=3 first=16 max=50`, "queue @25 topic=t queueId=0 first=0 max=1", "unused @48 size=21"}},
		{"pocketmq/queues.0", ledger[:30], []string{
			"is=ledger size=30", `queue @0 topic="a b" queueId=3 first=16 max=50`, `damage @25 size=5 why="behind the end, and not zero at byte 26"`}},
		{"pocketmq/timers", timersFile(7, 3, 6), []string{
			"is=timers size=112", "timers @0 generation=5 next=7 last=1024 mark=2048 count=2",
			"timer @64 queueOffset=3 due=2023-11-14T22:13:20.003Z idHash=0000000000000003", "timer @88 queueOffset=6 due=2023-11-14T22:13:20.006Z idHash=0000000000000006"}},
		{"pocketmq/timers", timersFile(7, 6, 6), []string{"is=timers size=112", `damage @88 size=24 why="queue offset 6 is not in order"`}},
		{"pocketmq/timers", timersFile(7, 7), []string{"is=timers size=88", `damage @64 size=24 why="queue offset 7 is not in order"`}},
		{"pocketmq/timers", timersFile(7)[:63], []string{"is=timers size=63", `damage @63 size=0 why="ends after 63 bytes, its head has 64"`}},
		{"pocketmq/timers", make([]byte, 64), []string{"is=timers size=64", `damage @0 size=64 why="checksum does not match"`}},
		{"pocketmq/reserve", []byte("anything"), []string{"is=reserve size=8"}},
		{"pocketmq/owner", []byte("process 1"), []string{"is=owner size=9", "text @0", "process 1"}},
		{"index/20260101000000000", make([]byte, 500), []string{
			"is=index size=500", "index-head @0 beginTime=0 endTime=0 beginLogOffset=0 endLogOffset=0 usedSlots=0 nextEntry=1",
			`damage @40 size=460 why="its numbers of slots and entries can not be told"`}},
		{"index/20260101000000000", []byte("short"), []string{
			"is=index size=5", `damage @0 size=5 why="behind the end, and not zero at byte 0"`}},
	}
	for i, test := range tests {
		t.Run(fmt.Sprint(i, test.path), func(t *testing.T) {
			t.Chdir(t.TempDir())
			require.NoError(t, os.MkdirAll(filepath.Dir(test.path), 0o700))
			require.NoError(t, os.WriteFile(test.path, test.data, 0o600))
			text, lines := dumpText(t, test.path, inspect.DumpConfig{})
			require.Equal(t, fmt.Sprintf("file @0 %s %s\n", quoted(test.path), strings.Join(test.want, "\n")), text)
			for line := range strings.Lines(lines) {
				require.True(t, json.Valid([]byte(line)), line)
			}
		})
	}
}

func quoted(path string) string {
	if strings.Contains(path, " ") {
		return `"` + path + `"`
	}
	return path
}

func TestDumpEnds(t *testing.T) {
	dir, _ := newStore(t, 100)
	unknown := filepath.Join(dir, "notes")
	require.NoError(t, os.WriteFile(unknown, []byte("not ours"), 0o600))
	none := func(inspect.Entry) error { return nil }
	require.ErrorIs(t, inspect.Dump(t.Context(), unknown, inspect.DumpConfig{}, none), inspect.ErrUnknownFile)
	require.ErrorIs(t, inspect.Dump(t.Context(), filepath.Join(dir, "missing"), inspect.DumpConfig{}, none), os.ErrNotExist)
	enough := errors.New("enough")
	require.ErrorIs(t, inspect.Dump(t.Context(), dir, inspect.DumpConfig{}, func(inspect.Entry) error { return enough }), enough)
	kinds := map[inspect.EntryKind]int{}
	require.NoError(t, inspect.Dump(t.Context(), dir, inspect.DumpConfig{}, func(e inspect.Entry) error {
		kinds[e.Kind]++
		return nil
	}))
	require.Equal(t, 100, kinds[inspect.EntryRecord])
	require.Equal(t, 100, kinds[inspect.EntryUnit])
	require.Equal(t, 2, kinds[inspect.EntryBlank])
	require.Equal(t, 2, kinds[inspect.EntryJSON])
	require.Zero(t, kinds[inspect.EntryDamage])
}

// TestEntryJSON keeps the order of fields, and bytes that are no text.
func TestEntryJSON(t *testing.T) {
	b, err := json.Marshal(inspect.Entry{File: "f", Offset: 7, Kind: inspect.EntryRecord, Fields: []inspect.Field{
		{Name: "topic", Value: "a<b"}, {Name: "storeTime", Value: time.UnixMilli(1)}, {Name: "body", Value: []byte("text")},
		{Name: "properties", Value: []byte{0xff}}, {Name: "size", Value: int64(-1)}, {Name: "filler", Value: true},
	}})
	require.NoError(t, err)
	require.Equal(t, `{"kind":"record","file":"f","offset":7,"topic":"a\u003cb","storeTime":"1970-01-01T00:00:00.001Z","body":"text","propertiesBase64":"/w==","size":-1,"filler":true}`, string(b))
}
