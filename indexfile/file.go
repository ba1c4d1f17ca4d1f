package indexfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// allocationStep is how many bytes of entries get blocks at once: 13,107 entries.
const allocationStep = 256 << 10

// file is one index file. It is open only while somebody has a pin: the index pins
// the file that it writes, and keeps those that queries look into most; a query pins
// those that it looks into. It is mapped to be written or kept, from then on until
// its last pin is gone. Others are read with system calls: to map a file and meet its
// pages costs more than the few reads of one query.
type file struct {
	fs             segment.FS
	path           string
	slots, entries int32

	mu       sync.Mutex   // guards what follows; who has a pin may read handle and view
	pins     atomic.Int32 // come from 0, and go to 0, with mu held
	kept     bool         // one of the pins is that of keep
	removed  bool
	handle   segment.Handle                  // nil without pins
	view     atomic.Pointer[segment.Mapping] // nil if not mapped
	resident segment.Residency               // of view

	blocks int64 // bytes from the start known to have blocks; the writer's

	// The header, as queries see it. The writer stores count last.
	beginTime, endTime     atomic.Int64
	beginOffset, endOffset atomic.Int64
	slotCount              atomic.Int32
	count                  atomic.Int32
}

func (x *Index) newFile(path string, h Header) *file {
	f := &file{fs: x.cfg.FS, path: path, slots: x.cfg.Slots, entries: x.cfg.Entries}
	f.publish(h)
	return f
}

func (f *file) header() Header {
	count := f.count.Load() // first: what it covers is then visible
	return Header{
		BeginTimestamp: f.beginTime.Load(), EndTimestamp: f.endTime.Load(),
		BeginLogOffset: message.LogOffset(f.beginOffset.Load()), EndLogOffset: message.LogOffset(f.endOffset.Load()),
		SlotCount: f.slotCount.Load(), Count: count,
	}
}

func (f *file) publish(h Header) {
	f.beginTime.Store(h.BeginTimestamp)
	f.endTime.Store(h.EndTimestamp)
	f.beginOffset.Store(int64(h.BeginLogOffset))
	f.endOffset.Store(int64(h.EndLogOffset))
	f.slotCount.Store(h.SlotCount)
	f.count.Store(h.Count)
}

func (f *file) full() bool  { return f.count.Load() >= f.entries }
func (f *file) size() int64 { return FileSize(f.slots, f.entries) }

// slotAt and entryAt are positions in the file.
func (f *file) slotAt(hash int32) int64 { return headerSize + slotSize*int64(hash%f.slots) }
func (f *file) entryAt(e int32) int64   { return FileSize(f.slots, e) }

// errRemoved is met by a query that has seen the list before a file left it.
var errRemoved = errors.New("index file was removed")

// pin opens the file if it is not; errRemoved if the index has removed it.
func (f *file) pin() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pinLocked()
}

func (f *file) pinLocked() error {
	if f.removed {
		return errRemoved
	}
	if f.pins.Load() == 0 {
		if err := f.open(); err != nil {
			return err
		}
	}
	f.pins.Add(1)
	return nil
}

