package inspect

import (
	"cmp"
	"slices"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/message"
)

// verifyLog goes through the log, record by record.
func (v *verifier) verifyLog() error {
	total := v.log.end() - v.walk.pos
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if err := v.ctx.Err(); err != nil {
				return err
			}
			if v.cfg.Progress != nil {
				v.cfg.Progress(v.walk.pos-int64(v.sum.LogStart), total)
			}
		}
		before := v.walk.lastTime
		it, ok, err := v.walk.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		v.endDamaged = it.kind == message.KindDamaged
		if err := v.verifyItem(it, before); err != nil {
			return err
		}
	}
	v.sum.Bytes = v.walk.pos - int64(v.sum.LogStart)
	v.reportMissing()
	return nil
}

// verifyItem looks at one thing in the log; before is the store time of the
// record before.
func (v *verifier) verifyItem(it *item, before int64) error {
	switch it.kind {
	case message.KindRecord:
		return v.verifyRecord(it, before)
	case message.KindBlank:
		if path, at := v.walk.file(it.pos); int64(it.blank) != it.to-it.pos {
			v.report(Error, LogBlank, path, at, "the blank says that %d bytes are left in the file, it is %d", it.blank, it.to-it.pos)
		}
	default:
		v.damages++
		if f, ok := v.log.find(it.pos); ok { // a missing file was reported
			v.report(Error, LogDamage, f.Path, it.pos-f.Base, "the log can not be read from %d to %d: %v", it.pos, it.to, it.damage)
		}
	}
	return nil
}

// reportRecord reports what is wrong with one record.
func (v *verifier) reportRecord(s Severity, k FindingKind, it *item, format string, args ...any) {
	path, at := v.walk.file(it.pos)
	v.report(s, k, path, at, format, args...)
}

func (v *verifier) verifyRecord(it *item, before int64) error {
	v.sum.Records++
	if it.damage != nil {
		kind := RecordBody
		if it.sum {
			kind = RecordSum
		}
		v.reportRecord(Error, kind, it, "message %d of queue %s/%d: %v", it.queueOffset, it.topic, it.queueID, it.damage)
	}
	if it.stored < before {
		v.reportRecord(Note, RecordTime, it, "message %d of queue %s/%d was stored at %d ms, the one before at %d",
			it.queueOffset, it.topic, it.queueID, it.stored, before)
	}
	if err := v.verifyKeys(it); err != nil {
		return err
	}
	if !it.flag.Queued() {
		v.last = nil
		if isFiller(it.flag, it.topic) {
			v.sum.Fillers++
			v.damages++ // messages may be missing, and are known to be
		}
		return nil
	}
	n := v.numberingOf(it)
	if n == nil {
		return nil
	}
	v.verifyNumber(n, it)
	return v.findUnit(n, it)
}

// numberingOf is that of a record's queue, nil when there can be no such queue.
func (v *verifier) numberingOf(it *item) *numbering {
	if !it.sameQueue || v.last == nil {
		v.last = v.findNumbering(it)
	}
	return v.last
}

func (v *verifier) findNumbering(it *item) *numbering {
	recent := &v.recent[place(it.topic, it.queueID)%len(v.recent)]
	if n := *recent; n != nil && n.key.id == it.queueID && n.key.topic == string(it.topic) {
		return n
	}
	n := v.numbers[queueKey{string(it.topic), it.queueID}]
	if n == nil {
		key := queueKey{string(it.topic), it.queueID}
		if !key.possible() || it.queueOffset < 0 {
			v.reportRecord(Error, Numbering, it, "message %d of queue %q/%d is in no queue that there can be", it.queueOffset, key.topic, key.id)
			return nil
		}
		n = &numbering{key: key}
		v.numbers[key] = n
	}
	*recent = n
	return n
}

// place spreads the names of queues over a short table.
func place(topic []byte, id int32) int {
	at := int(uint16(id)) + len(topic)
	if len(topic) > 0 {
		at += 31 * int(topic[len(topic)-1])
	}
	return at
}

// gaps counts the places at which messages may be missing.
func (v *verifier) gaps() int { return v.damages + v.walk.jumps }

