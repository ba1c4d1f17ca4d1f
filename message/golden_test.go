package message_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pocketmq/pocketmq/internal/golden"
	"github.com/pocketmq/pocketmq/message"
)

// goldenRecords is the number of records in all archives together, so that a
// test that walks nothing can not pass.
const goldenRecords = 9742

// damagedRecords are the places in the archives where something else than
// records, blanks and zeros lies, and what it is.
var damagedRecords = map[string]struct {
	offset int64
	size   int64 // what lies there, after which records go on; 0: nothing follows
	why    string
}{
	"topic_utf8_overlong/store.tar.gz":   {846, 388, "a topic of 257 bytes, whose length byte says 1"},
	"crash_tail_torn/store.tar.gz":       {365227, 0, "the second half of the last record is zeros"},
	"crash_tail_torn/store_after.tar.gz": {365227, 0, "RocketMQ leaves what it cut"},
}

// TestGoldenRecords decodes every record that RocketMQ wrote and encodes it
// again to the same bytes. Where the record belongs to a put, it holds what was
// put.
func TestGoldenRecords(t *testing.T) {
	names, err := golden.Cases()
	if err != nil {
		t.Fatal(err)
	}
	var records, cases atomic.Int64
	t.Run("cases", func(t *testing.T) {
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c, err := golden.Load(name)
				if err != nil {
					t.Fatal(err)
				}
				records.Add(int64(checkCase(t, c)))
				cases.Add(1)
			})
		}
	})
	if cases.Load() == int64(len(names)) && records.Load() != goldenRecords {
		t.Errorf("%d records were checked, there are %d", records.Load(), goldenRecords)
	}
}

// checkCase checks the logs of all archives of a case and returns the number of
// records in them.
func checkCase(t *testing.T, c *golden.Case) int {
	t.Helper()
	n := checkArchive(t, c, golden.StoreArchive, c.Puts)
	if c.Has(golden.AfterArchive) {
		n += checkArchive(t, c, golden.AfterArchive, c.Puts)
	}
	for _, g := range c.Groups {
		if g.Store != "" {
			n += checkArchive(t, c, g.Store, g.Puts)
		}
	}
	return n
}

func checkArchive(t *testing.T, c *golden.Case, archive string, puts []golden.Put) int {
	t.Helper()
	log := unpackLog(t, c, archive)
	place := c.Case + "/" + archive
	views := records(t, place, log)
	for _, v := range views {
		if err := errors.Join(checkRoundTrip(v), checkOutline(v)); err != nil {
			t.Errorf("%s: record at %d: %v", place, v.LogOffset(), err)
		}
	}
	checkPuts(t, place, log, views, puts)
	return len(views)
}

