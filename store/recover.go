package store

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"slices"
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

	// Rebuilding says that the consume queues were not there, or not to be trusted,
	// when Open returned, and were built while the store was open: see
	// Config.RebuildInBackground. What is said of them here is complete when
	// WaitDispatched(LogEnd) has returned nil.
	Rebuilding bool

	LogStart, LogEnd message.LogOffset
	Records          int64 // read and checked
	Bytes            int64 // of the log, read and checked

	// CutBytes were behind LogEnd and not zero: a message that was not
	// acknowledged, torn by the crash. They are zero now.
	CutBytes     int64
	RemovedFiles []string // lay wholly behind LogEnd
	// CutReason says what was at LogEnd instead of a message: zeros, a record that
	// is torn, or whose checksum is wrong. It matches message.ErrCorrupt, and is
	// nil when nothing was cut.
	CutReason error

	// Damaged ranges lie among messages that were acknowledged. They are left
	// as they are and passed over.
	Damaged []commitlog.Damage

	// Missing counts the messages that the queues have a number for and the part
	// of the log that was read has no record: it is damaged, perhaps in a way
	// that makes it look like a message of another queue.
	Missing int64

	// IndexFrom is the log offset from which the index is fed: what lies behind is
	// indexed while the store is open, see WaitIndexed. IndexDropped are its
	// files that could not be used, and are built again.
	IndexFrom    message.LogOffset
	IndexDropped []string

	UnitsDropped int64    // of consume queues: they pointed at nothing
	QueuesReset  []string // directories of consume queues that did not agree with the log, or whose files were not whole, and were rebuilt from it
	QueuesMade   []string // directories of consume queues that were not there, and were made from the log
	Took         time.Duration

	lastTime int64 // store timestamp of the last record
}

// Recovery returns what Open found and did, and the damage met since, in the log
// and in queues when they were first used.
func (s *DefaultMessageStore) Recovery() Recovery {
	s.damageMu.Lock()
	defer s.damageMu.Unlock()
	r := s.recovery
	r.Damaged = slices.Clone(r.Damaged)
	r.QueuesReset = slices.Clone(r.QueuesReset)
	r.QueuesMade = slices.Clone(r.QueuesMade)
	return r
}

