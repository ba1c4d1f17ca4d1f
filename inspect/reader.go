package inspect

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/message"
)

// Queues lists the ids of the topic's queues that have or had messages, in
// order. A topic without messages has none.
func Queues(dir, topic string) ([]int32, error) {
	if err := errors.Join(Check(dir), message.CheckStoredTopic(topic)); err != nil {
		return nil, err
	}
	names, err := subdirectories(filepath.Join(dir, queuesDir, topic))
	if err != nil {
		return nil, err
	}
	var ids []int32
	for _, name := range names {
		if id, err := strconv.ParseInt(name, 10, 32); err == nil && id >= 0 {
			ids = append(ids, int32(id))
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// Reader reads the messages of one queue, in order, also while a process
// writes more of them. It is for one goroutine at a time, and must be closed.
type Reader struct {
	dir   string
	queue *queue
	log   *logReader
	next  int64
	start int64 // first offset of the log
}

// NewReader returns a reader that begins with the oldest message. A queue that
// is not there has none yet.
func NewReader(dir, topic string, id int32) (*Reader, error) {
	if err := errors.Join(Check(dir), message.CheckStoredTopic(topic)); err != nil {
		return nil, err
	}
	q, err := openQueue(dir, topic, id)
	if err != nil {
		return nil, err
	}
	r := &Reader{dir: dir, queue: q, log: newLogReader(filepath.Join(dir, logDir), nil, 64<<10)}
	if err := r.listLog(); err != nil {
		return nil, err
	}
	r.next, err = q.min(r.start)
	return r, err
}

func (r *Reader) listLog() error {
	files, _, err := list(filepath.Join(r.dir, logDir))
	if err != nil {
		return fmt.Errorf("commit log: %w", err)
	}
	r.log.files = files
	if len(files) > 0 {
		r.start = files[0].Base
	}
	return nil
}

// Offset is the number of the next message.
func (r *Reader) Offset() message.QueueOffset { return message.QueueOffset(r.next) }

// Max is behind the newest message that was there when the reader was made.
func (r *Reader) Max() message.QueueOffset { return message.QueueOffset(r.queue.max) }

// Seek makes the message with that number the next one. What is before the
// oldest message is passed over.
func (r *Reader) Seek(off message.QueueOffset) { r.next = max(int64(off), r.queue.first) }

// Next returns the next message; the View is valid until the next call. At the
// end the error is io.EOF, and more may come later. For a message that can not
// be read it is a *message.CorruptionError, and reading goes on behind it. Any
// other error is of a file.
func (r *Reader) Next() (message.View, error) {
	for {
		u, err := r.unit()
		if err != nil {
			return message.View{}, err
		}
		n := r.next
		r.next++
		if u.IsBlank() || int64(u.LogOffset) < r.start {
			continue // not there, or not any more
		}
		v, err := r.record(u)
		if errors.Is(err, message.ErrCorrupt) { // the unit may have been read while it was written
			r.queue.units.forget()
			if again, ok, unitErr := r.queue.unit(n); unitErr == nil && ok && again != u {
				v, err = r.record(again)
			}
		}
		if errors.Is(err, errRetired) {
			continue
		}
		if errors.Is(err, message.ErrCorrupt) {
			path, at := r.queue.place(n)
			err = &message.CorruptionError{File: path, Offset: message.LogOffset(at), Err: fmt.Errorf("message %d of queue %s: %w", n, r.queue, err)}
		}
		return v, err
	}
}

// unit returns the next unit, io.EOF when there is none.
func (r *Reader) unit() (consumequeue.Unit, error) {
	q := r.queue
	if r.next < q.max {
		r.next = q.withFile(r.next)
	}
	u, ok, err := q.unit(r.next)
	if err != nil || u != (consumequeue.Unit{}) || ok && r.next < q.max {
		return u, err
	}
	// What is in memory may be old, and so may be the list of files.
	q.units.forget()
	if !ok {
		if q.units.files, _, err = list(q.dir); err != nil {
			return u, q.wrap(err)
		}
		if r.next < q.max {
			r.next = q.withFile(r.next)
		}
	}
	if u, _, err = q.unit(r.next); err == nil && u == (consumequeue.Unit{}) {
		err = io.EOF
	}
	return u, err
}

// record reads the record of a unit.
func (r *Reader) record(u consumequeue.Unit) (message.View, error) {
	pos := int64(u.LogOffset)
	if u.Size == 0 {
		return message.View{}, damaged("its unit is zero")
	}
	if _, ok := r.log.find(pos); !ok {
		if err := r.listLog(); err != nil {
			return message.View{}, err
		}
		if pos < r.start {
			return message.View{}, errRetired
		}
		if _, ok := r.log.find(pos); !ok {
			return message.View{}, damaged("no file of the log has offset %d", pos)
		}
	}
	v, err := r.look(pos)
	if errors.Is(err, message.ErrCorrupt) { // what is in memory may be from before it was written
		r.log.forget()
		v, err = r.look(pos)
	}
	if errors.Is(err, errRetired) {
		r.start = r.log.retired
	}
	return v, err
}

func (r *Reader) look(pos int64) (message.View, error) {
	v, kind, err := r.log.at(pos)
	switch {
	case err != nil:
		return message.View{}, err
	case kind != message.KindRecord:
		return message.View{}, damaged("%s instead of a record at log offset %d", kind, pos)
	case string(v.Topic()) != r.queue.topic && !dispatchedTo(v, r.queue.topic):
		return message.View{}, damaged("the record at log offset %d is of topic %s", pos, v.Topic())
	}
	return v, v.Check()
}

// Close gives back what the reader holds. It is idempotent, and always nil.
func (r *Reader) Close() error {
	r.log.close()
	return nil
}
