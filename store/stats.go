package store

import (
	"sync/atomic"

	"github.com/pocketmq/pocketmq/message"
)

// Stats is a snapshot of counters since Open, and of gauges. It is a value.
type Stats struct {
	PutMessages int64 // placed, confirmed or not
	PutBytes    int64 // of their records
	PutFailures int64 // refused, or not confirmed
	GetMessages int64
	GetBytes    int64
	Syncs       int64 // of the log

	CallbackPanics   int64 // in functions given to PutMessageAsync
	LagWaits         int64 // puts that waited for the dispatcher
	DispatchFailures int64 // attempts that will be repeated
	IndexFailures    int64 // the same, of the index

	// What was removed, by Reason: SegmentsRemoved[ReasonAge]. What was dropped to
	// make room, and not because retention allowed it, is that of ReasonFull.
	SegmentsRemoved [reasons]int64 // files of the log
	BytesRemoved    [reasons]int64 // of these files
	MessagesRemoved [reasons]int64 // that could be read in a queue before

	BlockedPuts int64 // puts that waited for room
	Blocked     int64 // puts that wait for room now

	BytesStored int64 // size of the files of log and queues, and of the reserve
	DiskTotal   int64 // bytes, at the last look: at Open, and whenever it mattered
	DiskFree    int64 // of these, what this user may still use

	LogStart      message.LogOffset
	LogEnd        message.LogOffset // what readers see
	LogDurable    message.LogOffset // what is known to be on disk
	DirtyBytes    int64             // between the two
	DispatchedEnd message.LogOffset
	DispatchLag   int64             // bytes
	IndexedEnd    message.LogOffset // 0 without an index
	IndexLag      int64             // bytes
	Queues        int
}

type counts struct {
	putMessages, putBytes, putFailures atomic.Int64
	getMessages, getBytes              atomic.Int64
	syncs, lagWaits, dispatchFailures  atomic.Int64
	indexFailures                      atomic.Int64
	blockedPuts, blocked               atomic.Int64

	segmentsRemoved, bytesRemoved, messagesRemoved [reasons]atomic.Int64 // by Reason
	callbackPanics                                 atomic.Int64
}

// Stats may be called at any time, also after Close.
func (s *DefaultMessageStore) Stats() Stats {
	disk := s.disk.lastSeen()
	stats := Stats{
		PutMessages: s.stats.putMessages.Load(), PutBytes: s.stats.putBytes.Load(), PutFailures: s.stats.putFailures.Load(),
		GetMessages: s.stats.getMessages.Load(), GetBytes: s.stats.getBytes.Load(), Syncs: s.stats.syncs.Load(),
		CallbackPanics: s.stats.callbackPanics.Load(), LagWaits: s.stats.lagWaits.Load(),
		DispatchFailures: s.stats.dispatchFailures.Load(), IndexFailures: s.stats.indexFailures.Load(),
		LogStart: s.log.MinOffset(), LogEnd: s.log.Visible(), LogDurable: s.log.Durable(), DirtyBytes: s.log.Dirty(),
		DispatchedEnd: s.dispatcher.Position(), DispatchLag: s.dispatcher.Lag(), Queues: len(s.queues.All()),
		BlockedPuts: s.stats.blockedPuts.Load(), Blocked: s.stats.blocked.Load(),
		BytesStored: s.bytesStored(), DiskTotal: disk.total, DiskFree: disk.free,
	}
	for r := range reasons {
		stats.SegmentsRemoved[r] = s.stats.segmentsRemoved[r].Load()
		stats.BytesRemoved[r] = s.stats.bytesRemoved[r].Load()
		stats.MessagesRemoved[r] = s.stats.messagesRemoved[r].Load()
	}
	if s.index != nil {
		stats.IndexedEnd, stats.IndexLag = s.index.dispatcher.Position(), s.index.dispatcher.Lag()
	}
	return stats
}