// unpackLog reads the commit log of an archive.
func unpackLog(t *testing.T, c *golden.Case, archive string) *golden.Log {
	t.Helper()
	dir := t.TempDir()
	if err := c.Unpack(archive, dir); err != nil {
		t.Fatal(err)
	}
	if c.Case == "crash_file_short" { // the file has only zeros and the wrong length
		if err := os.Remove(filepath.Join(dir, "commitlog", "00000000000000393216")); err != nil {
			t.Fatal(err)
		}
	}
	log, err := golden.ReadLog(dir, c.Config.MappedFileSizeCommitLog)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// records walks the whole log, over damaged places too, by log offset.
func records(t *testing.T, place string, log *golden.Log) map[int64]message.View {
	t.Helper()
	views := make(map[int64]message.View)
	for off := log.Start; log.At(off) != nil; {
		b := log.At(off)
		v, kind, err := message.ReadRecord(b)
		if kind == message.KindRecord && v.CheckBody() != nil {
			kind, err = message.KindDamaged, v.CheckBody()
		}
		if (kind == message.KindDamaged) != errors.Is(err, message.ErrCorrupt) {
			t.Errorf("%s: %s at %d with error %v", place, kind, off, err)
		}
		switch kind {
		case message.KindRecord:
			views[off] = v
			off += int64(v.Size())
		case message.KindBlank:
			off += int64(len(b))
		case message.KindNothing:
			return views
		default:
			known, ok := damagedRecords[place]
			if !ok || known.offset != off {
				t.Errorf("%s: damaged at %d: %v", place, off, err)
				return views
			}
			if known.size == 0 {
				return views
			}
			off += known.size
		}
	}
	return views
}

// checkRoundTrip decodes a record and encodes it again.
func checkRoundTrip(v message.View) error {
	m := v.Message()
	if m.RecordSize() != v.Size() {
		return fmt.Errorf("encoded, it takes %d bytes instead of %d", m.RecordSize(), v.Size())
	}
	b := make([]byte, m.RecordSize())
	m.PutRecord(b)
	if !bytes.Equal(b, v.Raw()) {
		return fmt.Errorf("encoded, it is\n%x, not\n%x", b, v.Raw())
	}
	return nil
}

// checkPuts compares the record of each put with input and result.
func checkPuts(t *testing.T, place string, log *golden.Log, views map[int64]message.View, puts []golden.Put) {
	t.Helper()
	known, damaged := damagedRecords[place]
	for i := range puts {
		p := &puts[i]
		off := p.Result.WroteOffset
		switch {
		case !p.Placed() || log.At(off) == nil || off < log.Start:
			continue // refused, or its file was deleted
		case damaged && off == known.offset:
			continue
		case views[off].Size() == 0 && cutOff(place, off):
			continue
		}
		if err := checkPut(views, p); err != nil {
			t.Errorf("%s: put %d: %v", place, p.N, err)
		}
	}
}

// cutOff reports whether a record was wiped out before the archive was packed.
func cutOff(place string, off int64) bool {
	return strings.HasPrefix(place, "crash_tail_zero/") && off >= 363689
}

// checkPut compares the records that one put made.
func checkPut(views map[int64]message.View, p *golden.Put) error {
	want, err := wantRecords(p)
	if err != nil {
		return err
	}
	off := p.Result.WroteOffset
	var ids []string
	for i := range want {
		v, ok := views[off]
		if !ok {
			return fmt.Errorf("no record at %d", off)
		}
		if err := compareRecord(v.Message(), want[i], off, p.Result.LogicsOffset+int64(i)); err != nil {
			return fmt.Errorf("record at %d: %w", off, err)
		}
		m := v.Message()
		ids = append(ids, m.OffsetMessageID().String())
		off += int64(v.Size())
	}
	if int(off-p.Result.WroteOffset) != p.Result.WroteBytes {
		return fmt.Errorf("%d bytes instead of %d", off-p.Result.WroteOffset, p.Result.WroteBytes)
	}
	if got := strings.Join(ids, ","); p.Result.MsgID == nil || got != *p.Result.MsgID {
		return fmt.Errorf("message id %s", got)
	}
	return checkIDs(ids, p)
}

// checkIDs parses ids back.
func checkIDs(ids []string, p *golden.Put) error {
	for _, text := range ids {
		id, err := message.ParseOffsetMessageID(text)
		if err != nil {
			return err
		}
		if id.String() != text || id.Host.String() != p.StoreHost {
			return fmt.Errorf("id %s is read as host %s, offset %d", text, id.Host, id.Offset)
		}
	}
	return nil
}

// wantRecords is what a put should have left, without the offsets.
func wantRecords(p *golden.Put) ([]message.MessageExt, error) {
	in, err := p.Message()
	if err != nil {
		return nil, err
	}
	m := in.MessageExt
	m.Topic, m.QueueID, m.SysFlag = p.Stored.Topic, p.Stored.QueueID, message.SysFlag(p.Stored.SysFlag)
	m.StoreTimestamp = p.Result.StoreTimestamp
	if !p.Batch() {
		m.Properties = message.Properties(p.Stored.PropertiesString)
		m.BodyCRC = p.Stored.BodyCRC
		return []message.MessageExt{m}, nil
	}
	if p.EncodedBatchBase64 != nil && !bytes.Equal(m.Body, *p.EncodedBatchBase64) {
		return nil, fmt.Errorf("the batch is encoded to\n%x, not\n%x", m.Body, *p.EncodedBatchBase64)
	}
	var all []message.MessageExt
	for e, err := range message.BatchElements(m.Body) {
		if err != nil {
			return nil, err
		}
		one := m
		one.Flag, one.Body, one.PreparedTransactionOffset = e.Flag, e.Body, 0
		one.Properties = message.JoinProperties(e.Properties, m.Properties)
		one.BodyCRC = message.BodyCRC(e.Body)
		all = append(all, one)
	}
	if len(all) != p.Result.MsgNum || len(all) != len(p.Elements) {
		return nil, fmt.Errorf("%d elements", len(all))
	}
	return all, nil
}

// compareRecord compares a record with what should be in it.
func compareRecord(got, want message.MessageExt, off, queueOffset int64) error {
	if !want.SysFlag.Queued() {
		queueOffset = 0
	}
	want.LogOffset, want.QueueOffset = message.LogOffset(off), message.QueueOffset(queueOffset)
	want.StoreSize = int32(want.RecordSize())
	if !bytes.Equal(got.Body, want.Body) || got.BodyCRC != message.BodyCRC(want.Body) {
		return errors.New("another body")
	}
	got.Body, want.Body = nil, nil
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		return fmt.Errorf("\ngot  %s\nwant %s", g, w)
	}
	return nil
}
