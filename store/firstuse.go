package store

import (
	"errors"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// queueLoaded is shown each queue when it is first used. What the recovery point
// says that it has must be there, and lead to its messages; if not, it is built
// again from the log. Where nothing came after the point, units behind that are
// dropped: there is no message for them.
func (s *DefaultMessageStore) queueLoaded(q *consumequeue.Queue) error {
	if q.Known >= 0 {
		sound, err := s.agrees(q)
		if err == nil && !sound {
			err = s.rebuildQueue(q)
		}
		if err != nil {
			return err
		}
	}
	if !s.endFound {
		return nil // see cutQueues
	}
	if q.Known >= 0 {
		if _, err := q.Truncate(q.Known); err != nil {
			return err
		}
	}
	return q.CorrectMin(s.log.MinOffset())
}

// unitsCompared is how many units before the end of a queue are looked at for one
// whose record can be read.
const unitsCompared = 8

// agrees reports whether the last unit that the queue should have leads to its
// record. If the record can not be read, the log may be damaged and not the
// queue: then a unit before it tells. During Open, which may have to look at all
// queues, it is enough that the unit points before the recovery point.
func (s *DefaultMessageStore) agrees(q *consumequeue.Queue) (bool, error) {
	if q.Max() < q.Known {
		return false, nil
	}
	if first := q.First(); first < q.Known { // zeros there would pass for messages that were removed
		if u, err := q.Unit(first); err != nil || !u.IsReal() && !u.IsBlank() {
			return false, err
		}
	}
	end, unreadable := s.vouched, false
	for n := q.Known - 1; n >= max(q.First(), q.Known-unitsCompared); n-- {
		u, err := q.Unit(n)
		if err != nil {
			return false, err
		}
		if u.IsBlank() {
			continue
		}
		if !u.IsReal() || u.LogOffset+message.LogOffset(u.Size) > end {
			return false, nil
		}
		if !s.endFound || u.LogOffset < s.log.MinOffset() { // or the message was removed
			return true, nil
		}
		same, err := s.leads(q, n, u)
		if err == nil {
			return same, nil
		}
		if !errors.Is(err, message.ErrCorrupt) && !errors.Is(err, segment.ErrFault) {
			return false, err
		}
		end, unreadable = u.LogOffset, true
	}
	return !unreadable, nil
}

// leads reports whether the record that unit n points at is message n of the
// queue. The error matches message.ErrCorrupt if there is no sound record.
func (s *DefaultMessageStore) leads(q *consumequeue.Queue, n message.QueueOffset, u consumequeue.Unit) (same bool, err error) {
	f := s.log.Acquire(u.LogOffset)
	if f == nil {
		return false, message.ErrCorrupt
	}
	defer f.Unpin()
	err = s.log.View(f, u.LogOffset, func(v message.View) {
		same = v.QueueOffset() == n && v.QueueID() == q.ID && v.Size() == int(u.Size) && string(v.Topic()) == q.Topic
	})
	return same, err
}

// rebuildQueue puts the units of all messages that the log has of the queue, up to
// the recovery point, where they belong. It reads all of the log before the point.
// Units whose messages can not be read stay; the queue has as many in the end as
// the point says, so that numbers are not given twice.
func (s *DefaultMessageStore) rebuildQueue(q *consumequeue.Queue) error {
	s.cfg.Logger.Warn("consume queue does not agree with the log: building it again", "dir", s.dir, "topic", q.Topic, "queue", q.ID,
		"has", q.Max(), "should have", q.Known)
	var met *numbers
	start := s.log.MinOffset()
	step := s.opening.reading(RecoveryReadsQueue, start, s.vouched)
	_, err := s.log.Scan(start, s.vouched, func(r *message.DispatchRequest) error {
		if err := step(r); err != nil {
			return err
		}
		if r.QueueID() != q.ID || !r.SysFlag().Queued() || string(r.Topic()) != q.Topic {
			return nil
		}
		misfit := (*queueSink)(s).misfit(r, q)
		if misfit == nil && met.contradicts(q, r) {
			misfit = errNumberTaken(r)
		}
		if misfit != nil {
			s.damagedRecord(r, misfit)
			return nil
		}
		if met == nil {
			met = &numbers{next: r.QueueOffset()}
		}
		met.add(r.QueueOffset())
		return q.Put(r.QueueOffset(), unitOf(r), true)
	})
	if err == nil && q.Max() < q.Known {
		err = q.Put(q.Known-1, consumequeue.Blank, true)
	}
	if err != nil {
		return typed(err)
	}
	s.damageMu.Lock()
	defer s.damageMu.Unlock()
	s.recovery.QueuesReset = append(s.recovery.QueuesReset, q.Dir())
	return nil
}
