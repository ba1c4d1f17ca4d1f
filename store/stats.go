package store

import (
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/message"
)

// Stats is a snapshot of counters and histograms since Open, and of gauges. It
// is a value.
type Stats struct {
	PutMessages int64 // placed, confirmed or not
	PutBytes    int64 // of their records
	PutFailures int64 // refused, or not confirmed
	GetMessages int64
	GetBytes    int64
	Syncs       int64 // of the log, that put something on disk

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

	// PutLatency is how long PutMessage and PutMessages took, whatever their
	// answer. Under FlushSync all are timed; under FlushAsync batches, and about
	// one of 64 single messages, because two looks at the clock cost a good part
	// of what such a put does.
	PutLatency Histogram[time.Duration]
	// SyncLatency is how long the syncs took that are counted in Syncs, with
	// writing what a sync takes along; SyncP99 is what 99 % of them stay within.
	SyncLatency Histogram[time.Duration]
	SyncP99     time.Duration
	// GetLatency is how long GetMessage took, whatever its answer: of about one of
	// 64 calls.
	GetLatency Histogram[time.Duration]
	// DispatchLatency is the time from a message's store timestamp until it could
	// be read from its queue: a value for each run of up to 128 messages that
	// became known together, of the one that waited longest. Store timestamps are
	// whole milliseconds, so it is up to one more than it was.
	DispatchLatency Histogram[time.Duration]
	// GroupSize is how many messages were put on disk by each of Syncs; its Mean
	// says how well writers share them.
	GroupSize Histogram[int64]

	// Puts that wait at this moment: for the sync of their message; for room, which
	// is space on disk or the end of a sync that holds too much memory; and for a
	// dispatcher that lags too much.
	WaitingForSync     int64
	WaitingForRoom     int64
	WaitingForDispatch int64

	LogStart      message.LogOffset
	LogEnd        message.LogOffset // what readers see
	LogDurable    message.LogOffset // what is known to be on disk
	DirtyBytes    int64             // between the two
	DispatchedEnd message.LogOffset
	DispatchLag   int64             // bytes
	DispatchAge   time.Duration     // since the oldest message was stored that is not dispatched; 0 if all are
	RebuildLeft   int64             // bytes of the log until consume queues that are built in the background are whole; 0 if none are
	IndexedEnd    message.LogOffset // 0 without an index
	IndexLag      int64             // bytes
	Queues        int

	Messages  int64         // in all queues, that can be read; see Queues for each
	Bytes     int64         // of the log, between LogStart and LogEnd
	OldestAge time.Duration // since the first message was stored that is still there; 0 if there is none, or the store is closed

	// DiskFree is what the disk has for this user, in bytes, and DiskTotal its size;
	// -1 if unknown. Space that is prepared for the next messages counts as used.
	DiskFree, DiskTotal int64
	// GrowthRate is by how many bytes per second log and consume queues grew in
	// the recent past, in which a byte counts a third after ten minutes; negative
	// while more is removed. While nothing is put it sinks towards 0.
	GrowthRate float64
	// UntilFull is how long DiskFree lasts at GrowthRate: Forever when the store
	// does not grow, or DiskFree is unknown; 0 when the disk is full.
	UntilFull time.Duration
}

type counts struct {
	putFailures                       atomic.Int64
	getMessages, getBytes             atomic.Int64
	syncs, lagWaits, dispatchFailures atomic.Int64
	indexFailures                     atomic.Int64
	blockedPuts, blocked              atomic.Int64

	segmentsRemoved, bytesRemoved, messagesRemoved [reasons]atomic.Int64 // by Reason
	callbackPanics                                 atomic.Int64
	waitingForDispatch                             atomic.Int64
}

// Stats may be called at any time, also after Close.
func (s *DefaultMessageStore) Stats() Stats {
	messages, bytes := s.log.Placed()
	stats := Stats{
		PutMessages: messages, PutBytes: bytes, PutFailures: s.stats.putFailures.Load(),
		GetMessages: s.stats.getMessages.Load(), GetBytes: s.stats.getBytes.Load(), Syncs: s.stats.syncs.Load(),
		CallbackPanics: s.stats.callbackPanics.Load(), LagWaits: s.stats.lagWaits.Load(),
		DispatchFailures: s.stats.dispatchFailures.Load(), IndexFailures: s.stats.indexFailures.Load(),
		LogStart: s.log.MinOffset(), LogEnd: s.log.Visible(), LogDurable: s.log.Durable(), DirtyBytes: s.log.Dirty(),
		DispatchedEnd: s.dispatcher.Position(), DispatchLag: s.dispatcher.Lag(), Queues: s.queues.Len(),
		BlockedPuts: s.stats.blockedPuts.Load(), Blocked: s.stats.blocked.Load(),
		BytesStored: s.bytesStored(),
	}
	for r := range reasons {
		stats.SegmentsRemoved[r] = s.stats.segmentsRemoved[r].Load()
		stats.BytesRemoved[r] = s.stats.bytesRemoved[r].Load()
		stats.MessagesRemoved[r] = s.stats.messagesRemoved[r].Load()
	}
	if b := s.building.Load(); b != nil {
		stats.RebuildLeft = b.left(s)
	}
	if s.index != nil {
		stats.IndexedEnd, stats.IndexLag = s.index.dispatcher.Position(), s.index.dispatcher.Lag()
	}
	s.measure(&stats)
	return stats
}
