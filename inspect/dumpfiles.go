package inspect

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/indexfile"
	"github.com/pocketmq/pocketmq/internal/barekeys"
	"github.com/pocketmq/pocketmq/message"
)

// units tells of a file of a consume queue.
func (d *dumper) units() error {
	base, _ := d.base()
	first := base / unitSize
	used, err := usedUnits("", File{d.path, 0, d.size})
	if err != nil {
		return err
	}
	q := window{space: space{files: []File{{d.path, 0, d.size}}}, chunk: 64 << 10 / unitSize * unitSize}
	defer q.close()
	for n := max(0, d.cfg.From-first); n < used; {
		u, to, err := runOfUnits(&q, n, used)
		if err != nil {
			return err
		}
		at := n * unitSize
		switch {
		case u.IsBlank():
			err = d.item(at, EntryBlanks, Field{"queueOffset", first + n}, Field{"count", to - n})
		case u == (consumequeue.Unit{}):
			err = d.item(at, EntryUnused, Field{"size", (to - n) * unitSize})
		default:
			err = d.item(at, EntryUnit, Field{"queueOffset", first + n}, Field{"logOffset", int64(u.LogOffset)}, Field{"size", int64(u.Size)}, Field{"tagsCode", u.TagsCode})
		}
		if err != nil {
			return err
		}
		n = to
	}
	return d.rest(used * unitSize)
}

// runOfUnits returns unit n, and the number behind it: behind all that follow and
// are blank, or zero, as it is.
func runOfUnits(q *window, n, end int64) (u consumequeue.Unit, to int64, err error) {
	for to = n; to < end; to++ {
		b, err := q.from(to*unitSize, unitSize)
		if err != nil {
			return u, 0, err
		}
		if len(b) < unitSize { // the file has become shorter
			return u, end, nil
		}
		next := consumequeue.ParseUnit(b)
		if to > n && next != u {
			return u, to, nil
		}
		u = next
		if !u.IsBlank() && u != (consumequeue.Unit{}) {
			return u, to + 1, nil
		}
	}
	return u, to, nil
}

// Unit of consumequeue_ext, big-endian. A size of -1 means that the rest of the
// file is unused.
//
//	offset size field
//	     0    2 size      of the unit, 20 and the bytes of the bitmap
//	     2    8 tagsCode
//	    10    8 storeTime of the record, ms
//	    18    2 bitmap    its bytes
//	    20    n bitmap
//
// Source: RocketMQ store/ConsumeQueueExt.java, CqExtUnit.
const extUnitSize = 20

// extUnits tells of a file of consumequeue_ext.
func (d *dumper) extUnits() error {
	w := window{space: space{files: []File{{d.path, 0, d.size}}}, chunk: 64 << 10}
	defer w.close()
	for at := int64(0); at < d.size; {
		b, err := w.from(at, int(min(d.size-at, 1<<15)))
		if err != nil {
			return err
		}
		if len(b) < 2 {
			return d.rest(at)
		}
		size := int(int16(binary.BigEndian.Uint16(b)))
		if size == -1 {
			return d.tell(at, EntryBlank, Field{"left", d.size - at})
		}
		if size < extUnitSize || size > len(b) || int(int16(binary.BigEndian.Uint16(b[18:]))) != size-extUnitSize {
			return d.rest(at)
		}
		err = d.item(at, EntryExtUnit, Field{"size", int64(size)}, Field{"tagsCode", int64(binary.BigEndian.Uint64(b[2:]))},
			Field{"storeTime", time.UnixMilli(int64(binary.BigEndian.Uint64(b[10:])))}, Field{"bitmap", hex.EncodeToString(b[extUnitSize:size])})
		if err != nil {
			return err
		}
		at += int64(size)
	}
	return nil
}

