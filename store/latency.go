package store

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/message"
)

// measures are the histograms behind Stats.
type measures struct {
	put, get, sync, dispatch recorder[time.Duration]
	group                    recorder[int64]
}

// oneOf is of how many calls that take less than a microsecond one is timed:
// looking at the clock twice would cost a tenth of each.
const oneOf = 64

// beginPut is when a put began, zero for one that is not timed: see
// Stats.PutLatency.
func (s *DefaultMessageStore) beginPut() time.Time {
	if s.cfg.Flush == FlushAsync && !chosen(s.log.Visible()) {
		return time.Time{}
	}
	return time.Now()
}

// chosen is true for one in oneOf of the offsets, whatever lies between them.
func chosen(at message.LogOffset) bool {
	const golden = 0x9E3779B97F4A7C15 // 2⁶⁴ divided by the golden ratio
	return (uint64(at)+1)*golden < math.MaxUint64/oneOf
}

// beginGet is when a get began, zero for one that is not timed. To draw lots is
// cheaper than to count the calls of all readers in one place.
func beginGet() time.Time {
	if rand.Uint32()%oneOf != 0 {
		return time.Time{}
	}
	return time.Now()
}

// since records the time from began to now.
func (r *recorder[V]) since(began time.Time) {
	if !began.IsZero() {
		r.record(V(time.Since(began)))
	}
}

// logSynced hears of each sync of the log, on the goroutine that did it.
func (s *DefaultMessageStore) logSynced(y commitlog.Sync) {
	s.stats.syncs.Add(1)
	s.measures.sync.record(y.Took)
	s.measures.group.record(y.Messages)
	fire(s, "Flushed", s.cfg.Events.Flushed, FlushEvent(y))
	s.noticeSegments(s.log.MinOffset(), s.log.Visible())
}

// SyncAge is how long the sync of the log that is under way has taken so far,
// zero when none is. One that takes very much longer than Stats.SyncP99 is of a
// disk that hangs: nothing else tells of it, because there is no error.
func (s *DefaultMessageStore) SyncAge() time.Duration { return s.log.SyncAge() }

// passed hears that units of some messages can be read now, the first of which
// was stored at the time (ms). It is called by the dispatcher's goroutine.
func (s *DefaultMessageStore) passed(_ int, stored int64) {
	if s.building.Load() == nil { // else it is an old one
		s.measures.dispatch.record(s.cfg.Now().Sub(time.UnixMilli(stored)))
	}
	s.recovered(&s.troubles.dispatch, SinkQueues)
}
