package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/pocketmq/pocketmq/dispatcher"
	"github.com/pocketmq/pocketmq/indexfile"
	"github.com/pocketmq/pocketmq/message"
)

// keyIndex is the store's index and what feeds it: a dispatcher of its own, so
// that an index that can not be written, or is being built again, holds up
// nobody who reads queues. Else it follows that of the queues.
type keyIndex struct {
	files      *indexfile.Index
	dispatcher *dispatcher.Dispatcher
	from       message.LogOffset
	caughtUp   atomic.Bool // it was once hardly behind the log
	failed     error       // why it can not be flushed; of the maintenance goroutine
}

// loadIndex opens the index as it is.
func (s *DefaultMessageStore) loadIndex() error {
	if s.cfg.NoIndex {
		return nil
	}
	geometry, known, err := s.indexGeometry()
	if err != nil {
		return err
	}
	files, err := indexfile.Open(indexfile.Config{
		FS: s.cfg.fs, Dir: s.indexDir(), Slots: geometry.Slots, Entries: geometry.Entries,
		FileMode: s.cfg.FileMode, DirMode: s.cfg.DirMode, MaxResults: s.cfg.MaxQueryResults,
		Now: s.cfg.Now, Rebuild: known,
	})
	if err != nil {
		return err
	}
	s.index = &keyIndex{files: files}
	s.followers = append(s.followers, files)
	for _, d := range files.Dropped() {
		s.recovery.IndexDropped = append(s.recovery.IndexDropped, d.Path)
		s.cfg.Logger.Warn("index file dropped, to be built again from the log", "file", d.Path, "err", d.Err)
	}
	return nil
}

// settleIndex makes the index agree with the log that recovery left.
//
//	our recovery point  last stop  kept of the index            fed from
//	holds               any        what was put before it       the point's index position
//	none                clean      what points into the log     the last record that is indexed
//	none                crash      what RocketMQ's checkpoint   the last record that is indexed
//	                               says is on disk
//
// Where the whole log was read, and holes has found a message whose keys are
// missing among those that are kept, nothing is kept. What is fed from there on is
// put again, by the dispatcher: Open does not wait.
func (s *DefaultMessageStore) settleIndex(holes *indexHoles) error {
	s.point.Index = min(s.point.Index, s.recovery.LogEnd)
	if s.index == nil {
		return nil
	}
	files := s.index.files
	if err := s.repairIndex(); err != nil {
		return err
	}
	if at, ok := holes.before(files.NextLogOffset()); ok {
		if err := s.dropIndex(at); err != nil {
			return err
		}
	}
	s.index.from = max(files.NextLogOffset(), s.recovery.LogStart)
	s.recovery.IndexFrom = s.index.from
	geometry := indexGeometry{files.Slots(), files.Entries()}
	if s.primary.Index == nil || *s.primary.Index != geometry {
		s.primary.Index = &geometry
		return s.changePrimary()
	}
	return nil
}

// dropIndex removes the index: the keys of the message at the log offset at are
// missing in it, and can only be added in the order of the log.
func (s *DefaultMessageStore) dropIndex(at message.LogOffset) error {
	for _, f := range s.index.files.Files() {
		s.recovery.IndexDropped = append(s.recovery.IndexDropped, f.Path)
	}
	s.cfg.Logger.Warn("index dropped, to be built again from the log: keys are missing in it", "dir", s.dir, "offset", at)
	return s.index.files.Truncate(0)
}

func (s *DefaultMessageStore) repairIndex() error {
	files, end := s.index.files, s.recovery.LogEnd
	next := s.indexedBefore()
	switch {
	case s.recovery.FromPoint && s.recovery.Clean && s.recovery.Records == 0 && next >= s.point.LogOffset:
		files.Resume(next)
		return nil
	case s.recovery.FromPoint:
		return files.Repair(next)
	case !s.recovery.Clean:
		if err := files.RemoveNewer(s.checkpoint.index); err != nil {
			return err
		}
	}
	return files.Truncate(end)
}

// indexHoles looks for a message whose keys lie in no index file, though later
// ones do. A RocketMQ broker leaves that behind: after a crash it removes the
// files that were not full, and indexes again from where its recovery begins.
type indexHoles struct {
	files []indexfile.Header // with entries, in order, whose last record was not met yet
	first message.LogOffset  // of these messages
	found bool
}

// indexHoles is for a log that is read from its start.
func (s *DefaultMessageStore) indexHoles() *indexHoles {
	h := &indexHoles{}
	if s.index == nil {
		return h
	}
	for _, f := range s.index.files.Files() {
		if f.Header.Count > 1 {
			h.files = append(h.files, f.Header)
		}
	}
	return h
}

// see is shown the records in order.
func (h *indexHoles) see(r *message.DispatchRequest) {
	off := r.LogOffset()
	for len(h.files) > 0 && off > h.files[0].EndLogOffset {
		h.files = h.files[1:]
	}
	if !h.found && len(h.files) > 0 && off < h.files[0].BeginLogOffset && indexfile.HasKeys(r.View) {
		h.first, h.found = off, true
	}
}

// before returns the first message that was found, if it lies before off.
func (h *indexHoles) before(off message.LogOffset) (message.LogOffset, bool) {
	return h.first, h.found && h.first < off
}