// attrs is what the log line of Open says.
func (r *Recovery) attrs() []any {
	attrs := []any{"clean", r.Clean, "log", r.LogEnd, "fromPoint", r.FromPoint, "records", r.Records, "bytes", r.Bytes,
		"cut", r.CutBytes, "damaged", len(r.Damaged), "missing", r.Missing, "unitsDropped", r.UnitsDropped,
		"queuesReset", len(r.QueuesReset), "queuesMade", len(r.QueuesMade), "indexDropped", len(r.IndexDropped),
		"rebuilding", r.Rebuilding, "took", r.Took}
	if r.CutReason != nil {
		attrs = append(attrs, "cutReason", r.CutReason)
	}
	return attrs
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
// A point may hold for the log and not for the queues, because some of them are
// missing. Then the start of the log is read, and what is the end is decided as
// with the point. With Config.RebuildInBackground the table's third column is the
// point then; and without a point, after a clean stop, it is the third-last file.
// The queues are left for later: see building.
//
// A record that was written as a whole and can not be read is never the end,
// when a sound one follows.
//
// Reading from the start of the log rebuilds every queue: with no point of our
// own nobody knows which queues there should be. With a point, after a clean
// stop, only the queues are opened that the log has messages for behind it, and
// those that the point does not know; the others are checked when they are first
// used, see queueLoaded. After a crash all are: a unit may have reached the disk
// before its message.
func (s *DefaultMessageStore) recover(ctx context.Context) error {
	s.recovery.Clean = s.owner.wasClean
	s.recovery.LogStart = s.log.MinOffset()
	var err error
	if s.checkpoint, err = loadCheckpoint(s.cfg.fs, s.dir); err != nil {
		return err
	}
	if s.recovery.QueuesReset, err = s.queues.ResetDamaged(s.log.MinOffset()); err != nil {
		return err
	}
	point, err := s.loadPoint()
	if err != nil {
		return err
	}
	from := s.readFrom(point)
	trusted, err := s.trustedEnd(point)
	if err != nil {
		return err
	}
	if err := s.loadIndex(); err != nil {
		return err
	}
	holes := s.indexHoles()
	next := make(map[*consumequeue.Queue]*numbers) // which units the queues should have that messages were met of
	if err := s.findEnd(ctx, from, trusted, holes, next); err != nil {
		return err
	}
	building := s.building.Load() != nil
	var doubtful []*consumequeue.Queue
	if !building { // queues first: none may point past the log
		doubtful = s.doubtfulQueues(next)
		if err := s.cutQueues(doubtful, next); err != nil {
			return err
		}
	}
	if err := s.repairLog(trusted); err != nil {
		return err
	}
	s.endFound = true
	if !building {
		if err := s.settleQueues(doubtful); err != nil {
			return err
		}
	}
	return s.settleRest(holes)
}

// loadPoint reads the recovery point, and finds out what of it holds.
func (s *DefaultMessageStore) loadPoint() (recoveryPoint, error) {
	var point recoveryPoint
	pointErr := readOwn(s.cfg.fs, s.dir, pointFile, &point)
	if pointErr != nil || point.Generation != s.primary.Generation {
		point = recoveryPoint{SegmentSize: point.SegmentSize}
	}
	if err := s.checkSegmentSize(point, pointErr == nil); err != nil {
		return point, err
	}
	s.logKept = pointErr == nil && s.holdsLog(point)
	s.recovery.FromPoint = s.logKept && len(s.recovery.QueuesReset) == 0 && s.takeQueues(point)
	return point, nil
}

// readFrom decides from where on the log is read, and whether the queues are
// left for later.
func (s *DefaultMessageStore) readFrom(point recoveryPoint) message.LogOffset {
	known := s.recovery.FromPoint
	if !known && s.cfg.RebuildInBackground && s.logKept {
		s.recovery.FromPoint = true
	}
	switch {
	case s.recovery.FromPoint:
		s.point = point
		s.recovery.lastTime = point.LastTime
		s.pointEnd.Store(int64(point.LogOffset))
		if known {
			s.lastDispatched.Store(int64(point.Last.LogOffset))
		} else {
			s.building.Store(newBuilding(point.Last.LogOffset))
		}
		return point.LogOffset
	case s.cfg.RebuildInBackground && s.recovery.Clean && s.log.Files() > rocketMQReads:
		s.building.Store(newBuilding(-1))
		return s.recovery.LogStart + message.LogOffset(int64(s.log.Files()-rocketMQReads)*s.log.FileSize())
	}
	return s.recovery.LogStart
}

// findEnd reads the log from an offset on, and finds its end. The queues get what
// they lack, unless they are left for later.
func (s *DefaultMessageStore) findEnd(ctx context.Context, from, trusted message.LogOffset, holes *indexHoles, next map[*consumequeue.Queue]*numbers) error {
	visit := func(r *message.DispatchRequest) error {
		if from == s.recovery.LogStart {
			holes.see(r)
		}
		return s.rebuildIfRoom(r, next)
	}
	b := s.building.Load()
	if b != nil {
		visit = func(r *message.DispatchRequest) error {
			b.last = r.LogOffset()
			return nil
		}
	}
	total := int64(s.recovery.LogStart-from) + int64(s.log.Files())*s.log.FileSize()
	found, err := s.log.Recover(ctx, commitlog.RecoverConfig{
		From: from, LastTime: s.recovery.lastTime, Trusted: trusted, Clean: s.recovery.Clean, Visit: visit,
		Progress: func(pos message.LogOffset, records int64) error {
			return s.opening.step(RecoveryProgress{RecoveryReadsLog, int64(pos - from), max(total, int64(pos-from)), records})
		},
	})
	if err != nil {
		return err
	}
	s.opening.end(RecoveryReadsLog, found.Bytes, found.Records)
	s.recovery.LogEnd, s.recovery.Records, s.recovery.Bytes = found.End, found.Records, found.Bytes
	s.recovery.lastTime, s.recovery.CutReason = found.LastTime, found.Why
	if b != nil && found.End <= s.recovery.LogStart {
		s.building.Store(nil) // there is nothing to build them from
	}
	return nil
}

// settleRest settles the index, and writes down what is known now.
func (s *DefaultMessageStore) settleRest(holes *indexHoles) error {
	if err := s.settleIndex(holes); err != nil {
		return err
	}
	if s.writtenByOthers() {
		if err := s.newGeneration(); err != nil {
			return err
		}
	}
	if b := s.building.Load(); b != nil {
		return s.beginBuilding(b)
	}
	if s.recovery.FromPoint {
		return nil
	}
	return s.saveFirstPoint()
}

// writtenByOthers reports whether the log is not as we left it.
func (s *DefaultMessageStore) writtenByOthers() bool {
	if !s.recovery.FromPoint {
		return s.recovery.LogEnd > s.recovery.LogStart
	}
	return s.recovery.Clean && s.recovery.Records > 0
}

// doubtfulQueues lists the queues that may not agree with the log: those that are
// loaded already were not yet compared with its bounds.
func (s *DefaultMessageStore) doubtfulQueues(met map[*consumequeue.Queue]*numbers) []*consumequeue.Queue {
	all := s.queues.All()
	if !s.recovery.FromPoint || !s.recovery.Clean {
		return all
	}
	return slices.DeleteFunc(all, func(q *consumequeue.Queue) bool { return met[q] == nil && q.Known >= 0 && !q.Loaded() })
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
		for u, err := range s.lastUnits() {
			if err != nil {
				return err
			}
			want = max(want, int64(u.LogOffset)+int64(u.Size)-int64(s.recovery.LogStart))
		}
		want = max(want, got)
	}
	if want == 0 || want == got {
		return nil
	}
	return &segment.SizeError{Path: filepath.Join(s.dir, "commitlog", segment.FileName(int64(s.recovery.LogStart))), Got: got, Want: want}
}