// verifyNumber wants the messages of a queue numbered without a gap.
func (v *verifier) verifyNumber(n *numbering, it *item) {
	off := it.queueOffset
	explained := n.damages != v.gaps() || n.blanks(n.next, off) // there may have been messages that can not be read
	switch {
	case n.begun && (off == n.next || off > n.next && explained):
	case n.begun && off == 0 && n.leadsTo(0, it):
		v.reportRecord(Note, Numbering, it, "queue %s/%d begins again with message 0, after message %d: its topic was removed and made anew",
			n.key.topic, n.key.id, n.next-1)
	case n.begun:
		v.reportRecord(Error, Numbering, it, "message %d of queue %s/%d comes after message %d", off, n.key.topic, n.key.id, n.next-1)
	case v.sum.LogStart > 0 || v.log.retired > 0 || off == 0 || explained:
	default:
		v.reportRecord(Error, Numbering, it, "queue %s/%d begins with message %d in a log that begins at 0", n.key.topic, n.key.id, off)
	}
	n.begun, n.next, n.damages = true, off+1, v.gaps()
}

// unit returns the unit of a message, false where there is none.
func (n *numbering) unit(off int64) (consumequeue.Unit, bool, error) {
	if n.queue == nil || off < n.queue.first || off >= n.queue.max {
		return consumequeue.Unit{}, false, nil
	}
	return n.queue.unit(off)
}

// blanks reports whether the queue knows that the messages [from, to) are not
// there: it has blanks for them, as far as it has files.
func (n *numbering) blanks(from, to int64) bool {
	if n.queue == nil || from >= to {
		return false
	}
	if from = max(from, n.queue.first); from >= to {
		return from == to
	}
	first, ok, err := n.unit(from)
	last, ok2, err2 := n.unit(to - 1)
	return ok && ok2 && err == nil && err2 == nil && first.IsBlank() && last.IsBlank()
}

// leadsTo reports whether the unit of message off is that of the record.
func (n *numbering) leadsTo(off int64, it *item) bool {
	u, ok, err := n.unit(off)
	return err == nil && ok && int64(u.LogOffset) == it.pos && int64(u.Size) == it.to-it.pos
}

// findUnit looks whether the record has its unit. What is wrong with a unit is
// found when the queues are gone through.
func (v *verifier) findUnit(n *numbering, it *item) error {
	off := it.queueOffset
	u, ok, err := n.unit(off)
	if err != nil {
		return err
	}
	switch {
	case ok && u == (consumequeue.Unit{LogOffset: message.LogOffset(it.pos), Size: int32(it.to - it.pos), TagsCode: it.tags}):
		n.see(off)
		v.endMissing(n)
	case ok && !u.IsBlank(), n.hasPlace(off), n.retired(off), !v.dispatched(n, it.to):
		v.endMissing(n)
	default:
		if n.missing > 0 && off != n.missingFrom+n.missing {
			v.endMissing(n)
		}
		if n.missing == 0 {
			n.missingFrom, n.missingPos = off, it.pos
		}
		n.missing++
	}
	return nil
}

// hasPlace reports whether the message lies within the queue but in no file: that
// the file is missing was reported.
func (n *numbering) hasPlace(off int64) bool {
	if n.queue == nil || off < n.queue.first || off >= n.queue.max {
		return false
	}
	_, ok := n.queue.units.find(off * unitSize)
	return !ok
}

// retired reports whether the file of a message's unit was removed meanwhile.
func (n *numbering) retired(off int64) bool {
	return n.queue != nil && off*unitSize < n.queue.units.retired
}

// dispatched reports whether a record that ends at end must have a unit: after
// a proper stop all do, else those before the last one that has.
func (v *verifier) dispatched(n *numbering, end int64) bool {
	if end <= v.walk.trusted {
		return true
	}
	if n.missing > 0 {
		return !v.sum.Marked
	}
	return !v.used()
}

// endMissing reports messages without units.
func (v *verifier) endMissing(n *numbering) {
	if n.missing == 0 {
		return
	}
	path, at := v.walk.file(n.missingPos)
	v.report(Error, UnitMissing, path, at, "messages [%d, %d) of queue %s/%d are not in its consume queue",
		n.missingFrom, n.missingFrom+n.missing, n.key.topic, n.key.id)
	n.missing, n.reported = 0, true
}

func (v *verifier) reportMissing() {
	for _, n := range v.numberings() {
		v.endMissing(n)
	}
}

// numberings are those of all queues, by topic and id.
func (v *verifier) numberings() []*numbering {
	all := make([]*numbering, 0, len(v.numbers))
	for _, n := range v.numbers {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b *numbering) int {
		return cmp.Or(cmp.Compare(a.key.topic, b.key.topic), cmp.Compare(a.key.id, b.key.id))
	})
	return all
}
