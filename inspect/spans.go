package inspect

import (
	"iter"

	"github.com/pocketmq/pocketmq/message"
)

// Log yields the records of the log in order. A View is valid until the loop
// body ends; View.Message copies it.
//
// Where records can not be read, it yields a *message.CorruptionError with a
// zero View, or with the View of a record that does not match a checksum, and
// goes on behind it. Any other error comes last.
func Log(dir string) iter.Seq2[message.View, error] {
	return func(yield func(message.View, error) bool) {
		if err := Check(dir); err != nil {
			yield(message.View{}, err)
			return
		}
		log, _, err := openLog(dir, logChunk)
		if err != nil {
			yield(message.View{}, err)
			return
		}
		w := newWalk(log, want{views: true})
		defer w.close()
		for {
			it, ok, err := w.next()
			if err != nil {
				yield(message.View{}, err)
				return
			}
			if !ok {
				return
			}
			if it.damage != nil {
				path, _ := w.file(it.pos)
				err = &message.CorruptionError{File: path, Offset: message.LogOffset(it.pos), Err: it.damage}
			}
			if (it.kind == message.KindRecord || err != nil) && !yield(it.view, err) {
				return
			}
		}
	}
}
