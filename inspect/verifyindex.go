package inspect

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/pocketmq/pocketmq/indexfile"
	"github.com/pocketmq/pocketmq/message"
)

// indexVerifier goes through the entries of the index in step with the records
// of the log: both are in log order. Entries that are not are compared with the
// record that they lead to.
type indexVerifier struct {
	files []indexFile // those with entries that can be read
	geometry

	at    int // of files
	open  *os.File
	entry int32 // number of the next entry in the file
	buf   []byte
	base  int32   // number of the first entry in buf
	table []int32 // newest entry of each slot so far

	end      int64 // log offset of the last entry: what lies behind may not be there yet
	gone     int64 // entries of records before it were removed meanwhile
	wrong    int   // slots and chains of the file that are not as they should be
	wrongAt  int64 // the first one
	wrongWhy string

	stray struct { // entries in a row that lead to nothing
		from, to int32
		file     string
		why      error
	}
	missing struct { // records in a row whose keys are not there
		from, to int64
		n        int64
	}
}

// there reports whether there is an index to compare with.
func (x *indexVerifier) there() bool { return len(x.files) > 0 }

func (x *indexVerifier) close() {
	if x.open != nil {
		_ = x.open.Close()
		x.open = nil
	}
}

// openIndex looks at the headers.
func (v *verifier) openIndex() error {
	files, foreign, err := indexFiles(v.dir)
	if err != nil {
		return err
	}
	for _, path := range foreign {
		v.report(Note, FileForeign, path, 0, "does not belong here: not a file named by an integer")
	}
	x := &v.index
	v.sum.IndexFiles = len(files)
	for _, f := range files {
		if g, err := f.findGeometry(); err == nil {
			x.geometry = g
			break
		} else if !errors.Is(err, message.ErrCorrupt) && !errors.Is(err, errRetired) {
			return err
		}
	}
	for i, f := range files {
		if v.usable(f, i == len(files)-1) {
			x.files = append(x.files, f)
			if x.end, err = x.lastOffset(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			v.sum.IndexEntries += int64(f.header.Count - 1)
		}
	}
	x.rewind(0)
	return nil
}

// lastOffset is the log offset of the last entry that a file's header counts.
func (x *indexVerifier) lastOffset(f indexFile) (off int64, err error) {
	h, err := os.Open(f.path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	last, err := readEntry(h, x.geometry, f.header.Count-1)
	return min(int64(last.LogOffset), int64(f.header.EndLogOffset)), err
}

// usable reports whether the entries of a file can be gone through, and what is
// wrong with one where they can not.
func (v *verifier) usable(f indexFile, newest bool) bool {
	g, h := v.index.geometry, f.header
	switch {
	case newest && f.size == 0 && v.sum.Marked: // it is being made
	case h.Count <= 1 && (g == geometry{} || f.size == g.entryAt(g.entries)): // empty
	case g == geometry{}:
		v.report(Error, IndexFile, f.path, 0, "%v", errNoGeometry)
	case f.size != g.entryAt(g.entries):
		v.report(Error, IndexFile, f.path, 0, "has %d bytes, with %d slots and %d entries it would be %d", f.size, g.slots, g.entries, g.entryAt(g.entries))
	case h.Count > g.entries:
		v.report(Error, IndexFile, f.path, 36, "entry %d is next, of %d", h.Count, g.entries)
	default:
		return true
	}
	return false
}

// rewind makes the first entry of file i the next one.
func (x *indexVerifier) rewind(i int) {
	x.close()
	x.at, x.entry, x.base, x.buf = i, 1, 1, x.buf[:0]
	x.wrong = 0
	if i < len(x.files) {
		x.table = slices.Grow(x.table[:0], int(x.slots))[:x.slots]
		clear(x.table)
	} else {
		x.table = nil
	}
}

// peek returns the next entry, false behind the last one. Where a file ends, its
// slots are compared.
func (v *verifier) peek() (indexfile.Entry, bool, error) {
	x := &v.index
	for x.at < len(x.files) {
		f := x.files[x.at]
		if x.entry < f.header.Count {
			b, err := x.bytes(f)
			if err == nil {
				return indexfile.ParseEntry(b), true, nil
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return indexfile.Entry{}, false, err
			}
			x.gone = math.MaxInt64 // until the next file
			if x.at+1 < len(x.files) {
				x.gone = int64(x.files[x.at+1].header.BeginLogOffset)
			}
		} else if err := v.endFile(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return indexfile.Entry{}, false, err
		}
		x.rewind(x.at + 1)
	}
	return indexfile.Entry{}, false, nil
}

// bytes are those of the next entry.
func (x *indexVerifier) bytes(f indexFile) ([]byte, error) {
	const batch = 3276 // 64 KiB
	at := int(x.entry-x.base) * indexfile.EntrySize
	if at < len(x.buf) {
		return x.buf[at:], nil
	}
	if x.open == nil {
		open, err := os.Open(f.path)
		if err != nil {
			return nil, err
		}
		x.open = open
	}
	n := int(min(batch, f.header.Count-x.entry)) * indexfile.EntrySize
	x.buf, x.base = slices.Grow(x.buf[:0], n)[:n], x.entry
	if _, err := x.open.ReadAt(x.buf, x.entryAt(x.entry)); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return x.buf, nil
}

// outOfOrder reports whether the next entry, which is e, leads behind the one that
// follows it: it must not stand in that one's way.
func (x *indexVerifier) outOfOrder(e indexfile.Entry) bool {
	at := int(x.entry+1-x.base) * indexfile.EntrySize
	return at < len(x.buf) && indexfile.ParseEntry(x.buf[at:]).LogOffset < e.LogOffset
}

// take passes the next entry, which is e, and compares its chain.
func (x *indexVerifier) take(e indexfile.Entry) {
	slot := &x.table[max(0, e.Hash)%x.slots]
	if e.Prev != *slot || e.Hash < 0 || e.Seconds < 0 {
		x.chainWrong(x.entryAt(x.entry), "the entry has other fields than its chain: hash, time or entry before it")
	}
	*slot = x.entry
	x.entry++
}

func (x *indexVerifier) chainWrong(at int64, why string) {
	if x.wrong == 0 {
		x.wrongAt, x.wrongWhy = at, why
	}
	x.wrong++
}

// verifyKeys compares the keys of a record with the entries that lead to it.
func (v *verifier) verifyKeys(it *item) error {
	x := &v.index
	if !x.there() || !v.cfg.plain && v.passKeys(it) {
		return nil
	}
	if err := v.strayEntries(it.pos); err != nil {
		return err
	}
	var found int
	var all [64]bool // the first keys of the record that have entries
	for {
		e, ok, err := v.peek()
		if err != nil {
			return err
		}
		if !ok || int64(e.LogOffset) != it.pos {
			if ok && x.outOfOrder(e) {
				if err := v.strayEntries(it.pos); err != nil {
					return err
				}
				continue
			}
			break
		}
		v.verifyEntry(e, it.stored, it.hashes)
		for i, h := range it.hashes[:min(len(all), len(it.hashes))] {
			if h == e.Hash && !all[i] {
				all[i] = true
				found++
				break
			}
		}
		x.take(e)
	}
	switch sound := it.damage == nil; {
	case len(it.hashes) == 0:
	case found >= min(len(all), len(it.hashes)):
		v.endMissingKeys()
	case sound && it.pos >= x.gone && (it.pos < x.end || !v.used()):
		v.addMissingKeys(it)
	}
	return nil
}

// passKeys passes the entries of a record if they are the next ones, in the order of
// its keys, with nothing wrong but chains, as nearly all are. If it returns false it
// has passed none, and reported nothing.
func (v *verifier) passKeys(it *item) bool {
	x := &v.index
	n, at := len(it.hashes), int(x.entry-x.base)*indexfile.EntrySize
	// Behind them must be two that no record before them is to stumble on: see outOfOrder.
	if len(x.buf)-at < (n+2)*indexfile.EntrySize {
		return false
	}
	b := x.buf[at:]
	seconds := x.files[x.at].seconds(it.stored)
	for i, hash := range it.hashes {
		e := indexfile.ParseEntry(b[i*indexfile.EntrySize:])
		if e.Hash != hash || int64(e.LogOffset) != it.pos || e.Seconds != seconds {
			return false
		}
	}
	next := indexfile.ParseEntry(b[n*indexfile.EntrySize:]).LogOffset
	if int64(next) <= it.pos || indexfile.ParseEntry(b[(n+1)*indexfile.EntrySize:]).LogOffset < next {
		return false
	}
	for i := range it.hashes {
		x.take(indexfile.ParseEntry(b[i*indexfile.EntrySize:]))
	}
	if n > 0 {
		v.endMissingKeys()
	}
	return true
}

// addMissingKeys adds a record to those whose keys are not in the index.
func (v *verifier) addMissingKeys(it *item) {
	m := &v.index.missing
	if m.n == 0 {
		m.from = it.pos
	}
	m.to = it.to
	m.n++
}

// verifyEntry compares the next entry with the record that it leads to: its store
// time and the hashes of its keys.
func (v *verifier) verifyEntry(e indexfile.Entry, stored int64, hashes []int32) {
	x := &v.index
	f := &x.files[x.at]
	if !slices.Contains(hashes, e.Hash) {
		v.report(Error, IndexEntry, f.path, x.entryAt(x.entry), "entry %d: the record at log offset %d has no key with hash %d", x.entry, e.LogOffset, e.Hash)
		return
	}
	// Of a file's first entry that RocketMQ wrote the time can not be trusted.
	if want := f.seconds(stored); x.entry > 1 && e.Seconds != want {
		v.report(Error, IndexEntry, f.path, x.entryAt(x.entry), "entry %d: %d seconds behind the first, the record at log offset %d is %d",
			x.entry, e.Seconds, e.LogOffset, want)
	}
}

// strayEntries passes the entries that lead before pos: to nothing that the log
// has there, or back.
func (v *verifier) strayEntries(pos int64) error {
	x := &v.index
	for {
		e, ok, err := v.peek()
		if err != nil || !ok || int64(e.LogOffset) >= pos && !v.index.outOfOrder(e) {
			return err
		}
		if off := int64(e.LogOffset); off < max(int64(v.sum.LogStart), v.log.retired) && off >= 0 {
			x.take(e) // removed with the start of the log
			continue
		}
		probe := newLogReader(v.log.dir, v.log.files, 4<<10)
		r, why := recordAt(probe, int64(e.LogOffset))
		probe.close()
		switch {
		case why == nil:
			v.verifyEntry(e, r.StoreTimestamp(), factsOf(r).hashes)
		case errors.Is(why, errRetired):
		case errors.Is(why, message.ErrCorrupt):
			v.strayEntry(why)
		default:
			return why
		}
		x.take(e)
	}
}

// recordAt reads the record at pos, which may be anywhere.
func recordAt(log *logReader, pos int64) (message.View, error) {
	if _, ok := log.find(pos); !ok {
		return message.View{}, damaged("no file of the log has offset %d", pos)
	}
	r, kind, err := log.at(pos)
	if err == nil && kind != message.KindRecord {
		err = damaged("%s instead of a record at log offset %d", kind, pos)
	}
	return r, err
}

// strayEntry adds the next entry to those that lead to no record.
func (v *verifier) strayEntry(why error) {
	x := &v.index
	s := &x.stray
	if file := x.files[x.at].path; s.to != x.entry || s.file != file {
		v.endStray()
		s.from, s.file, s.why = x.entry, file, why
	}
	s.to = x.entry + 1
}

func (v *verifier) endStray() {
	if s := &v.index.stray; s.to > s.from {
		v.report(Error, IndexEntry, s.file, v.index.entryAt(s.from), "entries [%d, %d) lead to no record: %v", s.from, s.to, s.why)
		s.from, s.to = 0, 0
	}
}

func (v *verifier) endMissingKeys() {
	if m := &v.index.missing; m.n > 0 {
		v.report(Error, IndexMissing, filepath.Join(v.dir, indexDir), 0,
			"keys of %d messages are not there: those at log offsets [%d, %d)", m.n, m.from, m.to)
		m.n = 0
	}
}

// verifyIndexRest goes through the entries behind the log's last record.
func (v *verifier) verifyIndexRest() error {
	if !v.index.there() {
		return nil
	}
	err := v.strayEntries(math.MaxInt64)
	v.endStray()
	v.endMissingKeys()
	return err
}

// endFile compares what a file's header and slots say with its entries, which
// have all been met, and looks whether the rest is zero.
func (v *verifier) endFile(f indexFile) error {
	v.endStray()
	x := &v.index
	newest := x.at == len(x.files)-1
	growing := newest && v.used()
	used, err := v.verifySlots(f, growing)
	if err != nil {
		return err
	}
	if x.wrong > 0 {
		v.report(Error, IndexSlot, f.path, x.wrongAt, "%s; %d such places in the file", x.wrongWhy, x.wrong)
	}
	if growing {
		return nil // its header is of another moment
	}
	h := f.header
	first, err := readEntry(x.open, x.geometry, 1)
	if err != nil {
		return err
	}
	last, err := readEntry(x.open, x.geometry, h.Count-1)
	if err != nil {
		return err
	}
	switch {
	case h.SlotCount != used:
		v.report(Error, IndexFile, f.path, 32, "the header says that %d slots are in use, it is %d", h.SlotCount, used)
	case h.BeginLogOffset != first.LogOffset:
		v.report(Error, IndexFile, f.path, 16, "the header begins with log offset %d, the first entry has %d", h.BeginLogOffset, first.LogOffset)
	case h.EndLogOffset != last.LogOffset:
		v.report(Error, IndexFile, f.path, 24, "the header ends with log offset %d, the last entry has %d", h.EndLogOffset, last.LogOffset)
	case h.EndTimestamp < h.BeginTimestamp:
		v.report(Error, IndexFile, f.path, 8, "the header ends at %d ms, and begins at %d", h.EndTimestamp, h.BeginTimestamp)
	}
	return v.verifyUnused(f)
}

// verifySlots compares the slots with the entries that should be the newest of
// each, and counts those in use.
func (v *verifier) verifySlots(f indexFile, growing bool) (used int32, err error) {
	x := &v.index
	if x.open == nil { // every entry was in memory
		if x.open, err = os.Open(f.path); err != nil {
			return 0, err
		}
	}
	buf := make([]byte, 64<<10)
	for s := int32(0); s < x.slots; {
		b := buf[:min(int64(len(buf)), int64(x.slots-s)*indexfile.SlotSize)]
		if _, err := x.open.ReadAt(b, x.slotAt(s)); err != nil {
			return 0, err
		}
		for ; len(b) > 0; b = b[indexfile.SlotSize:] {
			got, want := int32(binary.BigEndian.Uint32(b)), x.table[s]
			if want != 0 {
				used++
			}
			if got != want && !(growing && got >= f.header.Count) {
				x.chainWrong(x.slotAt(s), "the slot does not lead to the newest entry of its chain")
			}
			s++
		}
	}
	return used, nil
}

// verifyUnused wants zeros in the place of entry 0, and behind the last entry.
func (v *verifier) verifyUnused(f indexFile) error {
	x := &v.index
	buf := make([]byte, 256<<10)
	for at, end := x.entryAt(0), x.entryAt(1); ; at, end = x.entryAt(f.header.Count), f.size {
		for at < end {
			n, err := x.open.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
			if i := firstNonzero(buf[:n]); i >= 0 {
				v.report(Error, IndexUnused, f.path, at+int64(i), "%d entries are in use, and this place behind them is not zero", f.header.Count-1)
				return nil
			}
			if err != nil {
				return err
			}
			at += int64(n)
		}
		if end == f.size {
			return nil
		}
	}
}
