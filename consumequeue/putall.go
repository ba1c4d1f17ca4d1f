package consumequeue

import "github.com/pocketmq/pocketmq/message"

// PutAll is Put for the units of messages that follow one another, of which first
// is that of the first unit: readers see all of them or none. That holds at the end
// of the queue; units that are there already, or would leave a gap, are put one by
// one.
func (q *Queue) PutAll(first message.QueueOffset, units []Unit) error {
	if int64(first) != q.max.Load() || len(units) == 0 || int64(first) > maxOffset-int64(len(units)) {
		for i, u := range units {
			if err := q.Put(first+message.QueueOffset(i), u, false); err != nil {
				return err
			}
		}
		return nil
	}
	defer q.mark()
	q.newest.Store(int64(units[len(units)-1].LogOffset))
	return q.extend(int64(first), units)
}
