package interop

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pocketmq/pocketmq/message"
)

// undoTorn takes away the record that a kill of RocketMQ has left half copied, as if
// the kill had come before it. RocketMQ copies a record into its mapped file, and a
// process that is killed ends where it waits for a page. Its checksum is of the body
// alone, so RocketMQ serves a record whose body is whole and whose properties end
// with zeros; nobody was told that it is stored.
func (d *directory) undoTorn() error {
	files, err := filepath.Glob(filepath.Join(d.path, "commitlog", "*"))
	errs := []error{err}
	for _, path := range files {
		log, err := os.ReadFile(path)
		errs = append(errs, err)
		if at := tornRecord(log); at >= 0 {
			clear(log[at:])
			errs = append(errs, os.WriteFile(path, log, 0o600))
		}
	}
	return errors.Join(errs...)
}

// tornRecord is where the record is whose properties end with a zero, which those of
// the workload never do; -1 when there is none.
func tornRecord(log []byte) int {
	for at := 0; at < len(log); {
		v, kind, err := message.ReadRecord(log[at:])
		if err != nil || kind != message.KindRecord {
			return -1
		}
		if bytes.HasSuffix(v.Properties(), []byte{0}) {
			return at
		}
		at += v.Size()
	}
	return -1
}

// TestTornRecord cuts the last of some records at each of its bytes.
func TestTornRecord(t *testing.T) {
	m := message.MessageExt{Message: message.Message{Topic: "t", Body: []byte("body"), Properties: "TAGS\x01TagB\x02KEYS\x01k"}}
	record := make([]byte, m.RecordSize())
	m.PutRecord(record)
	whole := append(append(bytes.Clone(record), record...), make([]byte, 100)...)
	if at := tornRecord(whole); at != -1 {
		t.Errorf("nothing is torn, found %d", at)
	}
	properties := 2*len(record) - len(m.Properties)
	for cut := properties; cut < 2*len(record); cut++ {
		log := bytes.Clone(whole)
		clear(log[cut:])
		if at := tornRecord(log); at != len(record) {
			t.Errorf("cut at %d: found %d, want %d", cut, at, len(record))
		}
	}
}
