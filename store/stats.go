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

	LagWaits         int64 // puts that waited for the dispatcher
	DispatchFailures int64 // attempts that will be repeated
	IndexFailures    int64 // the same, of the index

	LogStart      message.LogOffset
	LogEnd        message.LogOffset // what readers see
	LogDurable    message.LogOffset // what is known to be on disk
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
}

// Stats may be called at any time, also after Close.
func (s *DefaultMessageStore) Stats() Stats {
	st := Stats{
		PutMessages: s.stats.putMessages.Load(), PutBytes: s.stats.putBytes.Load(), PutFailures: s.stats.putFailures.Load(),
		GetMessages: s.stats.getMessages.Load(), GetBytes: s.stats.getBytes.Load(), Syncs: s.stats.syncs.Load(),
		LagWaits: s.stats.lagWaits.Load(), DispatchFailures: s.stats.dispatchFailures.Load(), IndexFailures: s.stats.indexFailures.Load(),
		LogStart: s.log.MinOffset(), LogEnd: s.log.Visible(), LogDurable: s.log.Durable(),
		DispatchedEnd: s.dispatcher.Position(), DispatchLag: s.dispatcher.Lag(), Queues: len(s.queues.All()),
	}
	if s.index != nil {
		st.IndexedEnd, st.IndexLag = s.index.dispatcher.Position(), s.index.dispatcher.Lag()
	}
	return st
}
