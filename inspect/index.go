package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/pocketmq/pocketmq/indexfile"
	"github.com/pocketmq/pocketmq/message"
)

// geometry is how many slots and places for entries index files have.
type geometry struct{ slots, entries int32 }

func (g geometry) slotAt(s int32) int64  { return indexfile.HeaderSize + indexfile.SlotSize*int64(s) }
func (g geometry) entryAt(e int32) int64 { return indexfile.FileSize(g.slots, e) }

// indexFile is one file of the index as it was found.
type indexFile struct {
	path   string
	size   int64
	header indexfile.Header
}

// seconds is what an entry of the file has for a store time.
func (f *indexFile) seconds(stored int64) int32 {
	return int32(min(max(0, (stored-f.header.BeginTimestamp)/1000), math.MaxInt32))
}

// indexFiles lists the files of an index, oldest first, and what does not belong
// there. RocketMQ takes every name that is an integer for an index file.
func indexFiles(dir string) (files []indexFile, foreign []string, err error) {
	root := filepath.Join(dir, indexDir)
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	for _, e := range entries {
		path := filepath.Join(root, e.Name())
		if _, err := strconv.ParseInt(e.Name(), 10, 64); err != nil || !e.Type().IsRegular() {
			foreign = append(foreign, path)
			continue
		}
		f, err := readIndexFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, nil, err
		}
		files = append(files, f)
	}
	return files, foreign, err
}

// readIndexFile reads the header of a file; it stays zero where the file is too
// short for one.
func readIndexFile(path string) (f indexFile, err error) {
	h, err := os.Open(path)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	info, err := h.Stat()
	if err != nil {
		return f, err
	}
	f = indexFile{path: path, size: info.Size()}
	var b [indexfile.HeaderSize]byte
	if n, err := h.ReadAt(b[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return f, err
	} else if n == len(b) {
		f.header = indexfile.ParseHeader(b[:])
	}
	return f, nil
}

// findGeometry finds out how many slots a file has, which is written nowhere: an
// entry of the first record must lie behind the slots, one of the last record
// where the count says, and the slot of that one must lead to it. It fails for
// a file that holds nothing, and for one whose header is not to be believed.
//
// In a file that grows the header may be of two moments: what it says about the
// last record is believed only if that leads somewhere.
func (f indexFile) findGeometry() (geometry, error) {
	standard := geometry{indexfile.RocketMQSlots, indexfile.RocketMQEntries}
	if f.size == standard.entryAt(standard.entries) {
		return standard, nil
	}
	if f.header.Count <= 1 {
		return geometry{}, errNoGeometry
	}
	g, err := f.searchGeometry(true)
	if errors.Is(err, errNoGeometry) {
		g, err = f.searchGeometry(false)
	}
	return g, err
}

// searchGeometry tries every number of slots. With exact the last entry must be
// of the header's last record.
func (f indexFile) searchGeometry(exact bool) (g geometry, err error) {
	w := window{space: space{files: []File{{f.path, 0, f.size}}}, chunk: 64 << 10}
	defer w.close()
	for g.slots = 1; ; g.slots++ {
		rest := f.size - g.entryAt(0)
		if rest/indexfile.EntrySize < int64(f.header.Count) {
			return geometry{}, errNoGeometry
		}
		if rest%indexfile.EntrySize != 0 || rest/indexfile.EntrySize > math.MaxInt32 {
			continue
		}
		g.entries = int32(rest / indexfile.EntrySize)
		ok, err := g.fits(&w, f.header, exact)
		if ok || err != nil {
			return g, err
		}
	}
}

var errNoGeometry = fmt.Errorf("%w: its numbers of slots and entries can not be told", message.ErrCorrupt)

// fits reports whether the file may have that geometry. It is read forward: only
// where the first entry may be the other places are looked at.
func (g geometry) fits(w *window, h indexfile.Header, exact bool) (bool, error) {
	b, err := w.from(g.entryAt(1), indexfile.EntrySize)
	if err != nil || len(b) < indexfile.EntrySize {
		return false, err
	}
	if e := indexfile.ParseEntry(b); e.LogOffset != h.BeginLogOffset || e.Prev != 0 || e.Hash < 0 {
		return false, nil
	}
	var at [indexfile.EntrySize]byte
	if n, err := w.read(at[:], g.entryAt(h.Count-1)); err != nil || n < len(at) {
		return false, err
	}
	last := indexfile.ParseEntry(at[:])
	if last.Hash < 0 || last.LogOffset < h.BeginLogOffset || exact && last.LogOffset != h.EndLogOffset {
		return false, nil
	}
	n, err := w.read(at[:indexfile.SlotSize], g.slotAt(last.Hash%g.slots))
	newest := int32(binary.BigEndian.Uint32(at[:])) // it may be newer than the header
	return n == indexfile.SlotSize && newest >= h.Count-1 && newest < g.entries, err
}

func readEntry(r io.ReaderAt, g geometry, e int32) (indexfile.Entry, error) {
	var b [indexfile.EntrySize]byte
	if _, err := r.ReadAt(b[:], g.entryAt(e)); err != nil && !errors.Is(err, io.EOF) {
		return indexfile.Entry{}, err
	}
	return indexfile.ParseEntry(b[:]), nil
}
