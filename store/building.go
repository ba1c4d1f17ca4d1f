package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/dispatcher"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// building is a rebuild of all consume queues while the store is open; see
// Config.RebuildInBackground. The dispatcher does it: it begins at the start of
// the log, and does for each record what recovery would, up to the end that Open
// has found. Then the queues are cut as recovery does it, and each gets its
// counter.
//
// Until then nothing on disk says that they are whole: the recovery point has no
// ledger, the marker of an unclean stop stays, and the checkpoint is not moved.
// Who reads sees what was built, and nothing that was on disk before, of which
// nobody knows whether it is right.
//
// Nil stands for queues that are whole.
type building struct {
	start, end message.LogOffset  // of the log, when Open had found its end
	last       message.LogOffset  // of its last record, -1 for none; during Open
	damaged    []commitlog.Damage // what Open found unreadable, perhaps by a checksum, which the dispatcher does not compare

	pos message.LogOffset // records before it were taken; of the dispatcher's goroutine, like met
	met map[*consumequeue.Queue]*numbers

	mu    sync.Mutex
	built map[*consumequeue.Queue]span
}

// span is the units of a queue that were built.
type span struct{ first, next message.QueueOffset }

// rocketMQReads is how many files, at the end of the log, RocketMQ reads after a
// clean stop.
//
// Source: RocketMQ store/CommitLog.java, recoverNormally.
const rocketMQReads = 3

func newBuilding(last message.LogOffset) *building {
	return &building{last: last, met: make(map[*consumequeue.Queue]*numbers), built: make(map[*consumequeue.Queue]span)}
}

// beginBuilding makes everything ready for it, once the end of the log is known.
// A new point vouches for the log alone, so that the next Open finds its end, too.
func (s *DefaultMessageStore) beginBuilding(b *building) error {
	b.start, b.end, b.damaged = s.recovery.LogStart, s.recovery.LogEnd, s.log.Damaged()
	s.dispatchFrom = b.start
	s.recovery.Rebuilding = true
	s.cfg.Logger.Warn("consume queues will be built from the log while the store is open; puts wait for that", "dir", s.dir, "bytes", b.end-b.start)
	p := s.pointAt(b.last)
	if p.Last == (lastRecord{}) {
		return nil
	}
	if !s.flushIndex() {
		p.Index, p.IndexFiles = s.point.Index, s.point.IndexFiles
	}
	err := writeOwn(s.cfg.fs, s.dir, pointFile, p, s.cfg.FileMode)
	if errors.Is(err, segment.ErrNoSpace) {
		return nil // the marker says enough
	}
	if err != nil {
		return err
	}
	s.point, s.pointDue = p, true
	s.pointEnd.Store(int64(p.LogOffset))
	return nil
}

// build gives one record to its queue; after the last one it completes them. It
// is called by the dispatcher's goroutine, and may be called again for a record
// after an error.
func (s *DefaultMessageStore) build(b *building, r *message.DispatchRequest) error {
	end := r.LogOffset() + message.LogOffset(r.Size())
	if r.LogOffset() >= b.pos && !b.unreadable(r.LogOffset()) {
		q, err := s.rebuild(r, b.met)
		if err != nil {
			return err
		}
		b.pos = end
		if q != nil {
			b.show(q, r.QueueOffset())
			s.arrivals.came(q.Topic)
		}
		s.progress()
	}
	if end >= b.end {
		return s.completeBuilding(b)
	}
	return nil
}

func (b *building) unreadable(off message.LogOffset) bool {
	return slices.ContainsFunc(b.damaged, func(d commitlog.Damage) bool { return d.From <= off && off < d.To })
}

// show lets readers see what was built of the queue, of which message off was the
// last.
func (b *building) show(q *consumequeue.Queue, off message.QueueOffset) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen, ok := b.built[q]
	if !ok {
		seen.first = off
	}
	b.built[q] = span{min(seen.first, off), b.met[q].next}
}

// completeBuilding makes the queues what they are after a recovery that has read
// the whole log, and lets puts go on.
func (s *DefaultMessageStore) completeBuilding(b *building) error {
	all := s.queues.All()
	if err := s.cutQueues(all, b.met); err != nil {
		return typed(err)
	}
	if err := s.queues.Flush(); err != nil {
		return typed(err)
	}
	s.adopt(all)
	s.building.Store(nil)
	s.cfg.Logger.Info("consume queues were built from the log", "dir", s.dir, "queues", s.queues.Len())
	kick(s.cleanKick)
	s.progress()
	return nil
}

// buildingSource is the log, for a dispatcher that builds the queues: where the
// old end of the log is not that of a record that can be read, they are completed
// behind the last one.
type buildingSource DefaultMessageStore

func (s *buildingSource) End() message.LogOffset { return s.recent.End() }

func (s *buildingSource) Scan(from, to message.LogOffset, visit func(*message.DispatchRequest) error) (message.LogOffset, error) {
	pos, err := s.recent.Scan(from, to, visit)
	if b := s.building.Load(); b != nil && err == nil {
		err = (*DefaultMessageStore)(s).completeBuilding(b)
	}
	return pos, err
}

// dispatchSource is what the dispatcher reads.
func (s *DefaultMessageStore) dispatchSource() dispatcher.Source {
	if s.building.Load() != nil {
		return (*buildingSource)(s)
	}
	return s.recent
}

// awaitBuilt waits until the queues are whole: before that nobody knows what
// number a message gets.
func (s *DefaultMessageStore) awaitBuilt(ctx context.Context) error {
	b := s.building.Load()
	if b == nil {
		return nil
	}
	if err := s.checkOpen(); err != nil {
		return err
	}
	s.stats.waitingForDispatch.Add(1)
	defer s.stats.waitingForDispatch.Add(-1)
	if err := s.dispatcher.Wait(ctx, b.end); err != nil {
		return fmt.Errorf("put: consume queues are being built from the log, %d bytes are left: %w", b.left(s), err)
	}
	return nil
}

// left is how many bytes of the log are still to be read.
func (b *building) left(s *DefaultMessageStore) int64 {
	return max(0, int64(b.end-s.dispatcher.Position()))
}

// bounds are the queue's, as far as it was built; q may be nil.
func (b *building) bounds(q *consumequeue.Queue) (first, end message.QueueOffset) {
	if b == nil {
		return q.Min(), q.Max()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.built[q].first, b.built[q].next
}

// has reports whether the queue has the message, or may have got it since.
func (b *building) has(q *consumequeue.Queue, off message.QueueOffset) bool {
	first, end := b.bounds(q)
	return first <= off && off < end
}
