package indexfile

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/pocketmq/pocketmq/message"
)

// Truncate removes every entry that points at or behind end, where the log ends
// now; RocketMQ leaves them, and does not index new records until the log has
// passed them. The entries before are kept, and NextLogOffset is at most end.
//
// It reads the whole of the file that is cut and needs 4 bytes of memory for
// each of its slots, but looks at nothing if there is nothing to remove. What it
// changed is durable on return. No queries may run.
func (x *Index) Truncate(end message.LogOffset) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed.Load() {
		return fmt.Errorf("truncate index: %w", message.ErrClosed)
	}
	next, err := x.cut(end, false)
	if err != nil {
		return fmt.Errorf("truncate index: %w", err)
	}
	x.next.Store(int64(min(next, end, x.NextLogOffset())))
	return nil
}

// Repair is for after a stop that was not clean, which may have left any part of
// what was written after the last Flush on disk. The caller knows that every
// record before end was put before that Flush returned. What points at or behind
// end is removed, and the rest is checked; what contradicts itself is removed,
// too. Then NextLogOffset is end, or less if something before it was missing.
//
// It reads the whole of the newest file and needs 4 bytes of memory for each of
// its slots. What it changed is durable on return. No queries may run.
//
// RocketMQ removes all files that were not full at its last checkpoint instead:
// see RemoveNewer.
func (x *Index) Repair(end message.LogOffset) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed.Load() {
		return fmt.Errorf("repair index: %w", message.ErrClosed)
	}
	// Files that were deleted or dropped held something before end.
	lost := x.last() == nil || len(x.dropped) > 0 && x.NextLogOffset() < end
	next, err := x.cut(end, true)
	if err != nil {
		return fmt.Errorf("repair index: %w", err)
	}
	if lost {
		next = min(next, x.lastOffset())
	}
	x.next.Store(int64(next))
	return nil
}

// Resume is for after a clean stop: the caller knows that every record before
// next was put before the last Flush, and that the files are those of then.
// NextLogOffset is next, then, however long ago the last key came.
func (x *Index) Resume(next message.LogOffset) { x.next.Store(int64(next)) }

// RemoveNewer removes the files whose last record was stored after timestamp
// (ms), and those behind them: what RocketMQ does after a stop that was not
// clean, with the index timestamp of its checkpoint. NextLogOffset is then the
// end of what is left. No queries may run.
//
// Source: RocketMQ store/index/IndexService.java, load.
func (x *Index) RemoveNewer(timestamp int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed.Load() {
		return fmt.Errorf("remove index files: %w", message.ErrClosed)
	}
	keep := slices.IndexFunc(x.snapshot(), func(f *file) bool { return f.endTime.Load() > timestamp })
	if keep < 0 {
		return nil
	}
	for len(x.snapshot()) > keep {
		if err := x.removeFile(x.last()); err != nil {
			return fmt.Errorf("remove index files: %w", err)
		}
	}
	x.findFull()
	x.next.Store(int64(x.lastOffset()))
	return x.cfg.FS.SyncDir(x.cfg.Dir)
}

// lastOffset is the offset of the last record that has an entry, 0 for none.
func (x *Index) lastOffset() message.LogOffset {
	if last := x.last(); last != nil {
		return message.LogOffset(last.endOffset.Load())
	}
	return 0
}

// cut removes what points at or behind end, going back file by file until one
// keeps something; with all it checks these files whatever their headers say. It
// returns end, or less if entries before end were damaged.
func (x *Index) cut(end message.LogOffset, all bool) (next message.LogOffset, err error) {
	next, removed := end, false
	for f := x.last(); f != nil; f = x.last() {
		if !all && message.LogOffset(f.endOffset.Load()) < end {
			break
		}
		kept, damaged, err := f.repair(end)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", f.path, err)
		}
		if kept > 0 && damaged {
			next = min(next, message.LogOffset(f.endOffset.Load()))
		}
		if kept > 0 {
			break
		}
		if err := x.removeFile(f); err != nil {
			return 0, err
		}
		if removed = true; damaged {
			next = min(next, x.lastOffset())
		}
	}
	x.findFull()
	if removed {
		return next, x.cfg.FS.SyncDir(x.cfg.Dir)
	}
	return next, nil
}

// removeFile takes the first or last file off the list and the disk. The caller
// holds mu and syncs the directory.
func (x *Index) removeFile(f *file) error {
	if err := x.letGo(f); err != nil {
		return err
	}
	if err := f.remove(); err != nil {
		return err
	}
	x.publish(slices.DeleteFunc(slices.Clone(x.snapshot()), func(g *file) bool { return g == f }))
	return nil
}

