package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// Acquire pins the file that holds the log offset, nil if there is none. The
// caller unpins it.
func (l *Log) Acquire(off message.LogOffset) *segment.File {
	if off < 0 {
		return nil
	}
	return l.files.Acquire(int64(off))
}

// NextFile is the log offset at which the file after the one of off begins.
func (l *Log) NextFile(off message.LogOffset) message.LogOffset {
	return message.LogOffset(l.fileEnd(int64(off)))
}

// Read returns the record that begins at off, in the memory of f, which holds
// off and is pinned by the caller: the View is valid until it is unpinned. With
// verify the record is compared with its checksums.
//
// The error matches message.ErrOffsetNotFound when off is outside what is
// visible, and message.ErrCorrupt when no sound record for this offset lies
// there. Size and place are always checked, so nothing in the View is outside f.
func (l *Log) Read(f *segment.File, off message.LogOffset, verify bool) (v message.View, err error) {
	defer f.Catch(debug.SetPanicOnFault(true), &err)
	return l.ReadGuarded(f, off, verify)
}

// ReadGuarded is Read for a caller that reads many records, and has a guard for
// all of them: see segment.File.Catch.
func (l *Log) ReadGuarded(f *segment.File, off message.LogOffset, verify bool) (message.View, error) {
	visible := l.visible.Load()
	if int64(off) >= visible {
		return message.View{}, fmt.Errorf("offset %d, the log ends at %d: %w", off, visible, message.ErrOffsetNotFound)
	}
	v, err := recordAt(f, off, min(f.Size(), visible-f.Base()))
	if err == nil && verify {
		err = at(f, off, v.Check())
	}
	return v, err
}

// MakeResident prepares to Read the record of size bytes at off in f: the bytes
// that are visible are brought into memory by a system call, so that no page
// fault waits for a disk. It returns up to where that holds.
func (l *Log) MakeResident(f *segment.File, off message.LogOffset, size int64, now *segment.Clock) message.LogOffset {
	return message.LogOffset(l.makeResident(f, int64(off), size, l.visible.Load(), now))
}

// makeResident is MakeResident in a log that ends at end. What is not synced yet
// is in memory: a dirty page is not given up.
func (l *Log) makeResident(f *segment.File, off, size, end int64, now *segment.Clock) int64 {
	if off >= l.durable.Load() && end <= l.visible.Load() {
		return end
	}
	return f.Base() + f.MakeResident(off-f.Base(), size, end-f.Base(), now)
}

// Warm is MakeResident for who does not know the size of the record. The caller
// guards f.
func (l *Log) Warm(f *segment.File, off message.LogOffset, now *segment.Clock) {
	l.warmRecord(f, off, l.visible.Load(), now)
}

// warm extends resident, up to where f is in memory, so that it covers the whole
// record at pos. The caller guards f.
func (l *Log) warm(f *segment.File, pos, resident, end int64, now *segment.Clock) int64 {
	if pos+message.BlankSize > resident {
		resident = l.makeResident(f, pos, warmStep, end, now)
	}
	if pos+message.BlankSize > min(end, f.End()) {
		return resident
	}
	size := int64(binary.BigEndian.Uint32(f.Bytes()[pos-f.Base():]))
	if pos+size > resident && pos+size <= end {
		resident = l.makeResident(f, pos, size, end, now)
	}
	return resident
}

// warmRecord brings the record at off into memory. The caller guards f.
func (l *Log) warmRecord(f *segment.File, off message.LogOffset, end int64, now *segment.Clock) {
	l.warm(f, int64(off), l.makeResident(f, int64(off), message.MinRecordSize, end, now), end, now)
}

// warmStep is how much is looked at, and read, at once by who goes through the
// log.
const warmStep = 1 << 20

// View calls use with the record that begins at off in f, whether it is visible
// yet or not; the View is valid until f is unpinned, and outside of the call to be
// read with a guard. Errors are those of Read.
func (l *Log) View(f *segment.File, off message.LogOffset, use func(message.View)) (err error) {
	defer f.Catch(debug.SetPanicOnFault(true), &err)
	var now segment.Clock
	l.warmRecord(f, off, f.End(), &now)
	v, err := recordAt(f, off, f.Size())
	if err != nil {
		return err
	}
	use(v)
	return nil
}

// Copy copies out the message whose record begins at off, after comparing the
// record with its checksums. Arguments and errors are those of Read, but that an
// offset at which no record begins matches message.ErrOffsetNotFound as well:
// nobody promised that one does.
func (l *Log) Copy(f *segment.File, off message.LogOffset) (m message.MessageExt, err error) {
	defer f.Catch(debug.SetPanicOnFault(true), &err)
	visible := l.visible.Load()
	var now segment.Clock
	l.warmRecord(f, off, visible, &now)
	v, err := l.Read(f, off, false)
	if errors.Is(err, message.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", message.ErrOffsetNotFound, err)
	}
	if err == nil {
		err = at(f, off, v.Check())
	}
	if err != nil {
		return message.MessageExt{}, err
	}
	return v.Message(), nil
}

// recordAt reads the record at off from the first size bytes of f.
func recordAt(f *segment.File, off message.LogOffset, size int64) (message.View, error) {
	v, kind, damage := message.ReadRecord(f.Bytes()[int64(off)-f.Base() : size])
	switch {
	case kind == message.KindRecord && v.LogOffset() == off:
		return v, nil
	case kind == message.KindBlank:
		damage = fmt.Errorf("%w: the blank at a file's end", message.ErrCorrupt)
	default:
		damage = damageOf(kind, v, damage)
	}
	return message.View{}, at(f, off, damage)
}

// at adds the place to what is wrong there.
func at(f *segment.File, off message.LogOffset, damage error) error {
	if damage == nil {
		return nil
	}
	return &message.CorruptionError{File: f.Path(), Offset: off, Err: damage}
}

// HasBytes reports whether a record of that size could lie at off: the range is
// within one file, and not all zero.
func (l *Log) HasBytes(off message.LogOffset, size int64) bool {
	f := l.Acquire(off)
	if f == nil {
		return false
	}
	defer f.Unpin()
	at := int64(off) - f.Base()
	if size < message.MinRecordSize || size > f.Size()-at {
		return false
	}
	some, err := notZero(f, at, size)
	return err == nil && some
}

func notZero(f *segment.File, at, size int64) (some bool, err error) {
	defer f.Catch(debug.SetPanicOnFault(true), &err)
	for _, c := range f.Bytes()[at : at+size] {
		if c != 0 {
			return true, nil
		}
	}
	return false, nil
}

// FileStoredBefore returns the start of the newest file whose first record was
// stored at or before the time (ms), else the start of the log: what lies before
// it was on disk at that time.
//
// Source: RocketMQ store/CommitLog.java, isMappedFileMatchedRecover.
func (l *Log) FileStoredBefore(time int64) message.LogOffset {
	for _, f := range slices.Backward(l.files.Snapshot()) {
		if !f.Pin() {
			continue
		}
		stored := int64(0)
		_ = l.View(f, message.LogOffset(f.Base()), func(v message.View) { stored = v.StoreTimestamp() })
		f.Unpin()
		if stored != 0 && stored <= time {
			return message.LogOffset(f.Base())
		}
	}
	return l.MinOffset()
}