// trustedEnd is the end of what must be readable: see recover.
func (s *DefaultMessageStore) trustedEnd(point recoveryPoint) (message.LogOffset, error) {
	switch {
	case s.recovery.Clean && s.recovery.FromPoint && s.checkpointIsOf(point.Last):
		return point.LogOffset, nil // nobody wrote since, so no queue names more
	case s.recovery.Clean:
		end, err := s.lastReferenced()
		if s.logKept {
			end = max(end, point.LogOffset)
		}
		return end, err
	case s.logKept:
		return point.LogOffset, nil
	}
	return s.log.FileStoredBefore(s.checkpoint.minTimestamp()), nil
}

// checkpointIsOf reports whether the checkpoint is the one that we wrote with the
// point behind the record last. RocketMQ moves it when it stores a message.
func (s *DefaultMessageStore) checkpointIsOf(last lastRecord) bool {
	return s.checkpoint.physic == last.StoreTimestamp && s.checkpoint.logics == last.StoreTimestamp
}

// lastReferenced is the end of the last record that a queue has. A unit that
// points at nothing but zeros, or beyond a file, is damaged and does not count.
func (s *DefaultMessageStore) lastReferenced() (end message.LogOffset, err error) {
	for u, err := range s.lastUnits() {
		if err != nil {
			return 0, err
		}
		if s.log.HasBytes(u.LogOffset, int64(u.Size)) {
			end = max(end, u.LogOffset+message.LogOffset(u.Size))
		}
	}
	return end, nil
}

// lastUnits opens each queue and gives its last unit, if it is there and no blank.
func (s *DefaultMessageStore) lastUnits() iter.Seq2[consumequeue.Unit, error] {
	return func(yield func(consumequeue.Unit, error) bool) {
		for _, q := range s.queues.All() {
			err := q.Load()
			u, ok := q.At(q.Max() - 1)
			if (err != nil || ok && !u.IsBlank()) && !yield(u, err) {
				return
			}
		}
	}
}

