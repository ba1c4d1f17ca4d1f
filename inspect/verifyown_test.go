package inspect_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/inspect"
)

// ledgerEntry is an entry of pocketmq/queues.0 and queues.1.
func ledgerEntry(topic string, id uint32, first, after uint64) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(topic)))
	b = append(b, topic...)
	b = binary.BigEndian.AppendUint32(b, id)
	b = binary.BigEndian.AppendUint64(b, first)
	return binary.BigEndian.AppendUint64(b, after)
}

// sealed is a JSON file of pocketmq/.
func sealed(text []byte) []byte {
	return append(fmt.Appendf(nil, "%016x\n", xxhash.Sum64(text)), text...)
}

// own is a JSON file of pocketmq/ that a test changes.
type own map[string]any

// changeOwn lets f change a JSON file of pocketmq/, and seals it again.
func changeOwn(t *testing.T, dir, name string, f func(own)) {
	t.Helper()
	path := filepath.Join(dir, "pocketmq", name)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	v := own{}
	d := json.NewDecoder(bytes.NewReader(b[17:]))
	d.UseNumber() // checksums have 64 bits
	require.NoError(t, d.Decode(&v))
	f(v)
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, sealed(text), 0o600))
}

// timersFile is pocketmq/timers with such queue offsets.
func timersFile(next uint64, offsets ...uint64) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 8), 5)
	b = append(b, "PMQTIMER\x00\x00\x00\x01\x00\x00\x00\x00"...)
	for _, n := range []uint64{next, 1024, 2048, uint64(len(offsets))} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	for _, off := range offsets {
		b = binary.BigEndian.AppendUint64(b, off)
		b = binary.BigEndian.AppendUint64(b, 1_700_000_000_000+off)
		b = binary.BigEndian.AppendUint64(b, off)
	}
	binary.BigEndian.PutUint64(b, xxhash.Sum64(b[8:]))
	return b
}

// changeLedger replaces the ledger, and lets the recovery point name it.
func changeLedger(t *testing.T, dir string, f func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(dir, "pocketmq", "queues.0")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b = f(b)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	changeOwn(t, dir, "recovery.json", func(v own) {
		v["queues"] = own{"file": "queues.0", "bytes": len(b), "sum": json.Number(fmt.Sprint(xxhash.Sum64(b)))}
	})
}