// letGo ends the pins that the index has on f.
func (x *Index) letGo(f *file) error {
	var errs []error
	if x.writes == f {
		x.writes, x.synced = nil, 0
		errs = append(errs, f.unpin())
	}
	if i := slices.Index(x.unsynced, f); i >= 0 {
		x.unsynced = slices.Delete(x.unsynced, i, i+1)
		errs = append(errs, f.unpin())
	}
	return errors.Join(errs...)
}

// repair keeps the entries before the first that points at or behind end, or is
// damaged, and makes header and slots what they were when these were all. If none
// is kept the file is not changed.
func (f *file) repair(end message.LogOffset) (kept int32, damaged bool, err error) {
	if err := f.pinMapped(); err != nil {
		return 0, false, err
	}
	defer func() { err = errors.Join(err, f.unpin()) }()
	c := check{begin: f.header().BeginLogOffset, end: end, table: make([]int32, f.slots)}
	if err := c.scan(f); err != nil || c.kept == 0 {
		return 0, c.damaged, err
	}
	h := c.header(f.header())
	changed, err := f.differs(h, c.table)
	if err != nil || !changed {
		return c.kept, c.damaged, err
	}
	if err := f.prepare(f.entryAt(h.Count)); err != nil {
		return 0, false, err
	}
	if err := f.restore(h, c.table); err != nil {
		return 0, false, err
	}
	return c.kept, c.damaged, f.handle.Sync()
}

// check goes through the entries of a file in order and builds up the slots, as
// far as entries are sound and point before end. If any behind these points
// before end as well, something is missing between.
type check struct {
	begin, end message.LogOffset
	table      []int32 // newest entry of each slot

	kept    int32
	last    entry // of those kept
	over    bool  // an entry that points at or behind end was met
	damaged bool  // it stopped at an entry that can not be right
}

func (c *check) scan(f *file) error {
	const batch = 256
	var buf [batch * entrySize]byte
	for at, count := int32(1), f.count.Load(); at < count; at += batch {
		b := buf[:min(batch, count-at)*entrySize]
		if err := f.read(at, b); err != nil {
			return err
		}
		for ; len(b) > 0; b = b[entrySize:] {
			if !c.keep(entryAt(b)) {
				return nil
			}
		}
	}
	return nil
}

// keep takes the next entry, and reports whether to go on.
func (c *check) keep(e entry) bool {
	slot := &c.table[max(0, e.hash)%int32(len(c.table))]
	switch {
	case c.over:
		c.damaged = e.offset < c.end
	case e.offset >= c.end:
		c.over = true
	case e.hash < 0 || e.diff < 0 || e.prev != *slot,
		c.kept == 0 && e.offset != c.begin, e.offset < c.last.offset,
		e == (entry{}): // never written; a true one, of the log's first record, is put again
		c.damaged = true
	default:
		c.kept++
		*slot, c.last = c.kept, e
	}
	return !c.damaged
}

// header is what a header becomes when only the entries that were kept are left.
// Of the last one's store time only the second is known: the latest time in it is
// taken, so that no query passes the file over.
func (c *check) header(h Header) Header {
	if h.Count != c.kept+1 || h.EndLogOffset != c.last.offset {
		from := h.BeginTimestamp + 1000*int64(c.last.diff)
		if h.EndTimestamp < from || h.EndTimestamp > from+999 {
			h.EndTimestamp = from + 999
		}
	}
	h.Count, h.EndLogOffset, h.SlotCount = c.kept+1, c.last.offset, 0
	for _, e := range c.table {
		if e != 0 {
			h.SlotCount++
		}
	}
	return h
}

// differs reports whether the file's header or slots are others.
func (f *file) differs(h Header, table []int32) (differs bool, err error) {
	defer f.catch(debug.SetPanicOnFault(true), &err)
	b := f.bytes()
	if headerAt(b) != h {
		return true, nil
	}
	for i, e := range table {
		if loadSlot(b[f.slotAt(int32(i)):]) != e {
			return true, nil
		}
	}
	return false, nil
}

// restore writes header and slots, and zeros over the entries that were there.
func (f *file) restore(h Header, table []int32) (err error) {
	defer f.catch(debug.SetPanicOnFault(true), &err)
	b := f.bytes()
	for i, e := range table {
		if slot := b[f.slotAt(int32(i)):]; loadSlot(slot) != e {
			storeSlot(slot, e)
		}
	}
	if old := f.count.Load(); old > h.Count {
		tail := b[f.entryAt(h.Count):f.entryAt(old)]
		for len(tail) > 0 {
			if e := tail[:entrySize]; entryAt(e) != (entry{}) { // leave holes
				clear(e)
			}
			tail = tail[entrySize:]
		}
	}
	h.put(b)
	f.publish(h)
	return nil
}

// writeHeader writes the header of a new file.
func (f *file) writeHeader(h Header) (err error) {
	defer f.catch(debug.SetPanicOnFault(true), &err)
	h.put(f.bytes())
	return nil
}
