package store

import (
	"time"

	"github.com/pocketmq/pocketmq/message"
)

// measure fills in what is not a counter. It looks at two records, at the disk
// and at each queue, of which it opens those that were not used since Open.
func (s *DefaultMessageStore) measure(st *Stats) {
	st.PutLatency, st.GetLatency = s.measures.put.snapshot(), s.measures.get.snapshot()
	st.SyncLatency, st.DispatchLatency = s.measures.sync.snapshot(), s.measures.dispatch.snapshot()
	st.GroupSize = s.measures.group.snapshot()
	st.SyncP99 = st.SyncLatency.Quantile(0.99)

	st.WaitingForRoom, st.WaitingForSync = s.log.Waiting()
	st.WaitingForRoom += st.Blocked
	st.WaitingForDispatch = s.stats.waitingForDispatch.Load()

	now := s.cfg.Now()
	if st.DispatchLag > 0 {
		st.DispatchAge = s.age(now, st.DispatchedEnd)
	}
	st.OldestAge = s.age(now, st.LogStart)
	st.Messages, st.Bytes = s.messages(), int64(st.LogEnd-st.LogStart)

	st.DiskTotal, st.DiskFree = s.space()
	st.GrowthRate = s.growth.rate(now, s.size())
	st.UntilFull = untilFull(st.DiskFree, st.GrowthRate)
}

// age is how long ago the first readable record at or behind off was stored.
func (s *DefaultMessageStore) age(now time.Time, off message.LogOffset) time.Duration {
	stored, ok := s.log.StoreTimestamp(off)
	if !ok {
		return 0
	}
	return max(0, now.Sub(time.UnixMilli(stored)))
}

// messages is how many can be read, in all queues together.
func (s *DefaultMessageStore) messages() int64 {
	var n int64
	queues, _ := s.queues.LoadAll() // one that can not be opened has nothing to read
	for _, q := range queues {
		n += int64(max(0, q.Max()-q.Min()))
	}
	return n
}

// size is how many bytes of the log have something in them.
func (s *DefaultMessageStore) size() int64 { return int64(s.log.Visible() - s.log.MinOffset()) }

// space is what the disk has, in bytes, -1 if that can not be told.
func (s *DefaultMessageStore) space() (total, free int64) {
	seen := s.disk.look()
	if seen.total == 0 {
		return -1, -1
	}
	return seen.total, seen.free
}

// Depth is the number of messages that can be read from the queue.
func (q QueueInfo) Depth() int64 { return int64(q.MaxOffset - q.MinOffset) }
