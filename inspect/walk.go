package inspect

import (
	"errors"
	"fmt"

	"github.com/pocketmq/pocketmq/message"
)

// walk goes through the log in order, from pos to its end.
type walk struct {
	log   *logReader
	ahead *ahead
	pos   int64
	// trusted is the end of a record that was once there: what is unreadable
	// before it is damage, and the log does not end there.
	trusted  int64
	lastTime int64 // store time of the last record, ms
	current  item
	jumps    int // how often the walk went on behind files that were removed

	// whole takes a record whose checksum is wrong for one that was written, even
	// where nothing follows.
	whole bool

	// At the end, tail says why what follows is not only zeros.
	tail error
}

func newWalk(log *logReader, want want) walk {
	w := walk{log: log, ahead: &ahead{files: log.files, want: want, endedAt: -1}}
	if len(log.files) > 0 {
		w.pos = log.files[0].Base
	}
	return w
}

func (w *walk) close() {
	if w.ahead != nil {
		w.ahead.close()
	}
	if w.log != nil {
		w.log.close()
	}
}

// item is one thing that a walk meets. Its memory is valid until the walk goes
// on.
type item struct {
	pos  int64
	kind message.Kind // a record, a blank, or damaged
	// view is a record; a walk that does not want views may leave it out.
	view message.View
	// damage, when not nil, says why nothing in [pos, to) can be read, or with a
	// record that one of its checksums is not that of its bytes.
	damage error
	sum    bool // the checksum of the whole record is wrong, not that of the body
	to     int64
	blank  int32 // for a blank: how many bytes it says are left in the file
	*facts       // of a record
}

// next returns the next item, false at the end of the log. An error is of a
// file. What the owner of the store removes meanwhile is passed over.
func (w *walk) next() (*item, bool, error) {
	for {
		if w.pos < w.log.retired {
			w.pos = w.log.retired
			w.jumps++
		}
		it, ok, err := w.step()
		if errors.Is(err, errRetired) {
			continue
		}
		return it, ok, err
	}
}

func (w *walk) step() (*item, bool, error) {
	if w.ahead != nil {
		if c, ok := w.ahead.at(w.pos); ok {
			to := w.pos + c.size
			w.current = item{pos: w.pos, kind: message.KindRecord, view: c.view, to: to, facts: &c.facts}
			w.pos, w.lastTime = to, c.stored
			return &w.current, true, nil
		}
	}
	f, ok := w.log.find(w.pos)
	if !ok {
		return w.gap()
	}
	it, err := w.look()
	if err != nil {
		return nil, false, err
	}
	if it.kind == message.KindRecord && (it.damage == nil || w.whole) {
		return w.pass(it)
	}
	if it.kind == message.KindBlank {
		it.to = f.End()
		return w.pass(it)
	}
	next, more, nonzero, err := w.log.search(w.pos, w.lastTime)
	if err != nil {
		return nil, false, err
	}
	if it.kind == message.KindRecord && !more {
		if more, err = w.blankAt(it.to); err != nil {
			return nil, false, err
		}
	}
	if more || w.pos < w.trusted {
		return w.damage(f, next, more)
	}
	w.tail = it.damage
	if it.damage == nil && nonzero >= 0 {
		w.tail = damaged("%d zeros, and then something else", nonzero-w.pos)
	}
	return nil, false, nil
}

// damage is at pos: it is no tail. But a writer may have finished it meanwhile.
// next is the next sound record, where there is more.
func (w *walk) damage(f File, next int64, more bool) (*item, bool, error) {
	w.log.forget()
	again, err := w.look()
	if err != nil {
		return nil, false, err
	}
	switch again.kind {
	case message.KindBlank:
		again.to = f.End()
		return w.pass(again)
	case message.KindRecord: // sound, or the chain goes on all the same
		return w.pass(again)
	}
	if !more {
		next = w.trusted
	}
	again.to = next
	if again.damage == nil {
		again.damage = damaged("zeros where a record should be")
	}
	again.kind = message.KindDamaged
	return w.pass(again)
}

// blankAt reports whether the file was ended at pos: what lies before was written
// as a whole.
func (w *walk) blankAt(pos int64) (bool, error) {
	if _, ok := w.log.find(pos); !ok {
		return false, nil
	}
	_, kind, err := w.log.at(pos)
	if errors.Is(err, message.ErrCorrupt) {
		err = nil
	}
	return kind == message.KindBlank, err
}

// gap is what follows the end of a file that has no neighbour.
func (w *walk) gap() (*item, bool, error) {
	f, ok := w.log.after(w.pos)
	if !ok {
		return nil, false, nil
	}
	return w.pass(item{kind: message.KindDamaged, pos: w.pos, to: f.Base, damage: damaged("a file is missing")})
}

// look reads what lies at pos, and compares the checksums of a record.
func (w *walk) look() (item, error) {
	v, kind, err := w.log.at(w.pos)
	if err != nil && !errors.Is(err, message.ErrCorrupt) {
		return item{}, err
	}
	it := item{pos: w.pos, view: v, kind: kind, damage: err}
	switch kind {
	case message.KindRecord:
		it.to = w.pos + int64(v.Size())
		if it.damage = v.CheckBody(); it.damage == nil {
			it.damage = v.CheckCRC32()
			it.sum = it.damage != nil
		}
		f := factsOf(v)
		it.facts = &f
	case message.KindBlank:
		b, err := w.log.from(w.pos, message.BlankSize)
		if err != nil {
			return item{}, err
		}
		it.blank = blankLeft(b)
	}
	return it, nil
}

// pass moves behind the item.
func (w *walk) pass(it item) (*item, bool, error) {
	w.current = it
	w.pos = it.to
	if it.kind == message.KindRecord {
		w.lastTime = it.stored
	}
	return &w.current, true, nil
}

// file is the file that holds pos, and where in it.
func (w *walk) file(pos int64) (path string, at int64) {
	f, ok := w.log.find(pos)
	if !ok {
		return w.log.dir, 0
	}
	return f.Path, pos - f.Base
}

// delays is RocketMQ's table, by which parked messages are due.
var delays = func() message.DelayLevels {
	d, err := message.ParseDelayLevels(message.DefaultDelayLevels)
	if err != nil {
		panic(fmt.Sprintf("inspect: the default table of delay levels: %v", err))
	}
	return d
}()
