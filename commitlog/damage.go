package commitlog

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/pocketmq/pocketmq/message"
)

// Damage is a range of the log, [From, To), that can not be read. The bytes are
// left as they are.
type Damage struct {
	From, To message.LogOffset
	File     string // path of the file that holds From
	Err      error  // what is wrong at From
}

// Error makes a Damage usable as an error; it matches message.ErrCorrupt.
func (d Damage) Error() string {
	return fmt.Sprintf("corrupt data in %s at offset %d, up to %d: %v", d.File, d.From, d.To, d.Err)
}

// Is makes errors.Is(err, message.ErrCorrupt) true.
func (d Damage) Is(target error) bool { return target == message.ErrCorrupt }

// Unwrap returns what is wrong.
func (d Damage) Unwrap() error { return d.Err }

// Damaged lists the ranges known to be unreadable, in log order: those that
// Recover or a Scan met.
func (l *Log) Damaged() []Damage {
	l.damageMu.Lock()
	defer l.damageMu.Unlock()
	return append([]Damage(nil), l.damage...)
}

// knownDamage returns the end of the known damage that starts at pos.
func (l *Log) knownDamage(pos int64) (end int64, ok bool) {
	l.damageMu.Lock()
	defer l.damageMu.Unlock()
	for _, d := range l.damage {
		if int64(d.From) == pos {
			return int64(d.To), true
		}
	}
	return 0, false
}

func (l *Log) addDamage(d Damage) {
	l.damageMu.Lock()
	l.damage = append(l.damage, d)
	l.damageMu.Unlock()
	if l.cfg.Damaged != nil {
		l.cfg.Damaged(d)
	}
}

// nextRecord looks for the first position in (after, limit) at which a sound
// record lies that is not older than notBefore (ms). A record counts only if it
// names its own position, so old bytes copied elsewhere, or behind a cut, are
// not taken for one.
func (l *Log) nextRecord(after, limit, notBefore int64) (int64, bool) {
	for _, f := range l.files.Snapshot() {
		if f.Base()+l.size <= after || f.Base() >= limit {
			continue
		}
		if !f.Pin() {
			continue
		}
		from := max(0, after+1-f.Base())
		pos, ok, err := searchFile(f, from, min(l.size, limit-f.Base()), notBefore)
		f.Unpin()
		if err == nil && ok {
			return pos, true
		}
	}
	return 0, false
}

var recordMagicBytes = binary.BigEndian.AppendUint32(nil, message.RecordMagic)

func search(b []byte, base, from, notBefore int64) (int64, bool) {
	for p := from; p < int64(len(b)); p++ {
		i := bytes.Index(b[p:], recordMagicBytes)
		if i < 0 {
			return 0, false
		}
		p += int64(i) // the magic follows the size, 4 bytes into a record
		start := p - 4
		if start < from {
			continue
		}
		v, kind, _ := message.ReadRecord(b[start:])
		if kind == message.KindRecord && int64(v.LogOffset()) == base+start &&
			v.StoreTimestamp() >= notBefore && v.Check() == nil {
			return base + start, true
		}
	}
	return 0, false
}