// indexedBefore is the log offset before which nothing is missing in the index,
// as the recovery point and the files that are there say.
func (s *DefaultMessageStore) indexedBefore() message.LogOffset {
	there := make(map[string]message.LogOffset)
	for _, f := range s.index.files.Files() {
		there[filepath.Base(f.Path)] = f.Header.EndLogOffset
	}
	before := message.LogOffset(0)
	for _, f := range s.point.IndexFiles {
		if end, ok := there[f.Name]; f.End >= s.recovery.LogStart && (!ok || end < f.End) {
			return min(s.point.Index, before) // it was deleted, or is an older one
		}
		before = f.End
	}
	return s.point.Index
}

func (s *DefaultMessageStore) indexDir() string { return filepath.Join(s.dir, "index") }

// indexGeometry says how index files are divided: as the directory remembers,
// else as its files show, else as configured. Without a file what is configured
// counts more than what is remembered. known means that files divided otherwise are
// damaged, or have no entries.
func (s *DefaultMessageStore) indexGeometry() (indexGeometry, bool, error) {
	wanted := indexGeometry{s.cfg.IndexSlots, s.cfg.IndexEntries}
	found, known := s.primary.Index, true
	if found == nil {
		slots, entries, err := indexfile.Infer(s.cfg.fs, s.indexDir())
		switch {
		case errors.Is(err, indexfile.ErrUnknownGeometry) && wanted != (indexGeometry{}):
			known = false
		case err != nil:
			return indexGeometry{}, false, err
		case slots != 0:
			found = &indexGeometry{slots, entries}
		}
	}
	g := indexGeometry{DefaultIndexSlots, DefaultIndexEntries}
	fixed := false
	if found != nil {
		g = *found
		var err error
		if fixed, err = indexfile.HasFiles(s.cfg.fs, s.indexDir()); err != nil {
			return g, false, err
		}
	}
	if err := agree("IndexSlots", wanted.Slots, &g.Slots, fixed); err != nil {
		return g, false, err
	}
	return g, known, agree("IndexEntries", wanted.Entries, &g.Entries, fixed)
}

// agree takes over a configured value where the directory has none yet.
func agree(field string, configured int32, value *int32, fixed bool) error {
	switch {
	case configured == 0 || configured == *value:
		return nil
	case fixed:
		return &message.IllegalError{Field: "Config." + field, Value: strconv.Itoa(int(configured)),
			Reason: fmt.Sprintf("differs from %d, which the files in the directory have", *value)}
	}
	*value = configured
	return nil
}

// start begins to feed the index.
func (x *keyIndex) start(s *DefaultMessageStore) {
	x.dispatcher = dispatcher.Start(dispatcher.Config{
		Source: (*indexSource)(s), Sinks: []dispatcher.Sink{x}, Try: x.try, From: x.from,
		Failed: func(at message.LogOffset, err error) {
			s.stats.indexFailures.Add(1)
			s.stuck(&s.troubles.index, SinkIndex, at, err)
		},
		Passed: func(int, int64) {
			s.progress()
			s.recovered(&s.troubles.index, SinkIndex)
		},
	})
}

// Dispatch implements dispatcher.Sink.
func (x *keyIndex) Dispatch(r *message.DispatchRequest) error { return typed(x.files.Put(r)) }

// Complete implements dispatcher.Sink.
func (x *keyIndex) Complete() error { return nil }

// try is Dispatch where that need not wait.
func (x *keyIndex) try(r *message.DispatchRequest) (taken bool, err error) {
	taken, err = x.files.TryPut(r)
	return taken, typed(err)
}

// indexSource is the log, from where it begins now: what was deleted before it
// could be indexed need not be.
type indexSource DefaultMessageStore

func (s *indexSource) End() message.LogOffset { return s.log.End() }

func (s *indexSource) Scan(from, to message.LogOffset, visit func(*message.DispatchRequest) error) (message.LogOffset, error) {
	return s.log.Scan(min(max(from, s.log.MinOffset()), to), to, visit)
}

// finishIndex lets the index catch up before the store closes, unless it is far
// behind: then the next Open goes on. A RocketMQ broker would not.
func (s *DefaultMessageStore) finishIndex(ctx context.Context) {
	if s.index == nil {
		return
	}
	if s.index.dispatcher.Lag() <= s.cfg.MaxDispatchLag {
		if err := s.index.dispatcher.Wait(ctx, s.log.Visible()); err != nil {
			s.cfg.Logger.Warn("index not complete; the next open goes on with it", "dir", s.dir, "err", err)
		}
	}
	_ = s.index.dispatcher.Close() // never fails
}

// lag is by how many bytes the index is behind, once that was no more than most.
func (x *keyIndex) lag(most int64) int64 {
	lag := x.dispatcher.Lag()
	if lag <= most {
		x.caughtUp.Store(true)
	}
	if !x.caughtUp.Load() {
		return 0 // it is built again; puts need not wait for that
	}
	return lag
}

// WaitIndexed blocks until the keys of everything before upTo can be found; see
// WaitDispatched. It returns nil at once for a store without an index.
func (s *DefaultMessageStore) WaitIndexed(ctx context.Context, upTo message.LogOffset) error {
	if s.index == nil {
		return nil
	}
	return typed(s.index.dispatcher.Wait(ctx, upTo))
}
