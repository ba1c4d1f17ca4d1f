package store

import (
	"context"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/message"
)

// OffsetInQueueByLogOffset is the offset of a queue's first message whose record
// lies at or behind off in the log, as readers see it; the queue's maximum when
// there is none, 0 for an unknown queue.
func (s *DefaultMessageStore) OffsetInQueueByLogOffset(topic string, queueID int32, off message.LogOffset) (message.QueueOffset, error) {
	building := s.building.Load()
	q, err := consumequeue.Find(s.queues, topic, queueID)
	if q == nil || err != nil {
		return 0, typed(err)
	}
	first, end := building.bounds(q)
	at, err := q.FirstAt(off)
	return min(max(at, first), end), typed(err)
}

// NextOffsetInQueue is the offset that the queue's next message gets. Other than
// MaxOffsetInQueue it also counts messages that can not be read yet. It takes the
// put lock for a moment.
func (s *DefaultMessageStore) NextOffsetInQueue(topic string, queueID int32) message.QueueOffset {
	if c := s.counters.find(topic, queueID); c != nil {
		return s.log.NextOffset(c)
	}
	return s.MaxOffsetInQueue(topic, queueID) // nothing was put since Open
}

// BeginsRecord reports whether the record of m, which was read at off, begins
// there, and is not something within another record that looks like one, as a body
// may. What the consume queues do not know is looked for from the start of its file
// on.
func (s *DefaultMessageStore) BeginsRecord(ctx context.Context, m *message.MessageExt, off message.LogOffset) (bool, error) {
	if at, ok := s.CommitLogOffsetInQueue(m.Topic, m.QueueID, m.QueueOffset); ok && at == off {
		return true, nil
	}
	found := false
	for v, err := range s.Records(ctx, s.log.FileStart(off)) {
		if err != nil {
			return false, err
		}
		if at := v.LogOffset(); at >= off {
			found = at == off
			break
		}
	}
	return found, nil
}
