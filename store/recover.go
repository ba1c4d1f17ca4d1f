package store

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// Recovery is what Open found and did. It is a value.
type Recovery struct {
	// Clean says that the store was closed properly the last time.
	Clean bool
	// FromPoint says that Open began at our own recovery point; else it read
	// the whole log, as it does after RocketMQ has written to it.
	FromPoint bool

	LogStart, LogEnd message.LogOffset
	Records          int64 // read and checked
	Bytes            int64 // of the log, read and checked

	// CutBytes were behind LogEnd and not zero: a message that was not
	// acknowledged, torn by the crash. They are zero now.
	CutBytes     int64
	RemovedFiles []string // lay wholly behind LogEnd

	// Damaged ranges lie among messages that were acknowledged. They are left
	// as they are and passed over.
	Damaged []commitlog.Damage

	// IndexFrom is the log offset from which the index is fed: what lies behind is
	// indexed while the store is open, see WaitIndexed. IndexDropped are its
	// files that could not be used, and are built again.
	IndexFrom    message.LogOffset
	IndexDropped []string

	UnitsDropped int64    // of consume queues: they pointed at nothing
	QueuesReset  []string // directories of consume queues that were emptied, and rebuilt from the log
	Took         time.Duration

	lastTime int64 // store timestamp of the last record
}

// Recovery returns what Open found and did, and the damage met since.
func (s *DefaultMessageStore) Recovery() Recovery {
	s.damageMu.Lock()
	defer s.damageMu.Unlock()
	r := s.recovery
	r.Damaged = append([]commitlog.Damage(nil), r.Damaged...)
	return r
}

// recover finds the end of the log and makes the consume queues agree with it.
//
// What has to be read depends on what is known to be on disk:
//
//	last stop  recovery point  read from     an unreadable spot is the end of the log
//	clean      valid           the point     if nothing sound follows, and point and queues name nothing behind it
//	clean      none            start of log  if nothing sound follows, and queues name nothing behind it
//	crash      valid           the point     at or behind the point
//	crash      none            start of log  in or behind the file that the checkpoint names
//
// A record that was written as a whole and can not be read is never the end,
// when a sound one follows.
//
// Reading from the start of the log rebuilds every queue: with no point of our
// own nobody knows which queues there should be.
func (s *DefaultMessageStore) recover(ctx context.Context) error {
	s.recovery.Clean = s.owner.wasClean
	s.recovery.LogStart = s.log.MinOffset()
	var err error
	if s.checkpoint, err = loadCheckpoint(s.cfg.fs, s.dir); err != nil {
		return err
	}
	var point recoveryPoint
	if s.recovery.QueuesReset, err = s.queues.ResetDamaged(); err != nil {
		return err
	}
	pointErr := readOwn(s.cfg.fs, s.dir, pointFile, &point)
	ours := pointErr == nil && point.Generation == s.primary.Generation
	if !ours {
		point = recoveryPoint{SegmentSize: point.SegmentSize}
	}
	if err := s.checkSegmentSize(point, pointErr == nil); err != nil {
		return err
	}
	if pointErr == nil && len(s.recovery.QueuesReset) == 0 {
		s.recovery.FromPoint = point.holds(s.log, s.queues)
	}
	from, lastTime := s.recovery.LogStart, int64(0)
	next := make(map[*consumequeue.Queue]*numbers) // which units each queue should have
	if s.recovery.FromPoint {
		from, lastTime = point.LogOffset, point.Last.StoreTimestamp
		s.point = point
		s.lastDispatched.Store(int64(point.Last.LogOffset))
		for _, qp := range point.Queues {
			next[consumequeue.Find(s.queues, qp.Topic, qp.QueueID)] = &numbers{next: qp.Max}
		}
	}
	trusted := s.trustedEnd(point)
	found, err := s.log.Recover(ctx, commitlog.RecoverConfig{From: from, LastTime: lastTime, Trusted: trusted, Clean: s.recovery.Clean, Visit: func(r *message.DispatchRequest) error {
		return s.rebuildIfRoom(r, next)
	}})
	if err != nil {
		return err
	}
	s.recovery.LogEnd, s.recovery.Records, s.recovery.Bytes = found.End, found.Records, found.Bytes
	s.recovery.lastTime = found.LastTime
	if err := s.cutQueues(next); err != nil { // queues first: none may point past the log
		return err
	}
	if err := s.repairLog(trusted); err != nil {
		return err
	}
	if err := s.settleQueues(); err != nil {
		return err
	}
	if err := s.openIndex(); err != nil {
		return err
	}
	if ours && s.writtenByOthers() {
		return s.newGeneration()
	}
	return nil
}

// writtenByOthers reports whether the log is not as we left it with our point.
func (s *DefaultMessageStore) writtenByOthers() bool {
	return !s.recovery.FromPoint || s.recovery.Clean && s.recovery.Records > 0
}

// checkSegmentSize refuses a log whose only file, by which its size is known,
// has been cut: what was behind would be lost without a word. Several files vouch
// for each other.
func (s *DefaultMessageStore) checkSegmentSize(point recoveryPoint, havePoint bool) error {
	got, want := s.log.FileSize(), point.SegmentSize
	if s.log.Files() != 1 {
		return nil
	}
	if !havePoint && s.recovery.Clean { // as RocketMQ leaves it; its queues tell
		for _, q := range s.queues.All() {
			if u, ok := q.At(q.Max() - 1); ok && !u.IsBlank() {
				want = max(want, int64(u.LogOffset)+int64(u.Size)-int64(s.recovery.LogStart))
			}
		}
		want = max(want, got)
	}
	if want == 0 || want == got {
		return nil
	}
	return &segment.SizeError{Path: filepath.Join(s.dir, "commitlog", segment.FileName(int64(s.recovery.LogStart))), Got: got, Want: want}
}

