package store

import (
	"context"
	"math"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/message"
)

// Boundary says which message a time stands for.
type Boundary uint8

const (
	// BoundaryLower is the first message stored at or after the time; the
	// queue's maximum when there is none.
	BoundaryLower Boundary = iota
	// BoundaryUpper is the last message stored at or before the time; the
	// queue's minimum when there is none.
	BoundaryUpper
)

// OffsetInQueueByTime returns the offset that a time (ms since the Unix epoch)
// stands for in a queue; 0 for an unknown queue. It looks at the times in the
// records, at some twenty of a million, and never at those of files. RocketMQ
// 4.9.3 answers with the message that is nearest in time.
//
// Source: RocketMQ 5, store/ConsumeQueue.java, getOffsetInQueueByTime.
func (s *DefaultMessageStore) OffsetInQueueByTime(ctx context.Context, topic string, queueID int32, time int64, b Boundary) (message.QueueOffset, error) {
	if err := s.checkOpen(); err != nil {
		return 0, err
	}
	building := s.building.Load()
	q, err := consumequeue.Find(s.queues, topic, queueID)
	if q == nil || err != nil {
		return 0, typed(err)
	}
	first, end := building.bounds(q)
	if b == BoundaryUpper && time < math.MaxInt64 {
		time++ // the first message after it, and one back
	}
	lo, hi := first, end
	for lo < hi {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		mid := lo + (hi-lo)/2
		switch at, stored := s.storedAtOrBefore(q, lo, mid); {
		case stored >= time:
			hi = at
		default:
			lo = mid + 1
		}
	}
	if b == BoundaryUpper {
		return max(lo-1, first), nil
	}
	return lo, nil
}

// storedAtOrBefore returns the store time of the last readable message in
// [lo, mid], and its offset; -1 when there is none.
func (s *DefaultMessageStore) storedAtOrBefore(q *consumequeue.Queue, lo, mid message.QueueOffset) (message.QueueOffset, int64) {
	for at := mid; at >= lo; at-- {
		if t, ok := s.storeTimestamp(q, at); ok {
			return at, t
		}
	}
	return lo, -1
}

// storeTimestamp is when the queue's message was stored, in ms.
func (s *DefaultMessageStore) storeTimestamp(q *consumequeue.Queue, off message.QueueOffset) (int64, bool) {
	u, ok := q.At(off)
	if !ok || u.IsBlank() || !s.building.Load().has(q, off) {
		return 0, false
	}
	f := s.log.Acquire(u.LogOffset)
	if f == nil {
		return 0, false
	}
	defer f.Unpin()
	var stored int64
	err := s.log.View(f, u.LogOffset, func(v message.View) { stored = v.StoreTimestamp() })
	return stored, err == nil
}

// MessageStoreTimestamp is when the queue's message was stored, in ms since the
// Unix epoch; false if the queue does not have it or it can not be read.
func (s *DefaultMessageStore) MessageStoreTimestamp(topic string, queueID int32, off message.QueueOffset) (int64, bool) {
	q, err := consumequeue.Find(s.queues, topic, queueID)
	if q == nil || err != nil || s.closed.Load() {
		return 0, false
	}
	return s.storeTimestamp(q, off)
}

// EarliestMessageTime is when the queue's first message that is still there was
// stored, in ms since the Unix epoch; false if there is none.
func (s *DefaultMessageStore) EarliestMessageTime(topic string, queueID int32) (int64, bool) {
	return s.MessageStoreTimestamp(topic, queueID, s.MinOffsetInQueue(topic, queueID))
}