// rebuildIfRoom is rebuild until the disk is full. What comes then is only
// counted, and left to the dispatcher: a full disk can be opened and read.
func (s *DefaultMessageStore) rebuildIfRoom(r *message.DispatchRequest, next map[*consumequeue.Queue]*numbers) error {
	if s.undispatched == nil {
		_, err := s.rebuild(r, next)
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

// rebuild gives one record to its queue and counts it. It returns the queue, nil
// if the record belongs to none.
func (s *DefaultMessageStore) rebuild(r *message.DispatchRequest, next map[*consumequeue.Queue]*numbers) (*consumequeue.Queue, error) {
	q, err := consumequeue.Find(s.queues, r.Topic(), r.QueueID())
	if err != nil {
		return nil, typed(err)
	}
	isNew := q == nil
	if q != nil && next[q] == nil && q.Known > 0 {
		next[q] = &numbers{next: q.Known}
	}
	if q != nil && r.SysFlag().Queued() && next[q].contradicts(q, r) {
		s.damagedRecord(r, errNumberTaken(r))
		return nil, nil
	}
	// After a crash a unit may be in the page cache and not on disk, without
	// being marked for writing: it is written again even if it looks right.
	q, err = (*queueSink)(s).put(r, !s.recovery.Clean)
	if err != nil {
		return nil, err
	}
	s.lastDispatched.Store(int64(r.LogOffset()))
	if q == nil {
		return nil, nil
	}
	if isNew {
		s.damageMu.Lock()
		s.recovery.QueuesMade = append(s.recovery.QueuesMade, q.Dir())
		s.damageMu.Unlock()
	}
	if next[q] == nil {
		next[q] = &numbers{next: r.QueueOffset()}
		if s.recovery.LogStart == 0 {
			next[q].next = 0 // nothing was removed
		}
	}
	next[q].add(r.QueueOffset())
	return q, nil
}

func errNumberTaken(r *message.DispatchRequest) error {
	return &message.IllegalError{Field: "queue offset", Value: strconv.FormatInt(int64(r.QueueOffset()), 10), Reason: "is that of another message"}
}

// cutQueues drops the units behind those that the log has messages for. Where
// the log has none of a queue any more, those of removed messages stay: they
// carry the queue's numbering.
func (s *DefaultMessageStore) cutQueues(queues []*consumequeue.Queue, next map[*consumequeue.Queue]*numbers) error {
	empty := s.recovery.LogEnd == s.recovery.LogStart
	var gone, unmet int64
	for _, q := range queues {
		if err := q.Load(); err != nil {
			return typed(err)
		}
		if err := q.CorrectMin(s.recovery.LogStart); err != nil {
			return err
		}
		keep := q.Min()
		switch n := next[q]; {
		case n != nil:
			keep = n.next
			unmet += n.missing()
		case q.Known >= 0:
			keep = q.Known
		case empty && s.recovery.LogStart == 0:
			keep = 0
		}
		dropped, err := q.Truncate(keep)
		if err != nil {
			return err
		}
		gone += dropped
	}
	s.damageMu.Lock()
	defer s.damageMu.Unlock()
	s.recovery.UnitsDropped += gone
	s.recovery.Missing += unmet
	return nil
}

// repairLog makes sure that what was found is on disk, and nothing behind it.
// After a clean stop at our own recovery point that is known already.
func (s *DefaultMessageStore) repairLog(trusted message.LogOffset) error {
	end := s.recovery.LogEnd
	if s.recovery.Clean && s.recovery.FromPoint && end == s.point.LogOffset {
		s.recovery.CutReason = nil
		return nil
	}
	doubtful := end
	if !s.recovery.Clean {
		doubtful = min(trusted, end)
	}
	doubtful = max(doubtful, s.recovery.LogStart)
	total := int64(end - doubtful)
	cut, err := s.log.Repair(doubtful, end, func(pos message.LogOffset) error {
		return s.opening.step(RecoveryProgress{Stage: RecoveryRewritesLog, Done: int64(pos - doubtful), Total: total})
	})
	s.recovery.CutBytes, s.recovery.RemovedFiles = cut.Bytes, cut.Removed
	if cut.Bytes == 0 && len(cut.Removed) == 0 {
		s.recovery.CutReason = nil
	}
	if err == nil && total > 0 {
		s.opening.end(RecoveryRewritesLog, total, 0)
	}
	return err
}

// settleQueues syncs what recovery wrote, and takes over where each queue ends
// that was looked at. The next point will know all of them.
func (s *DefaultMessageStore) settleQueues(queues []*consumequeue.Queue) error {
	if err := s.queues.Flush(); err != nil {
		return err
	}
	s.adopt(queues)
	for key, next := range s.undispatched {
		s.counters.set(key.topic, key.id, next)
	}
	if s.undispatched == nil {
		s.dispatchFrom = s.recovery.LogEnd
	}
	s.undispatched = nil
	return nil
}

// adopt takes over where each queue ends.
func (s *DefaultMessageStore) adopt(queues []*consumequeue.Queue) {
	for _, q := range queues {
		key := queueKey{q.Topic, q.ID}
		s.counters.set(q.Topic, q.ID, max(q.Max(), s.undispatched[key]))
		delete(s.undispatched, key)
	}
	s.queues.Keep(slices.DeleteFunc(queues, func(q *consumequeue.Queue) bool { return q.Known >= 0 }))
}