// trustedEnd is the end of what must be readable: see recover.
func (s *DefaultMessageStore) trustedEnd(point recoveryPoint) message.LogOffset {
	switch {
	case s.recovery.Clean:
		end := s.lastReferenced()
		if s.recovery.FromPoint {
			end = max(end, point.LogOffset)
		}
		return end
	case s.recovery.FromPoint:
		return point.LogOffset
	}
	return s.log.FileStoredBefore(s.checkpoint.minTimestamp())
}

// lastReferenced is the end of the last record that a queue has. A unit that
// points at nothing but zeros, or beyond a file, is damaged and does not count.
func (s *DefaultMessageStore) lastReferenced() message.LogOffset {
	var end message.LogOffset
	for _, q := range s.queues.All() {
		u, ok := q.At(q.Max() - 1)
		if ok && !u.IsBlank() && s.log.HasBytes(u.LogOffset, int64(u.Size)) {
			end = max(end, u.LogOffset+message.LogOffset(u.Size))
		}
	}
	return end
}

// rebuildIfRoom is rebuild until the disk is full. What comes then is only
// counted, and left to the dispatcher: a full disk can be opened and read.
func (s *DefaultMessageStore) rebuildIfRoom(r *message.DispatchRequest, next map[*consumequeue.Queue]*numbers) error {
	if s.undispatched == nil {
		err := s.rebuild(r, next)
		if !errors.Is(err, message.ErrDiskFull) {
			return err
		}
		s.dispatchFrom = r.LogOffset()
		s.undispatched = make(map[queueKey]message.QueueOffset)
		s.cfg.Logger.Error("disk full: consume queues will be completed when there is space", "dir", s.dir, "offset", r.LogOffset())
	}
	if r.SysFlag().Queued() {
		key := queueKey{string(r.Topic()), r.QueueID()}
		s.undispatched[key] = max(s.undispatched[key], r.QueueOffset()+1)
	}
	return nil
}

// rebuild gives one record to its queue and counts it.
func (s *DefaultMessageStore) rebuild(r *message.DispatchRequest, next map[*consumequeue.Queue]*numbers) error {
	if q := consumequeue.Find(s.queues, r.Topic(), r.QueueID()); q != nil && r.SysFlag().Queued() && next[q].contradicts(q, r) {
		s.damagedRecord(r, &message.IllegalError{Field: "queue offset", Value: strconv.FormatInt(int64(r.QueueOffset()), 10),
			Reason: "is that of another message"})
		return nil
	}
	// After a crash a unit may be in the page cache and not on disk, without
	// being marked for writing: it is written again even if it looks right.
	placed, err := (*queueSink)(s).put(r, !s.recovery.Clean)
	if err != nil {
		return err
	}
	s.lastDispatched.Store(int64(r.LogOffset()))
	if !placed {
		return nil
	}
	q := consumequeue.Find(s.queues, r.Topic(), r.QueueID())
	if next[q] == nil {
		next[q] = &numbers{next: r.QueueOffset()}
	}
	next[q].add(r.QueueOffset())
	return nil
}

// cutQueues drops the units behind those that the log has messages for. Where
// the log has none of a queue any more, those of removed messages stay: they
// carry the queue's numbering.
func (s *DefaultMessageStore) cutQueues(next map[*consumequeue.Queue]*numbers) error {
	empty := s.recovery.LogEnd == s.recovery.LogStart
	for _, q := range s.queues.All() {
		if err := q.CorrectMin(s.recovery.LogStart); err != nil {
			return err
		}
		keep := q.Min()
		switch n := next[q]; {
		case n != nil:
			keep = n.next
		case empty && s.recovery.LogStart == 0:
			keep = 0
		}
		dropped, err := q.Truncate(keep)
		if err != nil {
			return err
		}
		s.recovery.UnitsDropped += dropped
	}
	return nil
}

// repairLog makes sure that what was found is on disk, and nothing behind it.
// After a clean stop at our own recovery point that is known already.
func (s *DefaultMessageStore) repairLog(trusted message.LogOffset) error {
	end := s.recovery.LogEnd
	if s.recovery.Clean && s.recovery.FromPoint && end == s.point.LogOffset {
		return nil
	}
	doubtful := end
	if !s.recovery.Clean {
		doubtful = min(trusted, end)
	}
	cut, err := s.log.Repair(max(doubtful, s.recovery.LogStart), end)
	s.recovery.CutBytes, s.recovery.RemovedFiles = cut.Bytes, cut.Removed
	return err
}

// settleQueues syncs what recovery wrote, and takes over where each queue ends.
func (s *DefaultMessageStore) settleQueues() error {
	if err := s.queues.Flush(); err != nil {
		return err
	}
	for _, q := range s.queues.All() {
		if err := q.CorrectMin(s.recovery.LogStart); err != nil {
			return err
		}
		key := queueKey{q.Topic, q.ID}
		s.counters.set(q.Topic, q.ID, max(q.Max(), s.undispatched[key]))
		delete(s.undispatched, key)
	}
	for key, next := range s.undispatched {
		s.counters.set(key.topic, key.id, next)
	}
	if s.undispatched == nil {
		s.dispatchFrom = s.recovery.LogEnd
	}
	s.undispatched = nil
	return nil
}
