package consumequeue

import (
	"errors"

	"github.com/pocketmq/pocketmq/message"
)

// PutAll is Put for the units of a batch, of which first is the message of the
// first: readers see all of them or none. That holds at the end of the queue;
// units that are there already, or would leave a gap, are put one by one.
func (q *Queue) PutAll(first message.QueueOffset, units []Unit) error {
	if int64(first) != q.max.Load() || len(units) == 0 {
		for i, u := range units {
			if err := q.Put(first+message.QueueOffset(i), u, false); err != nil {
				return err
			}
		}
		return nil
	}
	defer q.mark()
	q.newest.Store(int64(units[len(units)-1].LogOffset))
	for i, u := range units {
		if n := int64(first) + int64(i); !q.keep(n, u) {
			if err := errors.Join(q.writeTail(), q.write(n, u)); err != nil {
				return err
			}
		}
	}
	q.max.Store(int64(first) + int64(len(units)))
	return nil
}
