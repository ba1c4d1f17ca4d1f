package consumequeue

import (
	"errors"
	"fmt"

	"github.com/pocketmq/pocketmq/message"
)

// RemoveBefore makes the queue agree with a log that begins at logMin: it moves
// Min to the first message that the log has, and then removes the files whose
// units all point before logMin, oldest first, but never the last file, which
// carries the queue's numbering. It returns the paths of the files removed, and
// may be called concurrently with everything.
//
// Source: RocketMQ store/ConsumeQueue.java, deleteExpiredFile and
// correctMinOffset; there a file that ends with a blank goes too early.
func (q *Queue) RemoveBefore(logMin message.LogOffset) ([]string, error) {
	live, err := q.firstAt(logMin)
	if err != nil {
		return nil, err
	}
	q.raiseMin(live)
	keep := q.first() // units before it are in files that go
	units := q.files.FileSize() / UnitSize
	for end := keep + units; end <= live; end += units {
		_, last, err := q.lastReal(keep, end-1)
		if err != nil {
			return nil, err
		}
		if last.isReal() && last.LogOffset >= logMin {
			break // Min is beyond it, so a unit is damaged: let the rest be
		}
		keep = end
	}
	removed, err := q.files.RemoveBefore(keep * UnitSize)
	if err != nil {
		return removed, fmt.Errorf("consume queue: %w", err)
	}
	return removed, nil
}

// raiseMin moves Min forward, never back: the writer may have begun a queue at a
// later number meanwhile.
func (q *Queue) raiseMin(to int64) {
	for old := q.min.Load(); old < to && !q.min.CompareAndSwap(old, to); {
		old = q.min.Load()
	}
}

// LastBefore returns the queue's last unit whose record lies before off in the
// log, false if it has none.
func (q *Queue) LastBefore(off message.LogOffset) (Unit, bool) {
	n, err := q.firstAt(off)
	if err != nil || n <= q.first() {
		return Unit{}, false
	}
	_, u, err := q.lastReal(q.first(), n-1)
	return u, err == nil && u.isReal() && u.LogOffset < off
}

// RemoveBefore does so for every queue; what fails for one leaves the others
// alone. The paths are those of all files removed.
func (t *Table) RemoveBefore(logMin message.LogOffset) (removed []string, err error) {
	var errs []error
	for _, q := range t.All() {
		paths, err := q.RemoveBefore(logMin)
		removed = append(removed, paths...)
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// Bytes is the size of all files of all queues together.
func (t *Table) Bytes() int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var n int64
	for _, ids := range t.topics {
		for _, q := range ids {
			n += int64(len(q.files.Snapshot())) * q.FileSize()
		}
	}
	return n
}