// index tells of a file of the index.
func (d *dumper) index() error {
	f, err := readIndexFile(d.path)
	if err != nil {
		return err
	}
	if f.size < indexfile.HeaderSize {
		return d.rest(0)
	}
	h := f.header
	err = d.tell(0, EntryHeader, Field{"beginTime", time.UnixMilli(h.BeginTimestamp)}, Field{"endTime", time.UnixMilli(h.EndTimestamp)},
		Field{"beginLogOffset", int64(h.BeginLogOffset)}, Field{"endLogOffset", int64(h.EndLogOffset)},
		Field{"usedSlots", int64(h.SlotCount)}, Field{"nextEntry", int64(h.Count)})
	if err != nil {
		return err
	}
	g, err := f.findGeometry()
	if errors.Is(err, message.ErrCorrupt) {
		return d.tell(indexfile.HeaderSize, EntryDamage, Field{"size", f.size - indexfile.HeaderSize}, Field{"why", plain(err)})
	}
	if err != nil {
		return err
	}
	if err := d.slots(g); err != nil {
		return err
	}
	for e := max(1, d.cfg.From); e < int64(min(h.Count, g.entries)); e++ {
		x, err := readEntry(d.file, g, int32(e))
		if err != nil {
			return err
		}
		err = d.item(g.entryAt(int32(e)), EntryIndex, Field{"entry", e}, Field{"slot", int64(max(0, x.Hash) % g.slots)}, Field{"hash", int64(x.Hash)},
			Field{"logOffset", int64(x.LogOffset)}, Field{"storeTime", time.UnixMilli(h.BeginTimestamp + 1000*int64(x.Seconds))}, Field{"previous", int64(x.Prev)})
		if err != nil {
			return err
		}
	}
	return d.rest(g.entryAt(min(h.Count, g.entries)))
}

// slots counts the slots in use.
func (d *dumper) slots(g geometry) error {
	var used int64
	buf := make([]byte, 64<<10)
	for s := int32(0); s < g.slots; {
		b := buf[:min(int64(len(buf)), int64(g.slots-s)*indexfile.SlotSize)]
		if _, err := d.file.ReadAt(b, g.slotAt(s)); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for ; len(b) > 0; b = b[indexfile.SlotSize:] {
			if binary.BigEndian.Uint32(b) != 0 {
				used++
			}
			s++
		}
	}
	return d.tell(indexfile.HeaderSize, EntrySlots, Field{"slots", int64(g.slots)}, Field{"used", used}, Field{"places", int64(g.entries)})
}

// checkpoint tells of the checkpoint.
func (d *dumper) checkpoint() error {
	var b [24]byte
	if n, err := d.file.ReadAt(b[:], 0); n < len(b) {
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return d.tell(0, EntryDamage, Field{"size", d.size}, Field{"why", "too short for its three times"})
	}
	at := func(i int) time.Time { return time.UnixMilli(int64(binary.BigEndian.Uint64(b[8*i:]))) }
	if err := d.tell(0, EntryCheckpoint, Field{"log", at(0)}, Field{"queues", at(1)}, Field{"index", at(2)}); err != nil {
		return err
	}
	return d.rest(int64(len(b)))
}

// maxText is how much of a text is passed through.
const maxText = 64 << 20

func (d *dumper) all() ([]byte, error) {
	b, err := io.ReadAll(io.NewSectionReader(d.file, 0, min(d.size, maxText)))
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return nil, err
	}
	return b, nil
}

// text tells of abort, lock and owner.
func (d *dumper) text() error {
	b, err := d.all()
	if err != nil {
		return err
	}
	return d.tell(0, EntryText, Field{"text", b})
}

// config passes JSON through.
func (d *dumper) config() error {
	b, err := d.all()
	if err != nil {
		return err
	}
	return d.json(b, checkConfig(b))
}

func (d *dumper) own() error {
	b, err := d.all()
	if err != nil {
		return err
	}
	text, why := ownText(b)
	if why != nil {
		return d.json(b, why)
	}
	return d.json(text, nil, Field{"checksum", string(b[:16])})
}

// ledger tells of a ledger. Behind what the recovery point names of it may lie
// what was written for a point that was not completed.
func (d *dumper) ledger() error {
	b, err := d.all()
	if err != nil {
		return err
	}
	at := 0
	for {
		e, ok := parseLedgerEntry(b[at:])
		if !ok {
			return d.rest(int64(at))
		}
		err := d.item(int64(at), EntryQueue, Field{"topic", e.topic}, Field{"queueId", int64(e.id)}, Field{"first", e.first}, Field{"max", e.max})
		if err != nil {
			return err
		}
		at += e.size
	}
}

// reserve says nothing more: what is in it does not matter.
func (d *dumper) reserve() error { return nil }

// json passes a text through, which is JSON if why is nil.
func (d *dumper) json(text []byte, why error, fields ...Field) error {
	if why != nil {
		if err := d.tell(offsetOf(why), EntryDamage, Field{"size", int64(len(text))}, Field{"why", why.Error()}); err != nil {
			return err
		}
		return d.tell(0, EntryText, Field{"text", text})
	}
	return d.tell(0, EntryJSON, append(fields, Field{"text", jsonText(text)})...)
}

// jsonText is the text of a file as it is; as JSON it has its keys in quotation
// marks.
type jsonText []byte

// MarshalJSON implements json.Marshaler.
func (t jsonText) MarshalJSON() ([]byte, error) { return barekeys.Quote(t), nil }

var _ json.Marshaler = jsonText(nil)
