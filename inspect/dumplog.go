package inspect

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"time"

	"github.com/pocketmq/pocketmq/message"
)

// log tells of a file of the log.
func (d *dumper) log() error {
	base, named := d.base()
	if !named { // the first record knows
		var b [36]byte
		if n, _ := d.file.ReadAt(b[:], 0); n == len(b) && binary.BigEndian.Uint32(b[4:]) == message.RecordMagic {
			base = max(0, int64(binary.BigEndian.Uint64(b[28:])))
		}
	}
	if base > 1<<62 { // no log is that long
		return d.rest(0)
	}
	w := newWalk(newLogReader(filepath.Dir(d.path), []File{{d.path, base, d.size}}, logChunk), want{views: true})
	w.whole = true
	defer w.close()
	for {
		it, ok, err := w.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if it.to <= d.cfg.From {
			if err := d.ctx.Err(); err != nil {
				return err
			}
			continue
		}
		if err := d.logItem(it, base); err != nil {
			return err
		}
	}
	if w.tail != nil && w.pos < base+d.size {
		return d.tell(w.pos-base, EntryDamage, Field{"size", base + d.size - w.pos}, Field{"why", plain(w.tail)})
	}
	return d.rest(w.pos - base)
}

func (d *dumper) logItem(it *item, base int64) error {
	at := it.pos - base
	switch it.kind {
	case message.KindRecord:
		return d.item(at, EntryRecord, recordFields(it)...)
	case message.KindBlank:
		return d.item(at, EntryBlank, Field{"logOffset", it.pos}, Field{"left", int64(it.blank)})
	}
	return d.item(at, EntryDamage, Field{"size", it.to - it.pos}, Field{"why", plain(it.damage)})
}

// plain is the text of an error without the words that all of them begin with.
func plain(err error) string {
	text := err.Error()
	if prefix := message.ErrCorrupt.Error() + ": "; errors.Is(err, message.ErrCorrupt) && len(text) > len(prefix) && text[:len(prefix)] == prefix {
		return text[len(prefix):]
	}
	return text
}

func recordFields(it *item) []Field {
	v := it.view
	fields := []Field{
		{"logOffset", int64(v.LogOffset())}, {"size", int64(v.Size())},
		{"topic", string(v.Topic())}, {"queueId", int64(v.QueueID())}, {"queueOffset", int64(v.QueueOffset())},
		{"storeTime", time.UnixMilli(v.StoreTimestamp())}, {"bornTime", time.UnixMilli(v.BornTimestamp())},
		{"bornHost", v.BornHost().String()}, {"storeHost", v.StoreHost().String()},
		{"sysFlag", int64(v.SysFlag())}, {"flag", int64(v.Flag())}, {"reconsumeTimes", int64(v.ReconsumeTimes())},
		{"preparedOffset", int64(v.PreparedTransactionOffset())}, {"bodyCrc", int64(v.BodyCRC())}, {"bodySize", int64(len(v.Body()))},
		{"properties", v.Properties()}, {"body", v.Body()},
	}
	if IsFiller(v) {
		fields = append(fields, Field{"filler", true})
	}
	if it.damage != nil {
		fields = append(fields, Field{"damage", plain(it.damage)})
	}
	return fields
}