// pinKept pins the file, mapped if it can be, and keeps it so until letGo. Mostly it
// is: then it takes no lock.
func (f *file) pinKept() error {
	if f.pinAgain() {
		if f.view.Load() != nil {
			return nil
		}
		if err := f.unpin(); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.pinLocked(); err != nil {
		return err
	}
	if f.mapLocked() != nil {
		return nil // it is read with system calls, then
	}
	if !f.kept {
		f.kept = true
		f.pins.Add(1)
	}
	return nil
}

// pinAgain pins the file if somebody has a pin already.
func (f *file) pinAgain() bool {
	for n := f.pins.Load(); n > 0; n = f.pins.Load() {
		if f.pins.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// letGo ends what pinKept began.
func (f *file) letGo() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.kept {
		return nil
	}
	f.kept = false
	return f.unpinLocked()
}

// open is called with mu held.
func (f *file) open() error {
	h, err := f.fs.Open(f.path)
	if err != nil {
		return err
	}
	size, err := h.Size()
	if err == nil && size != f.size() { // it changed since it was listed
		err = &segment.SizeError{Path: f.path, Got: size, Want: f.size()}
	}
	if err != nil {
		return errors.Join(err, h.Close())
	}
	f.handle = h
	return nil
}

// pinMapped pins the file and maps it, for who writes.
func (f *file) pinMapped() error {
	if err := f.pin(); err != nil {
		return err
	}
	if err := f.mapIn(); err != nil {
		return errors.Join(err, f.unpin())
	}
	return nil
}

// mapIn maps the file if it is not. Needs a pin.
func (f *file) mapIn() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mapLocked()
}

func (f *file) mapLocked() error {
	if f.view.Load() != nil {
		return nil
	}
	view, err := f.handle.Map(f.size())
	if err != nil {
		return err
	}
	f.view.Store(&view)
	return nil
}

// bytes is the mapping. Needs a pin by pinMapped.
func (f *file) bytes() []byte { return (*f.view.Load()).Bytes() }

// unpin ends one pin; with the last one mapping and descriptor are gone.
func (f *file) unpin() error {
	for n := f.pins.Load(); n > 1; n = f.pins.Load() {
		if f.pins.CompareAndSwap(n, n-1) {
			return nil
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unpinLocked()
}

func (f *file) unpinLocked() error {
	if f.pins.Add(-1) > 0 {
		return nil
	}
	return f.close()
}

// close is called with mu held, or before anybody knows the file.
func (f *file) close() error {
	var err error
	if view := f.view.Swap(nil); view != nil {
		err = (*view).Unmap()
		f.resident.Forget()
	}
	err = errors.Join(err, f.handle.Close())
	f.handle = nil
	return err
}

// remove takes the name off the disk; the caller syncs the directory. Who has a
// pin keeps the contents. Where a mapped file can not be removed that is an error,
// and a later call succeeds.
func (f *file) remove() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept { // by a query, meanwhile
		f.kept = false
		if err := f.unpinLocked(); err != nil {
			return err
		}
	}
	if err := f.fs.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.removed = true
	return nil
}

// catch turns a fault inside the mapping into an error. Needs a pin:
//
//	defer f.catch(debug.SetPanicOnFault(true), &err)
func (f *file) catch(old bool, err *error) {
	debug.SetPanicOnFault(old)
	if r := recover(); r != nil {
		view := f.view.Load()
		if view == nil {
			panic(r)
		}
		*err = (*view).Caught(r)
	}
}

// prepare returns nil when the first upTo bytes have blocks: those of header and
// slots always, those of entries in steps. On a full disk it is content with the
// page that is needed; failing that, the error matches segment.ErrNoSpace and a
// later call may succeed. For the writer, with a pin.
func (f *file) prepare(upTo int64) error {
	if upTo <= f.blocks {
		return nil
	}
	start := f.entryAt(0)
	err := f.allocate(start + roundUp(upTo-start, allocationStep))
	if errors.Is(err, segment.ErrNoSpace) {
		err = f.allocate(roundUp(upTo, int64(os.Getpagesize())))
	}
	return err
}

func (f *file) allocate(upTo int64) error {
	upTo = min(upTo, f.size())
	if err := f.handle.Allocate(f.blocks, upTo-f.blocks); err != nil {
		return err
	}
	f.blocks = upTo
	return nil
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// insert adds an entry. The file must not be full. For the writer, with a pin.
// After an error nothing has changed, and the same call may succeed later.
//
// The first entry of a file has time difference 0. RocketMQ computes that of a
// file that follows another from the end of the other, which makes the entry
// seem younger than it is.
//
// Source: RocketMQ store/index/IndexFile.java, putKey.
func (f *file) insert(hash int32, off message.LogOffset, storeTime int64) error {
	if err := f.prepare(f.entryAt(f.count.Load() + 1)); err != nil {
		return fmt.Errorf("index %s: %w", f.path, err)
	}
	if err := f.write(hash, off, storeTime); err != nil {
		return fmt.Errorf("index %s: %w", f.path, err)
	}
	return nil
}

func (f *file) write(hash int32, off message.LogOffset, storeTime int64) (err error) {
	defer f.catch(debug.SetPanicOnFault(true), &err)
	b, h := f.bytes(), f.header()
	slot := b[f.slotAt(hash):]
	e := entry{hash: hash, offset: off, prev: loadSlot(slot)}
	if e.prev < 0 || e.prev >= h.Count {
		e.prev = 0 // damage
	}
	if h.Count == 1 {
		h.BeginTimestamp, h.BeginLogOffset = storeTime, off
	}
	if h.BeginTimestamp > 0 {
		e.diff = int32(min(max(0, (storeTime-h.BeginTimestamp)/1000), math.MaxInt32))
	}
	e.put(b[f.entryAt(h.Count):])
	storeSlot(slot, h.Count)
	if e.prev == 0 {
		h.SlotCount++
	}
	h.Count++
	h.EndTimestamp, h.EndLogOffset = storeTime, off
	h.put(b)
	f.publish(h)
	return nil
}

// newest is the newest entry in the slot of hash, 0 for none. It may be the one
// that is just being added, and not counted yet. Needs a pin and a guard.
func (f *file) newest(hash int32, now *segment.Clock) (e int32, err error) {
	at := f.slotAt(hash)
	if b := f.loaded(at, slotSize, now); b != nil {
		e = loadSlot(b)
	} else {
		b := make([]byte, slotSize)
		err = f.readAt(b, at)
		e = int32(binary.BigEndian.Uint32(b))
	}
	if err != nil || e > f.count.Load() || e >= f.entries { // load the count after the slot
		return 0, err
	}
	return e, nil
}

// entry returns one entry. Needs a pin and a guard.
func (f *file) entry(e int32, now *segment.Clock) (entry, error) {
	at := f.entryAt(e)
	if b := f.loaded(at, entrySize, now); b != nil {
		return entryAt(b), nil
	}
	b := make([]byte, entrySize)
	err := f.readAt(b, at)
	return entryAt(b), err
}

// loaded returns n bytes of the mapping, in memory as far as can be told, nil if the
// file is not mapped.
func (f *file) loaded(at, n int64, now *segment.Clock) []byte {
	view := f.view.Load()
	if view == nil {
		return nil
	}
	if !f.resident.Has(at, now) || !f.resident.Has(at+n-1, now) {
		f.resident.Make(*view, f.handle, f.size(), at, n, f.size(), now)
	}
	return (*view).Bytes()[at : at+n]
}

// read copies the bytes of the entries from e on into dst. Needs a pin.
func (f *file) read(e int32, dst []byte) error {
	if f.view.Load() == nil {
		return f.readAt(dst, f.entryAt(e))
	}
	return f.copy(dst, f.entryAt(e))
}

func (f *file) copy(dst []byte, at int64) (err error) {
	defer f.catch(debug.SetPanicOnFault(true), &err)
	copy(dst, f.bytes()[at:])
	return nil
}

func (f *file) readAt(dst []byte, at int64) error {
	if n, err := f.handle.ReadAt(dst, at); n < len(dst) {
		if errors.Is(err, io.EOF) { // the file was cut from outside
			err = fmt.Errorf("%w: %w", segment.ErrFault, io.ErrUnexpectedEOF)
		}
		return err
	}
	return nil
}
