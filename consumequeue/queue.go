// Package consumequeue is RocketMQ's ConsumeQueue: for each (topic, queue id) a
// dense array of 20-byte units that point into the commit log.
//
// There may be very many queues, nearly all of them idle. So a queue costs some
// hundred bytes of memory until it is used, a file is open only while it is in
// use, and what is done now and then looks at the queues that changed.
//
// Laws of the package:
//
//   - All of it can be rebuilt from the log: losing it loses no message.
//   - Unit q is message q. A message that is missing leaves a blank, never a
//     shift.
//   - One goroutine writes (the dispatcher); any number reads.
package consumequeue

import (
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// Queue is the units of one topic and queue id. Put and the other methods that
// change it are for one goroutine at a time; the rest may be called
// concurrently with them. Before Load the queue is not to be used but for its
// fields, FileSize and Covers.
type Queue struct {
	table *Table // this and what follows is what a unit costs: one cache line
	files *segment.Files
	max   atomic.Int64  // number of the next message
	marks atomic.Uint32 // lists of the table that the queue is in
	ready atomic.Bool

	newest atomic.Int64         // log offset of the unit that was put last, -1 for none since Open
	tail   atomic.Pointer[tail] // nil when all units are in the files
	tailMu sync.Mutex           // held to look into tail, and to change it

	Topic string
	ID    int32

	// Known is how many messages the queue is known to have had, -1 if nobody
	// knows. It is its owner's: of Config.Loaded, and then of who calls
	// Table.Changed.
	Known message.QueueOffset

	min     atomic.Int64 // first message that can be read
	flushed atomic.Int64 // units before it are synced, as far as known

	loading sync.Mutex // held by the one Load that works

	flushing sync.Mutex // held by the one Flush that works
	failed   error      // the sync that failed; guarded by flushing
}

// Load finds the end of a queue that was there at Open, and shows it to
// Config.Loaded. Once it has returned nil it does nothing. It may be called
// concurrently.
func (q *Queue) Load() error {
	if q.ready.Load() {
		return nil
	}
	q.loading.Lock()
	defer q.loading.Unlock()
	if q.ready.Load() {
		return nil
	}
	if err := q.findMax(); err != nil {
		return err
	}
	if q.table.cfg.Loaded != nil {
		if err := q.table.cfg.Loaded(q); err != nil {
			return fmt.Errorf("consume queue %s: %w", q.files.Dir(), err)
		}
	}
	if q.table.closed.Load() { // then its files may have been gone
		return fmt.Errorf("consume queue %s: %w", q.files.Dir(), segment.ErrClosed)
	}
	q.ready.Store(true)
	if q.flushed.Load() < q.max.Load() { // Config.Loaded has put units
		q.mark()
	}
	return nil
}

// Loaded reports whether Load has returned nil.
func (q *Queue) Loaded() bool { return q.ready.Load() }

// Covers reports whether the queue has a file for each unit in [from, to), as
// far as can be told without opening one.
func (q *Queue) Covers(from, to message.QueueOffset) bool {
	first, last := q.files.First(), q.files.Last()
	return from >= to || first != nil && int64(from)*UnitSize >= first.Base() && int64(to)*UnitSize <= last.End()
}

// Min is the number of the queue's first message that the log still has; equal
// to Max when there is none.
func (q *Queue) Min() message.QueueOffset { return message.QueueOffset(q.min.Load()) }

// Max is the number that the queue's next message will get here.
func (q *Queue) Max() message.QueueOffset { return message.QueueOffset(q.max.Load()) }

// FileSize is the size of the queue's files in bytes.
func (q *Queue) FileSize() int64 { return q.files.FileSize() }

// Read copies units from the given number on into dst and returns how many: it
// stops at Max, at the end of a file, and where units begin that are not in one
// yet, so 0 < n < len(dst) does not mean the end. It returns 0 when from is not in
// the queue, and an error matching segment.ErrFault when the file was damaged from
// outside.
func (q *Queue) Read(from message.QueueOffset, dst []Unit) (int, error) {
	var now segment.Clock
	return q.ReadAt(&now, from, dst)
}

// ReadAt is Read for who has looked at the clock, or will.
func (q *Queue) ReadAt(now *segment.Clock, from message.QueueOffset, dst []Unit) (int, error) {
	left := q.max.Load() - int64(from) // before the tail is looked at: what that has not is in a file by then
	if from < 0 || left <= 0 {
		return 0, nil
	}
	if q.tail.Load() != nil {
		n, before := q.readTail(int64(from), dst[:min(int64(len(dst)), left)])
		if n > 0 {
			return n, nil
		}
		left = min(left, before)
	}
	f := q.files.Acquire(int64(from) * UnitSize)
	if f == nil {
		return 0, nil
	}
	defer f.Unpin()
	at := int64(from)*UnitSize - f.Base()
	n := min(int64(len(dst)), left, (f.Size()-at)/UnitSize)
	if int64(from) < q.flushed.Load() { // others are dirty, and therefore in memory
		f.MakeResident(at, n*UnitSize, at+left*UnitSize, now)
	}
	if err := readUnits(f, at, dst[:n]); err != nil {
		return 0, fmt.Errorf("consume queue %s: %w", f.Path(), err)
	}
	return int(n), nil
}

func readUnits(f *segment.File, at int64, dst []Unit) (err error) {
	defer f.Catch(debug.SetPanicOnFault(true), &err)
	b := f.Bytes()[at:]
	for i := range dst {
		dst[i] = unitAt(b[i*UnitSize:])
	}
	return nil
}

// At returns one unit, false if the queue does not have it or it can not be read.
func (q *Queue) At(off message.QueueOffset) (Unit, bool) {
	var u [1]Unit
	n, err := q.Read(off, u[:])
	return u[0], n == 1 && err == nil
}

// Unit returns one unit, zero if the queue does not have it.
func (q *Queue) Unit(off message.QueueOffset) (Unit, error) {
	var u [1]Unit
	_, err := q.Read(off, u[:])
	return u[0], err
}

// NextFile is the number of the first unit in the file after the one of off.
func (q *Queue) NextFile(off message.QueueOffset) message.QueueOffset {
	units := message.QueueOffset(q.files.FileSize() / UnitSize)
	return (off/units + 1) * units
}

// Put makes u the unit of message off. What is there already is compared, and
// replaced if it differs or if rewrite is set. A message beyond Max leaves
// blanks for those between. In a queue without files it begins the file that
// holds off, with blanks before it, and off becomes Min. A message before First,
// which only a rebuild from the log brings, means that the first files were
// lost: the queue starts again with it, and those behind it must follow.
//
// The unit can be read on return, and is in memory: see Flush. An error matching
// segment.ErrNoSpace means a full disk; the same call may succeed later.
//
// Source: RocketMQ store/ConsumeQueue.java, putMessagePositionInfo; there a gap
// shifts all units behind it.
func (q *Queue) Put(off message.QueueOffset, u Unit, rewrite bool) error {
	defer q.mark() // after the unit is written: a Flush that saw the mark earlier has missed it
	if off < 0 || off > maxOffset {
		return fmt.Errorf("consume queue %s: %w: message %d", q.files.Dir(), segment.ErrBadOffset, off)
	}
	q.newest.Store(int64(u.LogOffset))
	if int64(off) == q.max.Load() {
		return q.extend(int64(off), []Unit{u})
	}
	if err := q.writeTail(); err != nil {
		return err
	}
	if f := q.files.First(); f != nil && int64(off)*UnitSize < f.Base() {
		if err := q.startAgain(f.Base()); err != nil {
			return err
		}
	}
	next := q.max.Load()
	if int64(off) < next {
		if old, ok := q.At(off); ok && old == u && !rewrite {
			return nil
		}
		q.flushed.Store(min(q.flushed.Load(), int64(off)))
		return q.write(int64(off), []Unit{u})
	}
	if int64(off) > next {
		if err := q.fill(next, int64(off)); err != nil { // Max is off afterwards
			return err
		}
	}
	return q.extend(int64(off), []Unit{u})
}

// extend puts units behind the last one; n is Max.
func (q *Queue) extend(n int64, units []Unit) error {
	if kept := q.keep(n, units); kept < len(units) {
		if err := q.writeTail(); err != nil {
			return err
		}
		if err := q.write(n+int64(kept), units[kept:]); err != nil {
			return err
		}
	}
	q.max.Store(n + int64(len(units)))
	return nil
}

// Before counts the messages whose units point before the log offset end. Units
// must have been put in the order of the log.
func (q *Queue) Before(end message.LogOffset) (message.QueueOffset, error) {
	n := q.Max()
	if newest := q.newest.Load(); newest >= 0 && newest < int64(end) { // after Max: it is that of a unit that counts, or of a later one
		return n, nil
	}
	for ; n > q.First(); n-- {
		u, err := q.Unit(n - 1)
		if err != nil {
			return 0, err
		}
		if u.LogOffset < end {
			break
		}
	}
	return n, nil
}

// startAgain removes all files, of which base is the first.
func (q *Queue) startAgain(base int64) error {
	if _, _, err := q.files.CutAfter(base, false); err != nil {
		return fmt.Errorf("consume queue: %w", err)
	}
	q.min.Store(0)
	q.max.Store(0)
	q.flushed.Store(0)
	return nil
}

// maxOffset is the last message whose unit has a place in 63 bits.
const maxOffset = math.MaxInt64/UnitSize - 1

// fill writes blanks from Max to off. In a queue without units nothing before
// off is there to be read, so they become visible together, below Min. Such a
// queue may have a file: from an attempt that ended half-way.
func (q *Queue) fill(from, off int64) error {
	begin := q.files.Last() == nil || from <= q.first()
	if begin {
		from = off - off%(q.files.FileSize()/UnitSize)
		if q.files.Last() != nil {
			from = q.first()
		}
		if from > off {
			return &segment.GapError{Path: q.files.Dir(), Got: off * UnitSize, Want: from * UnitSize}
		}
		q.flushed.Store(from)
	}
	for ; from < off; from++ {
		if err := q.write(from, []Unit{Blank}); err != nil {
			return err
		}
	}
	if begin {
		q.min.Store(off)
	}
	q.max.Store(off)
	return nil
}

// write puts units at their place, making files and allocating blocks as needed.
func (q *Queue) write(n int64, units []Unit) error {
	for len(units) > 0 {
		done, err := q.writeInFile(n, units)
		if err != nil {
			return err
		}
		n, units = n+int64(done), units[done:]
	}
	return nil
}

// writeInFile is write for those units that belong into one file with the first.
func (q *Queue) writeInFile(n int64, units []Unit) (done int, err error) {
	f, err := q.fileFor(n * UnitSize)
	if err != nil {
		return 0, err
	}
	defer f.Unpin()
	at := n*UnitSize - f.Base()
	units = units[:min(int64(len(units)), (f.Size()-at)/UnitSize)]
	if err := f.Prepare(at + int64(len(units))*UnitSize); err != nil {
		return 0, fmt.Errorf("consume queue %s: %w", f.Path(), err)
	}
	if err := writeUnits(f, at, units); err != nil {
		return 0, fmt.Errorf("consume queue %s: %w", f.Path(), err)
	}
	return len(units), nil
}

// pageSize is that of most systems; a multiple of it does no harm.
const pageSize = 4 << 10

// fileFor returns the pinned file that holds the byte at pos.
func (q *Queue) fileFor(pos int64) (*segment.File, error) {
	if f := q.files.Acquire(pos); f != nil {
		return f, nil
	}
	if q.files.Last() == nil {
		if err := q.table.makeDir(q); err != nil {
			return nil, fmt.Errorf("consume queue: %w", err)
		}
	}
	base := pos - pos%q.files.FileSize()
	if _, err := q.files.Create(base); err != nil {
		return nil, fmt.Errorf("consume queue: %w", err)
	}
	f := q.files.Acquire(pos)
	if f == nil {
		return nil, fmt.Errorf("consume queue: %s: new file at %d can not be pinned", q.files.Dir(), base)
	}
	return f, nil
}

// writeUnits writes the first unit of a page with a system call. To a page that is
// not in memory, and was never written, that costs a fraction of a fault; and most
// queues never get a second unit there.
func writeUnits(f *segment.File, at int64, units []Unit) (err error) {
	defer f.Catch(debug.SetPanicOnFault(true), &err)
	b := f.Bytes()
	for i, u := range units {
		at := at + int64(i)*UnitSize
		if (at+UnitSize-1)%pageSize >= UnitSize {
			u.put(b[at:])
		} else if _, err := f.WriteAt(u.Append(nil), at); err != nil {
			return err
		}
	}
	f.MarkDirty()
	return nil
}

// Truncate drops the units from off on: they become zero on disk, and files
// that lie behind are removed. It returns how many there were.
func (q *Queue) Truncate(off message.QueueOffset) (int64, error) {
	dropped := q.max.Load() - int64(off)
	if dropped <= 0 {
		return 0, nil
	}
	if err := q.writeTail(); err != nil {
		return 0, err
	}
	if _, _, err := q.files.CutAfter(int64(off)*UnitSize, false); err != nil {
		return 0, fmt.Errorf("consume queue: %w", err)
	}
	q.max.Store(int64(off))
	q.min.Store(min(q.min.Load(), int64(off)))
	q.flushed.Store(min(q.flushed.Load(), int64(off)))
	return dropped, nil
}

// CorrectMin moves Min to the first unit whose record the log has, given the
// log's first offset; to Max when there is none.
//
// Source: RocketMQ store/ConsumeQueue.java, correctMinOffset; there Min stays
// where it was when all messages are gone.
func (q *Queue) CorrectMin(logMin message.LogOffset) error {
	lo, err := q.firstAt(logMin)
	if err == nil {
		q.min.Store(lo)
	}
	return err
}

// FirstAt is the number of the first message from Min on whose record lies at or
// behind off in the log, Max when there is none. It looks at some twenty units of
// a million.
func (q *Queue) FirstAt(off message.LogOffset) (message.QueueOffset, error) {
	n, err := q.firstAt(off)
	return max(message.QueueOffset(n), q.Min()), err
}

// firstAt is the number of the first unit whose record lies at or behind off in
// the log, Max when there is none.
func (q *Queue) firstAt(off message.LogOffset) (int64, error) {
	lo, hi := q.first(), q.max.Load()
	for lo < hi {
		mid := lo + (hi-lo)/2
		at, u, err := q.lastReal(lo, mid)
		switch {
		case err != nil:
			return 0, err
		case u.IsReal() && u.LogOffset >= off, u.LogOffset < 0: // a damaged one is not hidden either
			hi = at
		default: // blanks, or before off: so is everything up to mid
			lo = mid + 1
		}
	}
	return lo, nil
}

// lastReal returns the last unit in [lo, mid] that is neither blank nor zero nor
// damaged, as one is that points before the unit in front of it; and its number.
// It returns the unit at lo when there is none.
func (q *Queue) lastReal(lo, mid int64) (int64, Unit, error) {
	for at := mid; ; at-- {
		u, err := q.Unit(message.QueueOffset(at))
		if err != nil {
			return 0, Unit{}, err
		}
		if at == lo {
			return at, u, nil
		}
		if before, _ := q.At(message.QueueOffset(at - 1)); u.IsReal() && (!before.IsReal() || before.LogOffset < u.LogOffset) {
			return at, u, nil
		}
	}
}

// First is the number of the first message whose unit has a file: it or one
// behind it is Min.
func (q *Queue) First() message.QueueOffset { return message.QueueOffset(q.first()) }

// first is the number of the first unit that has a file.
func (q *Queue) first() int64 {
	if f := q.files.First(); f != nil {
		return f.Base() / UnitSize
	}
	return q.max.Load()
}

// Dir is the directory of the queue's files.
func (q *Queue) Dir() string { return q.files.Dir() }
