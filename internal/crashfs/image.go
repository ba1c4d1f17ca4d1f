package crashfs

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// Snapshot is what the process saw and what was on disk at one moment. It may
// be used by several goroutines.
type Snapshot struct{ top *shot }

// shot is a node of a Snapshot.
type shot struct {
	mode     os.FileMode
	old, now []byte // of a file

	entries map[string]*shot // of a directory; nil for a file
	pending [][]shotEntry
}

type shotEntry struct {
	name string
	shot *shot
}

// Snapshot takes the moment. What other goroutines store through mappings
// meanwhile may be in it or not.
func (f *FS) Snapshot() (*Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	shots := make(map[*node]*shot)
	f.walk(func(n *node) { shots[n] = &shot{mode: n.mode} })
	for n, s := range shots {
		if !n.isDir() {
			now, err := n.current()
			if err != nil {
				return nil, err
			}
			s.old, s.now = n.durable, now
			continue
		}
		s.entries = make(map[string]*shot, len(n.entries))
		for name, c := range n.entries {
			s.entries[name] = shots[c]
		}
		for _, c := range n.pending {
			var entries []shotEntry
			for _, e := range c {
				entries = append(entries, shotEntry{e.name, shots[e.node]})
			}
			s.pending = append(s.pending, entries)
		}
	}
	return &Snapshot{shots[f.top]}, nil
}

// Loss counts what an image did not get.
type Loss struct {
	Pages   int // that kept their old bytes
	Torn    int // pages with some of each
	Lengths int // of files that kept the old one
	Entries int // directory operations that did not happen
}

// Add sums up.
func (l *Loss) Add(m Loss) {
	l.Pages += m.Pages
	l.Torn += m.Torn
	l.Lengths += m.Lengths
	l.Entries += m.Entries
}

// Crash takes a Snapshot and writes an image of it into dir.
func (f *FS) Crash(seed uint64, dir string) (Loss, error) {
	s, err := f.Snapshot()
	if err != nil {
		return Loss{}, err
	}
	return s.Image(seed, dir)
}

// Seeds with a meaning: the least and the most that can have reached the disk.
// Every other seed draws.
const (
	Oldest uint64 = 0
	Newest uint64 = 1
)

// Image writes into dir, which is made if needed and should be empty, what the
// disk may hold. The same seed gives the same image.
func (s *Snapshot) Image(seed uint64, dir string) (Loss, error) {
	i := &drawing{rand: rand.New(rand.NewPCG(seed, 0x9E3779B97F4A7C15)), names: make(map[*shot]string)}
	switch seed {
	case Oldest:
		i.keep = 0
	case Newest:
		i.keep = 1
	default:
		i.keep = []float64{0.1, 0.5, 0.5, 0.9}[i.rand.IntN(4)]
		i.tear = []float64{0, 0.3, 0.7}[i.rand.IntN(3)]
	}
	err := i.directory(s.top, dir)
	return i.loss, err
}

type drawing struct {
	rand  *rand.Rand
	keep  float64 // how likely something new is on disk
	tear  float64 // how likely a new page is torn
	loss  Loss
	names map[*shot]string // files that have been written
}

func (i *drawing) kept() bool { return i.rand.Float64() < i.keep }

func (i *drawing) directory(s *shot, path string) error {
	if err := os.MkdirAll(path, s.mode|0o700); err != nil {
		return err
	}
	entries := maps.Clone(s.entries)
	for n, c := range s.pending {
		if !i.kept() {
			i.loss.Entries += len(s.pending) - n
			break
		}
		for _, e := range c {
			if e.shot == nil {
				delete(entries, e.name)
			} else {
				entries[e.name] = e.shot
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if err := i.entry(entries[name], filepath.Join(path, name)); err != nil {
			return fmt.Errorf("image: %w", err)
		}
	}
	return nil
}

func (i *drawing) entry(s *shot, path string) error {
	if s.entries != nil {
		return i.directory(s, path)
	}
	if other, ok := i.names[s]; ok {
		return os.Link(other, path)
	}
	i.names[s] = path
	return i.file(s, path)
}

func (i *drawing) file(s *shot, path string) error {
	length := len(s.now)
	if len(s.old) != length && !i.kept() {
		i.loss.Lengths++
		length = len(s.old)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, s.mode)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nothing is buffered
	if err := f.Truncate(int64(length)); err != nil {
		return err
	}
	var buf, zeros [pageSize]byte
	for off := int64(0); off < int64(length); off += pageSize {
		p := i.page(buf[:], page(s.old, off), page(s.now, off))
		p = p[:min(pageSize, length-int(off))]
		if bytes.Equal(p, zeros[:len(p)]) {
			continue
		}
		if _, err := f.WriteAt(p, off); err != nil {
			return err
		}
	}
	return nil
}

// page makes in buf what the disk holds of one page.
func (i *drawing) page(buf, old, now []byte) []byte {
	fill := func(b []byte) { clear(buf[copy(buf, b):]) }
	fill(old)
	if bytes.Equal(old, now) {
		return buf
	}
	switch {
	case i.rand.Float64() < i.tear:
		i.loss.Torn++
		cut := sectorSize * (1 + i.rand.IntN(pageSize/sectorSize-1))
		if i.rand.IntN(2) == 0 { // the first sectors are new
			clear(buf[:cut])
			copy(buf[:cut], now)
			return buf
		}
		clear(buf[cut:])
		if len(now) > cut {
			copy(buf[cut:], now[cut:])
		}
	case i.kept():
		fill(now)
	default:
		i.loss.Pages++
	}
	return buf
}

// Dir is where images are made fastest: a file system in memory, if there is
// one, else the directory for temporary files.
func Dir() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return os.TempDir()
}
