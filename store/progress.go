package store

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// saveProgress syncs the log and the consume queues, and then writes down what
// that vouches for: the checkpoint for RocketMQ, and now and then, or with
// final set, the recovery point for ourselves.
func (s *DefaultMessageStore) saveProgress(final bool) error {
	if s.building.Load() != nil { // what is vouched for stays what it was
		return s.syncUpTo(lastRecord{})
	}
	point := s.pointAt(message.LogOffset(s.lastDispatched.Load())) // before the syncs: they cover this much and no more
	if final {
		s.leaveOutLost(&point)
	}
	if !s.worthSaving(point, final) {
		return s.syncUpTo(point.Last)
	}
	changed := s.queues.Changed()
	units, err := unitsBefore(changed, point.LogOffset)
	if err == nil {
		err = s.syncUpTo(point.Last)
	}
	if err == nil {
		err = s.savePoint(point, units)
	}
	if err != nil {
		s.queues.Keep(changed) // for the next attempt
		return err
	}
	s.queues.Keep(slices.DeleteFunc(changed, func(q *consumequeue.Queue) bool { return q.Max() == units[q] }))
	return nil
}

// saveFirstPoint writes a recovery point when Open has read the whole log, so that
// it need not be read again after a crash. All queues are loaded and synced.
func (s *DefaultMessageStore) saveFirstPoint() error {
	point := s.pointAt(message.LogOffset(s.lastDispatched.Load()))
	if point.Last == (lastRecord{}) || s.dispatchFrom != s.recovery.LogEnd {
		return nil // there is nothing, or the disk is full
	}
	units, err := unitsBefore(s.queues.All(), point.LogOffset)
	if err == nil {
		err = s.savePoint(point, units)
	}
	if errors.Is(err, segment.ErrNoSpace) {
		return nil
	}
	return err
}

// pointAt is the recovery point behind the record at off. Nothing in it is known
// to be on disk.
func (s *DefaultMessageStore) pointAt(off message.LogOffset) recoveryPoint {
	last := identify(s.log, off)
	p := recoveryPoint{
		Generation: s.primary.Generation, LogOffset: last.LogOffset + message.LogOffset(last.Size), Last: last,
		LastTime: max(s.log.LastTimestamp(), s.recovery.lastTime), SegmentSize: s.log.FileSize(),
	}
	p.Index, p.IndexFiles = s.indexPoints()
	return p
}

// worthSaving reports whether the point would spare the next Open much.
func (s *DefaultMessageStore) worthSaving(p recoveryPoint, final bool) bool {
	if p.Last == (lastRecord{}) {
		return false // nothing was dispatched since Open, and nothing before it is known
	}
	log, index := p.LogOffset-s.point.LogOffset, p.Index-s.point.Index
	if final {
		return s.pointDue || log != 0 || index != 0
	}
	return s.pointDue || max(log, index) >= message.LogOffset(s.log.FileSize())
}

// syncUpTo syncs log and consume queues, which have everything up to the record
// last, and moves the checkpoint to it.
func (s *DefaultMessageStore) syncUpTo(last lastRecord) error {
	if err := s.log.Flush(); err != nil {
		return err
	}
	if err := s.queues.Flush(); err != nil {
		return err
	}
	if last == (lastRecord{}) {
		return nil
	}
	return s.saveCheckpoint(last.StoreTimestamp)
}

// saveCheckpoint writes RocketMQ's, if it changes: log and queues are on disk up
// to the store time t, and the index is as far as its files are full.
func (s *DefaultMessageStore) saveCheckpoint(t int64) error {
	cp := checkpoint{physic: t, logics: t, index: s.checkpoint.index}
	if s.index != nil {
		if full, _, ok := s.index.files.LastFull(); ok {
			cp.index = full
		}
	}
	if cp == s.checkpoint {
		return nil
	}
	if err := cp.save(s.cfg.fs, s.dir, s.cfg.FileMode); err != nil {
		return err
	}
	s.checkpoint = cp
	return nil
}

// indexPoints says how far the index is, and in which files there are entries.
func (s *DefaultMessageStore) indexPoints() (indexed message.LogOffset, files []indexPoint) {
	if s.index == nil {
		return s.point.Index, s.point.IndexFiles
	}
	indexed = s.index.files.NextLogOffset() // first: the files then have at least that
	for _, f := range s.index.files.Files() {
		if f.Header.Count > 1 {
			files = append(files, indexPoint{filepath.Base(f.Path), f.Header.EndLogOffset})
		}
	}
	return indexed, files
}

// leaveOutLost makes the point vouch for no index file that somebody has removed
// while the store was open, and for none behind it.
func (s *DefaultMessageStore) leaveOutLost(p *recoveryPoint) {
	if s.index == nil {
		return
	}
	lost := s.index.files.Lost()
	if lost == "" {
		return
	}
	s.cfg.Logger.Warn("an index file was removed from outside; the next open will build it again", "dir", s.dir, "file", lost)
	kept := slices.IndexFunc(p.IndexFiles, func(f indexPoint) bool { return f.Name >= filepath.Base(lost) })
	if kept < 0 {
		return // it has no entries
	}
	p.IndexFiles, p.Index = p.IndexFiles[:kept], 0
	if kept > 0 {
		p.Index = p.IndexFiles[kept-1].End
	}
}

// flushIndex makes the index durable, false if it can not. That costs nobody
// anything until the next Open, which repairs it.
func (s *DefaultMessageStore) flushIndex() bool {
	if s.index == nil || s.index.failed != nil {
		return false
	}
	if s.index.failed = s.index.files.Flush(); s.index.failed != nil {
		s.cfg.Logger.Error("index not flushed; the next open will repair it", "dir", s.dir, "err", s.index.failed)
		s.troubles.indexFlush.failed(s.cfg.Now(), s.point.Index, s.index.failed)
	}
	return s.index.failed == nil
}
