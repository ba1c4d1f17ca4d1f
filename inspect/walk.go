package inspect

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"

	"github.com/pocketmq/pocketmq/message"
)

// walk goes through the log in order, from pos to its end.
type walk struct {
	log *logReader
	pos int64
	// trusted is the end of a record that was once there: what is unreadable
	// before it is damage, and the log does not end there.
	trusted  int64
	lastTime int64 // store time of the last record, ms

	// At the end, tail says why what follows is not only zeros.
	tail error
}

// item is one thing that a walk meets.
type item struct {
	pos  int64
	view message.View // of a record; valid until the walk goes on
	// damage, when not nil, says why nothing in [pos, to) can be read; with a
	// record, that its body is not what was sent.
	damage error
	to     int64
	blank  int32 // for a blank: how many bytes it says are left in the file
	kind   message.Kind
}

// next returns the next item, false at the end of the log. An error is of a
// file.
func (w *walk) next() (item, bool, error) {
	f, ok := w.log.find(w.pos)
	if !ok {
		return w.gap()
	}
	it, err := w.look()
	if err != nil || it.kind == message.KindRecord && it.damage == nil {
		return w.pass(it, err)
	}
	if it.kind == message.KindBlank {
		it.to = f.End()
		return w.pass(it, nil)
	}
	next, more, nonzero, err := w.log.search(w.pos, w.lastTime)
	if err != nil {
		return item{}, false, err
	}
	if more || w.pos < w.trusted {
		// It is no tail. But a writer may have finished it meanwhile.
		w.log.forget()
		again, err := w.look()
		if again.kind == message.KindBlank {
			again.to = f.End()
		}
		if err != nil || again.kind == message.KindRecord || again.kind == message.KindBlank {
			return w.pass(again, err) // sound, or the chain goes on all the same
		}
		if !more {
			next = w.trusted
		}
		again.to = next
		if again.damage == nil {
			again.damage = damaged("zeros where a record should be")
		}
		again.kind = message.KindDamaged
		return w.pass(again, nil)
	}
	w.tail = it.damage
	if it.damage == nil && nonzero >= 0 {
		w.tail = damaged("%d zeros, and then something else", nonzero-w.pos)
	}
	return item{}, false, nil
}

// gap is what follows the end of a file that has no neighbour.
func (w *walk) gap() (item, bool, error) {
	f, ok := w.log.after(w.pos)
	if !ok {
		return item{}, false, nil
	}
	return w.pass(item{kind: message.KindDamaged, pos: w.pos, to: f.Base, damage: damaged("a file is missing")}, nil)
}

// look reads what lies at pos, and compares the checksum of a body.
func (w *walk) look() (item, error) {
	v, kind, err := w.log.at(w.pos)
	if err != nil && !errors.Is(err, message.ErrCorrupt) {
		return item{}, err
	}
	it := item{pos: w.pos, view: v, kind: kind, damage: err}
	switch kind {
	case message.KindRecord:
		it.damage = v.Check()
		it.to = w.pos + int64(v.Size())
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
func (w *walk) pass(it item, err error) (item, bool, error) {
	if err != nil {
		return item{}, false, err
	}
	w.pos = it.to
	if it.kind == message.KindRecord {
		w.lastTime = it.view.StoreTimestamp()
	}
	return it, true, nil
}

// Log yields the records of the log in order. A View is valid until the loop
// body ends; View.Message copies it.
//
// Where records can not be read, it yields a *message.CorruptionError with a
// zero View, or with the View of a record whose body does not match its
// checksum, and goes on behind it. Any other error comes last.
func Log(dir string) iter.Seq2[message.View, error] {
	return func(yield func(message.View, error) bool) {
		if err := Check(dir); err != nil {
			yield(message.View{}, err)
			return
		}
		files, _, err := list(filepath.Join(dir, logDir))
		if err != nil {
			yield(message.View{}, fmt.Errorf("commit log: %w", err))
			return
		}
		w := walk{log: newLogReader(files, logChunk)}
		defer w.log.close()
		if len(files) > 0 {
			w.pos = files[0].Base
		}
		for {
			it, ok, err := w.next()
			if err != nil {
				yield(message.View{}, fmt.Errorf("commit log: %w", err))
				return
			}
			if !ok {
				return
			}
			if it.damage != nil {
				f, _ := w.log.find(it.pos)
				err = &message.CorruptionError{File: f.Path, Offset: message.LogOffset(it.pos), Err: it.damage}
			}
			if (it.kind == message.KindRecord || err != nil) && !yield(it.view, err) {
				return
			}
		}
	}
}