// TestVerifyFindsOwnDamage has files in pocketmq/ that match their checksums, and
// not what they are of. The store has 10 messages, 5 in each of two queues.
func TestVerifyFindsOwnDamage(t *testing.T) {
	point := func(f func(own)) func(*testing.T, string) {
		return func(t *testing.T, dir string) { changeOwn(t, dir, "recovery.json", f) }
	}
	primary := func(f func(own)) func(*testing.T, string) {
		return func(t *testing.T, dir string) { changeOwn(t, dir, "store.json", f) }
	}
	ledger := func(f func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, dir string) { changeLedger(t, dir, f) }
	}
	last := func(name string, value any) func(*testing.T, string) {
		return point(func(v own) { v["last"].(map[string]any)[name] = value })
	}
	tests := []struct {
		name  string
		spoil func(t *testing.T, dir string)
		want  []string // regular expressions
	}{
		{"nothing", func(*testing.T, string) {}, nil},
		{"timers", func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "pocketmq", "timers"), timersFile(7, 3, 6), 0o600))
		}, nil},
		{"timers damaged", func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "pocketmq", "timers"), timersFile(7, 3, 3), 0o600))
		}, []string{`error own-file: pocketmq/timers\+88: queue offset 3 is not in order`}},
		{"newer", primary(func(v own) { v["format"], v["storeHost"] = 2, "as it likes" }), []string{
			`error format: pocketmq/store.json\+0: format version 2, this program reads up to 1`}},
		{"no host", primary(func(v own) { v["storeHost"] = "nowhere" }), []string{
			`error own-file: pocketmq/store.json\+0: storeHost: .*nowhere.*`}},
		{"no slots", primary(func(v own) { v["index"] = own{"slots": 0, "entries": 7} }), []string{
			`error own-file: pocketmq/store.json\+0: index: 0 slots and 7 entries, at least 1 and 2 are needed`}},
		{"other type", primary(func(v own) { v["format"] = "one" }), []string{
			`error own-file: pocketmq/store.json\+0: does not parse: json: cannot unmarshal string .*`}},
		{"point of other type", point(func(v own) { v["logOffset"] = "one" }), []string{
			`error own-file: pocketmq/recovery.json\+0: does not parse: json: cannot unmarshal string .*`}},
		{"generation", primary(func(v own) { v["generation"] = 7 }), []string{
			`note own-file: pocketmq/recovery.json\+0: is of generation 0, the store of 7: .*`}},
		{"size of log files", point(func(v own) { v["segmentSize"] = 4096 }), []string{
			`error file-size: commitlog/0{20}\+0: has 8192 bytes, files of the log had 4096`}},
		{"behind the log", point(func(v own) { v["logOffset"] = 100000 }), []string{
			`error own-file: pocketmq/recovery.json\+0: vouches for the log up to 100000, it ends at 1730`}},
		{"before its record", point(func(v own) { v["logOffset"] = 1700 }), []string{
			`error own-file: pocketmq/recovery.json\+0: vouches for the log up to 1700, but its last record ends at 1730`}},
		{"before the log", last("logOffset", -173), []string{
			`note own-file: pocketmq/recovery.json\+0: names the record at log offset -173, which is not in the log any more`}},
		{"hash", last("hash", 1), []string{
			`error own-file: pocketmq/recovery.json\+0: names a record of 173 bytes at log offset 1557 with checksum 0{15}1, stored at 1700000000010 ms; there is one of 173 bytes with [0-9a-f]{16}, stored at 1700000000010`}},
		{"time", last("storeTimestamp", 5), []string{
			`error own-file: pocketmq/recovery.json\+0: names a record of 173 bytes .*, stored at 5 ms; there is one .*`}},
		{"size", last("size", 172), []string{
			`error own-file: pocketmq/recovery.json\+0: names a record of 172 bytes .*; there is one of 173 bytes .*`}},
		{"ledger by another name", point(func(v own) { v["queues"].(map[string]any)["file"] = "../lock" }), []string{
			`error own-file: pocketmq/recovery.json\+0: names "../lock" as its ledger`}},
		{"ledger missing", func(t *testing.T, dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "pocketmq", "queues.0")))
		}, []string{
			`error own-file: pocketmq/recovery.json\+0: its ledger queues.0 is missing`}},
		{"ledger short", func(t *testing.T, dir string) {
			require.NoError(t, os.Truncate(filepath.Join(dir, "pocketmq", "queues.0"), 45))
		}, []string{
			`error own-file: pocketmq/recovery.json\+0: names 46 bytes of its ledger queues.0, which has 45`}},
		{"ledger damaged", func(t *testing.T, dir string) {
			change(t, filepath.Join(dir, "pocketmq", "queues.0"), func(b []byte) { b[45] ^= 1 })
		}, []string{
			`error own-file: pocketmq/recovery.json\+0: names checksum [0-9a-f]{16} for its ledger queues.0, that of the 46 bytes is [0-9a-f]{16}`}},
		{"of a point not completed", func(t *testing.T, dir string) {
			f, err := os.OpenFile(filepath.Join(dir, "pocketmq", "queues.0"), os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.Write(ledgerEntry("a", 0, 0, 99))
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}, nil},
		{"no entry", ledger(func(b []byte) []byte { return append(b, 0) }), []string{
			`error own-file: pocketmq/queues.0\+46: the last 1 bytes are no entry`}},
		{"unknown queue", ledger(func(b []byte) []byte { return append(b, ledgerEntry("c", 2, 1, 3)...) }), []string{
			`error own-file: pocketmq/queues.0\+46: names queue "c"/2 with messages \[1, 3\), which has no file`}},
		{"more messages", ledger(func(b []byte) []byte { return append(b, ledgerEntry("b", 1, 0, 6)...) }), []string{
			`error own-file: pocketmq/queues.0\+46: names queue "b"/1 with messages \[0, 6\), its files end at 5`}},
		{"out of date", ledger(func(b []byte) []byte { return append(ledgerEntry("b", 1, 0, 6), b...) }), nil},
	}
	sound, _ := newStore(t, 10)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(sound)))
			test.spoil(t, dir)
			_, found := verify(t, dir)
			require.Len(t, found, len(test.want), "%q", found)
			for i, want := range test.want {
				require.Regexp(t, "^"+want+"$", found[i])
			}
		})
	}
}

// TestDumpLedger tells what a store wrote.
func TestDumpLedger(t *testing.T) {
	dir, _ := newStore(t, 10)
	t.Chdir(filepath.Join(dir, "pocketmq"))
	var queues []string
	require.NoError(t, inspect.Dump(t.Context(), "queues.0", inspect.DumpConfig{}, func(e inspect.Entry) error {
		if e.Kind == inspect.EntryQueue {
			queues = append(queues, e.String())
		}
		return nil
	}))
	require.Len(t, queues, 2)
	require.ElementsMatch(t, []string{"topic=a queueId=0 first=0 max=5", "topic=b queueId=1 first=0 max=5"},
		[]string{queues[0][len("queue @0 "):], queues[1][len("queue @23 "):]})
}
