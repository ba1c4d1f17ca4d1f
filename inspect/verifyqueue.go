package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/message"
)

// verifyQueues goes through the units of every queue that are not known to be
// those of the records that lead to them.
func (v *verifier) verifyQueues() error {
	// A message at a time, so that no queue reads what lies between its own.
	reader := v.log.space
	reader.open, reader.path = nil, ""
	defer reader.close()
	for _, q := range v.queues {
		n := v.numbers[queueKey{q.topic, q.id}]
		u := unitVerifier{verifier: v, queue: q, log: &reader}
		err := n.unseen(q.first, q.max, u.units)
		if err != nil {
			return err
		}
		u.endRun()
		v.sum.Units += q.max - q.first
	}
	return nil
}

// unitVerifier goes through one queue.
type unitVerifier struct {
	*verifier

	queue *queue
	log   *space
	buf   []byte
	last  int64 // log offset of the last record, -1 for none

	// Units in a row that are wrong in one way, or unusual.
	run     string
	runFrom int64
	runTo   int64
}

// runKinds are the kinds of findings that runs are.
var runKinds = map[string]FindingKind{runZero: UnitZero, runBlank: UnitBlank, runLost: UnitLost}

// What a run of units may have in common.
const (
	runZero  = "are zero, and others follow"
	runBlank = "are blanks: they hold the places of messages that the queue does not have"
	runLost  = "point at no file of the log"
)

// units goes through the units [from, to).
func (u *unitVerifier) units(from, to int64) error {
	u.last = -1
	if before, ok, err := u.queue.unit(from - 1); err == nil && ok && !before.IsBlank() && before.Size > 0 {
		u.last = int64(before.LogOffset)
	}
	for n := u.queue.withFile(from); n < to; n = u.queue.withFile(n + 1) {
		if n%1024 == 0 && u.ctx.Err() != nil {
			return u.ctx.Err()
		}
		if err := u.next(n); err != nil {
			return err
		}
	}
	return nil
}

func (u *unitVerifier) next(n int64) error {
	unit, ok, err := u.queue.unit(n)
	if err != nil || !ok { // a file that is missing was reported
		return err
	}
	pos := int64(unit.LogOffset)
	_, inLog := u.log.find(pos)
	switch {
	case unit == consumequeue.Unit{}:
		u.inRun(runZero, n)
	case unit.IsBlank():
		u.inRun(runBlank, n)
	case pos >= 0 && pos < max(int64(u.sum.LogStart), u.log.retired): // removed with the start of the log
		u.endRun()
	case !inLog:
		u.inRun(runLost, n)
	default:
		u.endRun()
		return u.record(n, unit)
	}
	return nil
}

// inRun adds unit n to the run.
func (u *unitVerifier) inRun(run string, n int64) {
	if u.run != run || u.runTo != n {
		u.endRun()
		u.run, u.runFrom = run, n
	}
	u.runTo = n + 1
}

func (u *unitVerifier) endRun() {
	if u.run == "" {
		return
	}
	severity := Error
	if u.run == runBlank {
		severity = Note
	}
	path, at := u.queue.place(u.runFrom)
	u.report(severity, runKinds[u.run], path, at, "units [%d, %d) of queue %s %s", u.runFrom, u.runTo, u.queue, u.run)
	u.run = ""
}

// record compares a unit with the record that it points at.
func (u *unitVerifier) record(n int64, unit consumequeue.Unit) error {
	r, err := u.read(unit)
	if errors.Is(err, errRetired) {
		return nil
	}
	if err == nil {
		err = u.compare(n, unit, r)
	}
	if err != nil && !errors.Is(err, message.ErrCorrupt) {
		return err
	}
	pos := int64(unit.LogOffset)
	if err == nil && pos <= u.last {
		err = damaged("log offset %d is not after that of the unit before, %d", pos, u.last)
	}
	if err != nil {
		path, at := u.queue.place(n)
		u.report(Error, UnitWrong, path, at, "unit %d of queue %s: %v", n, u.queue, err)
		return nil
	}
	u.last = pos
	return nil
}

// read reads the record at the unit's place, of the unit's size. The View is
// valid until the next call.
func (u *unitVerifier) read(unit consumequeue.Unit) (message.View, error) {
	pos, size := int64(unit.LogOffset), int64(unit.Size)
	f, _ := u.log.find(pos)
	if size < message.MinRecordSize || size > f.End()-pos {
		return message.View{}, damaged("size %d at log offset %d: no record has it there", size, pos)
	}
	u.buf = slices.Grow(u.buf[:0], int(size))[:size]
	n, err := u.log.read(u.buf, pos)
	if err != nil {
		return message.View{}, err
	}
	b := u.buf[:n]
	r, kind, err := message.ReadRecord(b)
	switch {
	case kind == message.KindRecord && int64(r.LogOffset()) == pos && r.Size() == int(size):
		return r, nil
	case kind == message.KindRecord && int64(r.LogOffset()) == pos:
		return r, damaged("size %d, but the record at log offset %d takes %d bytes", size, pos, r.Size())
	case len(b) >= message.BlankSize && slices.Equal(b[4:8], recordMagic) && int64(int32(binary.BigEndian.Uint32(b))) > size:
		return r, damaged("size %d, but the record at log offset %d takes %d bytes", size, pos, int32(binary.BigEndian.Uint32(b)))
	case kind == message.KindRecord:
		err = damaged("a record that was written for offset %d", r.LogOffset())
	case err == nil:
		err = damaged("%s instead of a record", kind)
	}
	return r, fmt.Errorf("log offset %d: %w", pos, err)
}

// compare compares the unit with what the record says about itself.
func (u *unitVerifier) compare(n int64, unit consumequeue.Unit, r message.View) error {
	q := u.queue
	if string(r.Topic()) != q.topic || r.QueueID() != q.id || int64(r.QueueOffset()) != n {
		if dispatchedTo(r, q.topic) {
			return nil
		}
		return damaged("the record at log offset %d is message %d of queue %s/%d", unit.LogOffset, r.QueueOffset(), r.Topic(), r.QueueID())
	}
	if !r.SysFlag().Queued() {
		return damaged("the record at log offset %d takes no unit", unit.LogOffset)
	}
	want := delays.TagsCode(r)
	switch {
	case unit.TagsCode == want:
	case unit.TagsCode < math.MinInt32: // an address of RocketMQ's extended units
	case q.topic == message.ScheduleTopic:
		path, at := q.place(n)
		u.report(Note, UnitDue, path, at, "unit %d of queue %s: due at %d ms, with RocketMQ's default delays it would be %d", n, q, unit.TagsCode, want)
	default:
		return damaged("tags code %d, the tag of the record at log offset %d has %d", unit.TagsCode, unit.LogOffset, want)
	}
	return nil
}

// dispatchedTo reports whether RocketMQ gave the record to a queue that is not
// its own.
func dispatchedTo(r message.View, topic string) bool {
	list, ok := r.Property(message.PropertyInnerMultiDispatch)
	return ok && slices.Contains(strings.Split(string(list), ","), topic)
}
