package inspect

import (
	"cmp"
	"slices"

	"github.com/pocketmq/pocketmq/message"
)

type queueKey struct {
	topic string
	id    int32
}

// possible reports whether there can be a directory for the queue.
func (k queueKey) possible() bool { return message.CheckStoredTopic(k.topic) == nil && k.id >= 0 }

// numbering is how far the log numbers the messages of a queue.
type numbering struct {
	queue   *queue // nil when there is none
	next    int64
	damages int  // ranges of the log met before the last message
	begun   bool // there was a message

	// Messages in a row that have no unit.
	missing     int64 // how many
	missingFrom int64
	missingPos  int64 // log offset of the first
}

// verifyLog goes through the log, record by record.
func (v *verifier) verifyLog() error {
	for n := 0; ; n++ {
		if n%1024 == 0 {
			if err := v.ctx.Err(); err != nil {
				return err
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
		f, _ := v.log.find(it.pos)
		v.endDamaged = it.kind == message.KindDamaged
		switch it.kind {
		case message.KindRecord:
			if err := v.verifyRecord(f, it, before); err != nil {
				return err
			}
		case message.KindBlank:
			if left := f.End() - it.pos; int64(it.blank) != left {
				v.report(Error, f.Path, it.pos-f.Base, "the blank says that %d bytes are left in the file, it is %d", it.blank, left)
			}
		default:
			v.damages++
			if f.Path != "" { // a missing file was reported
				v.report(Error, f.Path, it.pos-f.Base, "the log can not be read from %d to %d: %v", it.pos, it.to, it.damage)
			}
		}
	}
	v.reportMissing()
	return nil
}

// verifyRecord looks at one record; before is the store time of the one before.
func (v *verifier) verifyRecord(f File, it item, before int64) error {
	r := it.view
	v.sum.Records++
	at := it.pos - f.Base
	if it.damage != nil {
		v.report(Error, f.Path, at, "message %d of queue %s/%d: %v", r.QueueOffset(), r.Topic(), r.QueueID(), it.damage)
	}
	if r.StoreTimestamp() < before {
		v.report(Error, f.Path, at, "message %d of queue %s/%d was stored at %d ms, the one before at %d",
			r.QueueOffset(), r.Topic(), r.QueueID(), r.StoreTimestamp(), before)
	}
	if !r.SysFlag().Queued() {
		return nil
	}
	key := queueKey{string(r.Topic()), r.QueueID()}
	n := v.numbers[key]
	if n == nil {
		if !key.possible() || r.QueueOffset() < 0 {
			v.report(Error, f.Path, at, "message %d of queue %q/%d is in no queue that there can be", r.QueueOffset(), key.topic, key.id)
			return nil
		}
		n = &numbering{}
		v.numbers[key] = n
	}
	v.verifyNumber(n, f, it)
	return v.findUnit(n, key, it)
}

// verifyNumber wants the messages of a queue numbered without a gap.
func (v *verifier) verifyNumber(n *numbering, f File, it item) {
	r, off := it.view, int64(it.view.QueueOffset())
	explained := n.damages != v.damages // there may have been messages that can not be read
	switch {
	case !n.begun && (v.sum.LogStart > 0 || off == 0 || explained):
	case n.begun && (off == n.next || off > n.next && explained):
	case n.begun:
		v.report(Error, f.Path, it.pos-f.Base, "message %d of queue %s/%d comes after message %d", off, r.Topic(), r.QueueID(), n.next-1)
	default:
		v.report(Error, f.Path, it.pos-f.Base, "queue %s/%d begins with message %d in a log that begins at 0", r.Topic(), r.QueueID(), off)
	}
	n.begun, n.next, n.damages = true, off+1, v.damages
}

// findUnit looks whether the record has a unit. What is wrong with a unit is
// found when the queues are gone through.
func (v *verifier) findUnit(n *numbering, key queueKey, it item) error {
	off := int64(it.view.QueueOffset())
	has := false
	if q := n.queue; q != nil && off >= q.first && off < q.max {
		u, ok, err := q.unit(off)
		if err != nil {
			return err
		}
		has = !ok || !u.IsBlank() // where a file is missing, that was reported
	}
	if has || !v.dispatched(n, it.to) {
		v.endMissing(key, n)
		return nil
	}
	if n.missing > 0 && off != n.missingFrom+n.missing {
		v.endMissing(key, n)
	}
	if n.missing == 0 {
		n.missingFrom, n.missingPos = off, it.pos
	}
	n.missing++
	return nil
}

// dispatched reports whether a record that ends at end must have a unit: after
// a proper stop all do, else those before the last one that has.
func (v *verifier) dispatched(n *numbering, end int64) bool {
	if end <= v.walk.trusted {
		return true
	}
	if v.sum.Marked {
		return false
	}
	if n.missing == 0 { // a process may have opened the store meanwhile
		used, err := marked(v.dir)
		v.sum.Marked = used || err != nil
	}
	return !v.sum.Marked
}

// endMissing reports messages without units.
func (v *verifier) endMissing(key queueKey, n *numbering) {
	if n.missing == 0 {
		return
	}
	f, _ := v.log.find(n.missingPos)
	v.report(Error, f.Path, n.missingPos-f.Base, "messages [%d, %d) of queue %s/%d are not in its consume queue",
		n.missingFrom, n.missingFrom+n.missing, key.topic, key.id)
	n.missing = 0
}

func (v *verifier) reportMissing() {
	var keys []queueKey
	for key, n := range v.numbers {
		if n.missing > 0 {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b queueKey) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.id, b.id))
	})
	for _, key := range keys {
		v.endMissing(key, v.numbers[key])
	}
}
