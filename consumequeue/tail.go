package consumequeue

import (
	"fmt"
)

// tail is the last units of a queue whose file is not open. With more queues in
// use than files may be mapped, opening one for each unit would cost more than
// everything else that is done for a message. So units wait in memory, and many
// are written at once: when the queue is flushed, when it needs another block, or
// when all tails together grow too large.
//
// Readers see no difference. The disk does, after a kill: but units are derived.
type tail struct {
	first int64 // number of the first unit; all before it are in the files
	end   int64 // the units before it have blocks
	bytes []byte
}

// units is how many there are.
func (t *tail) units() int64 { return int64(len(t.bytes)) / UnitSize }

// fewUnits is what there is room for before a tail grows for the first time.
const fewUnits = 4

// keep takes units after the last one into the tail, and returns how many. It takes
// only what can be written later even on a full disk: what has a block already, in
// a file that is there.
func (q *Queue) keep(n int64, units []Unit) (kept int) {
	if q.tail.Load() == nil && !q.mayKeep(n) || !q.table.roomForTails() {
		return 0
	}
	q.tailMu.Lock()
	defer q.tailMu.Unlock()
	t := q.tail.Load()
	if t == nil {
		if t = q.newTail(n); t == nil {
			return 0
		}
		q.tail.Store(t)
		q.table.keeps(q)
	}
	had := len(t.bytes)
	t.bytes = t.bytes[:(n-t.first)*UnitSize] // what an attempt that failed has put behind it comes again
	for kept < len(units) && n+int64(kept) < t.end {
		t.bytes = units[kept].Append(t.bytes)
		kept++
	}
	q.table.kept.Add(int64(len(t.bytes) - had))
	return kept
}

// mayKeep reports whether unit n may begin a tail.
func (q *Queue) mayKeep(n int64) bool {
	f := q.files.Last()
	return f != nil && !f.IsMapped() && n*UnitSize >= f.Base() && (n+1)*UnitSize <= f.Base()+f.Allocated()
}

// newTail is an empty tail that begins with unit n, nil if there can be none.
func (q *Queue) newTail(n int64) *tail {
	if !q.mayKeep(n) {
		return nil
	}
	f := q.files.Last()
	return &tail{first: n, end: (f.Base() + f.Allocated()) / UnitSize, bytes: make([]byte, 0, fewUnits*UnitSize)}
}

// readTail is Read for what is in the tail. It returns how many units from the
// given number on are in the files if that is where they begin.
func (q *Queue) readTail(from int64, dst []Unit) (n int, before int64) {
	q.tailMu.Lock()
	defer q.tailMu.Unlock()
	t := q.tail.Load()
	if t == nil {
		return 0, maxOffset
	}
	if from < t.first {
		return 0, t.first - from
	}
	n = int(min(int64(len(dst)), t.first+t.units()-from))
	for i := range dst[:n] {
		dst[i] = unitAt(t.bytes[(from-t.first+int64(i))*UnitSize:])
	}
	return n, 0
}

// writeTail writes the tail into its file. It may be called concurrently with
// everything. After an error the tail is what it was.
func (q *Queue) writeTail() error {
	if q.tail.Load() == nil {
		return nil
	}
	q.tailMu.Lock()
	defer q.tailMu.Unlock()
	t := q.tail.Load()
	if t == nil {
		return nil
	}
	if err := q.files.WriteAt(t.bytes, t.first*UnitSize); err != nil {
		return fmt.Errorf("consume queue: %w", err)
	}
	q.tail.Store(nil)
	q.table.kept.Add(int64(-len(t.bytes)))
	return nil
}

// keeps notes that the queue has a tail.
func (t *Table) keeps(q *Queue) {
	t.markMu.Lock()
	defer t.markMu.Unlock()
	if q.marks.Or(markKeeps)&markKeeps == 0 {
		t.keeping = append(t.keeping, q)
	}
}

// roomForTails reports whether there is room for one more unit, after it has
// written the oldest tails if need be. The order is a rough one: a queue whose
// tail was flushed meanwhile keeps its place.
func (t *Table) roomForTails() bool {
	for t.kept.Load() >= t.cfg.TailBytes {
		q := t.oldestTail()
		if q == nil {
			return false // there is no room at all
		}
		if q.writeTail() != nil { // its own Flush will say so
			t.keeps(q)
			return false
		}
	}
	return true
}

// oldestTail takes the first queue off the list of those with a tail.
func (t *Table) oldestTail() *Queue {
	t.markMu.Lock()
	defer t.markMu.Unlock()
	if len(t.keeping) == 0 {
		return nil
	}
	q := t.keeping[0]
	t.keeping = t.keeping[1:]
	q.marks.And(^uint32(markKeeps))
	return q
}
