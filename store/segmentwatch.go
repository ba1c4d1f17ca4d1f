package store

import (
	"path/filepath"
	"sync"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// segmentWatch remembers which files of the log were told of.
type segmentWatch struct {
	mu          sync.Mutex
	first, next message.LogOffset // files in between are known
}

// beginSegments takes the files that are there at Open for known.
func (s *DefaultMessageStore) beginSegments(first, end message.LogOffset) {
	s.segments.first, s.segments.next = first, s.segmentsUpTo(end)
}

// noticeSegments tells of the files that came and went, given where the log
// begins and ends now. A file that was made ahead counts when it is used.
func (s *DefaultMessageStore) noticeSegments(first, end message.LogOffset) {
	if s.cfg.Events.SegmentCreated == nil && s.cfg.Events.SegmentRemoved == nil {
		return
	}
	w, size, to := &s.segments, message.LogOffset(s.log.FileSize()), s.segmentsUpTo(end)
	w.mu.Lock()
	removed, created := w.first, w.next
	w.first, w.next = max(w.first, first), max(w.next, to)
	w.mu.Unlock()
	for ; created < to; created += size {
		fire(s, "SegmentCreated", s.cfg.Events.SegmentCreated, s.segmentEvent(created))
	}
	for ; removed < first; removed += size {
		fire(s, "SegmentRemoved", s.cfg.Events.SegmentRemoved, s.segmentEvent(removed))
	}
}

// segmentsUpTo is the end of the last file that holds something before end.
func (s *DefaultMessageStore) segmentsUpTo(end message.LogOffset) message.LogOffset {
	size := message.LogOffset(s.log.FileSize())
	return (end + size - 1) / size * size
}

func (s *DefaultMessageStore) segmentEvent(from message.LogOffset) SegmentEvent {
	return SegmentEvent{
		Path: filepath.Join(s.dir, "commitlog", segment.FileName(int64(from))),
		From: from, To: from + message.LogOffset(s.log.FileSize()),
	}
}
