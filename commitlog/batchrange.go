package commitlog

import (
	"sync"
	"sync/atomic"

	"github.com/pocketmq/pocketmq/message"
)

// batchRanges remembers where batches of several records lie, from their append
// until BatchAt has gone past them.
type batchRanges struct {
	n    atomic.Int32 // of list; looked at for every record, before the lock
	mu   sync.Mutex   // may be taken under the put lock, never the other way round
	list []batchRange // in log order
}

type batchRange struct{ from, to message.LogOffset }

// add notes a batch. The caller holds the put lock, and nobody sees the batch yet.
func (b *batchRanges) add(from, to int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, batchRange{message.LogOffset(from), message.LogOffset(to)})
	b.n.Store(int32(len(b.list)))
}

// BatchAt returns where the batch begins and ends to which the record at off
// belongs, false for a record alone. It is for one goroutine, which goes through
// the log forward: it forgets what lies before off. Batches that were appended
// before Open are not known.
func (l *Log) BatchAt(off message.LogOffset) (from, to message.LogOffset, ok bool) {
	b := &l.batches
	if b.n.Load() == 0 {
		return 0, 0, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	past := 0
	for past < len(b.list) && b.list[past].to <= off {
		past++
	}
	if past > 0 {
		b.list = b.list[:copy(b.list, b.list[past:])]
		b.n.Store(int32(len(b.list)))
	}
	if len(b.list) == 0 || b.list[0].from > off {
		return 0, 0, false
	}
	return b.list[0].from, b.list[0].to, true
}
