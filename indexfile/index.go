package indexfile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// DefaultMaxResults is RocketMQ's limit for the answer to one query.
const DefaultMaxResults = 64

// Config says where the index lies and how large its files are. Nothing in the
// files tells slots from entries, so the caller has to remember the geometry.
type Config struct {
	FS       segment.FS // nil means segment.OS
	Dir      string     // holds the files; made with the first one
	Slots    int32      // hash slots of each file
	Entries  int32      // places for entries of each file, of which one is never used
	FileMode fs.FileMode
	DirMode  fs.FileMode

	MaxResults int // limit for the answer to one query; 0 means DefaultMaxResults

	Now      func() time.Time // names new files; nil means time.Now
	Location *time.Location   // of the names; nil means time.Local, as in RocketMQ

	// Rebuild lets Open drop files of the wrong size or with a senseless header.
	// Set it when Slots and Entries are known to be those of the directory:
	// otherwise a mistake in them would drop the whole index.
	Rebuild bool
}

func (c Config) withDefaults() Config {
	c.Dir = filepath.Clean(c.Dir)
	c.FileMode, c.DirMode = cmp.Or(c.FileMode, 0o600), cmp.Or(c.DirMode, 0o700)
	c.MaxResults = cmp.Or(c.MaxResults, DefaultMaxResults)
	if c.FS == nil {
		c.FS = segment.OS
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Location == nil {
		c.Location = time.Local
	}
	return c
}

// Index is the index files of a store. Put, Repair, Truncate, RemoveNewer and
// RemoveBefore exclude each other with a lock that no query takes; they are meant
// for one goroutine, because Put wants records in the order of the log. The rest
// may be called by any goroutine at any time.
type Index struct {
	cfg     Config
	dropped []Dropped

	list   atomic.Pointer[[]*file] // oldest first; replaced, never changed
	closed atomic.Bool
	next   atomic.Int64 // see NextLogOffset

	flushing sync.Mutex // one Flush at a time; taken before mu

	mu       sync.Mutex
	writes   *file   // the newest file, pinned, once something was to be written
	synced   int32   // what its count was at the last Flush
	unsynced []*file // full since the last Flush, pinned
	full     Header  // see LastFull; Count is 0 if there is none
	leftover string  // path of a file that has to be removed before another is made
	failed   error   // why Flush can not promise anything any more
}

// Dropped is a file that Open removed.
type Dropped struct {
	Path string
	Err  error // what is wrong with it, or that it lay behind one that is wrong
}

// ErrBehindDropped marks a sound file that Open removed because an older one was
// missing: entries can only be added in the order of the log.
var ErrBehindDropped = errors.New("index file behind one that was dropped")

// Open opens the index in cfg.Dir; a missing directory is an empty one. Entries
// whose name is no integer are passed over, as RocketMQ does.
//
// A file of zero length, from a crash while it was made, is dropped with all
// newer files; see Dropped for what to do then. So is, with cfg.Rebuild, one of
// the wrong size or with a senseless header. Without it the error is a
// *segment.SizeError or a *message.CorruptionError. Something with the name of an
// index file that is no file is a *segment.ForeignFileError. These errors leave
// everything as it was.
//
// Only the files' headers are read. Nothing is mapped, and slots and entries are
// taken as they are: call Repair if the last stop was not clean.
func Open(cfg Config) (*Index, error) {
	x := &Index{cfg: cfg.withDefaults()}
	if err := checkGeometry(cfg.Slots, cfg.Entries); err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	names, err := x.names()
	if err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	var list []*file
	for i, name := range names {
		f, bad, err := x.load(name, i == len(names)-1)
		if err != nil {
			return nil, fmt.Errorf("open index: %w", err)
		}
		if bad != nil {
			if err := x.drop(names[i:], bad); err != nil {
				return nil, fmt.Errorf("open index: %w", err)
			}
			break
		}
		list = append(list, f)
	}
	x.publish(list)
	x.findFull()
	if last := x.last(); last != nil {
		x.next.Store(last.endOffset.Load())
	}
	return x, nil
}

// names lists the files in order of their names.
func (x *Index) names() ([]string, error) {
	entries, err := x.cfg.FS.ReadDir(x.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !isFileName(e.Name()) {
			continue
		}
		if !e.Type().IsRegular() {
			return nil, &segment.ForeignFileError{Path: filepath.Join(x.cfg.Dir, e.Name()), Reason: "not a regular file"}
		}
		names = append(names, e.Name())
	}
	return names, nil
}

// HasFiles reports whether there is an index file in dir, whatever is in it. fsys
// nil means segment.OS.
func HasFiles(fsys segment.FS, dir string) (bool, error) {
	x := &Index{cfg: Config{FS: fsys, Dir: dir}.withDefaults()}
	names, err := x.names()
	if err != nil {
		return false, fmt.Errorf("index: %w", err)
	}
	return len(names) > 0, nil
}

// load reads the header of a file, the newest one if last is set. bad says why
// the file has to be dropped.
func (x *Index) load(name string, last bool) (f *file, bad, err error) {
	path := filepath.Join(x.cfg.Dir, name)
	h, err := x.cfg.FS.OpenRead(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	size, err := h.Size()
	if err != nil {
		return nil, nil, err
	}
	if want := FileSize(x.cfg.Slots, x.cfg.Entries); size != want {
		bad = &segment.SizeError{Path: path, Got: size, Want: want}
		if size == 0 || x.cfg.Rebuild {
			return nil, bad, nil
		}
		return nil, nil, bad
	}
	var b [headerSize]byte
	if _, err := h.ReadAt(b[:], 0); err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	header := headerAt(b[:])
	err = header.check(x.cfg.Entries)
	if err == nil && header.Count == 1 && !last {
		err = fmt.Errorf("%w: no entry, and there is a newer file", message.ErrCorrupt)
	}
	if err != nil {
		bad = &message.CorruptionError{File: path, Err: err}
		if x.cfg.Rebuild {
			return nil, bad, nil
		}
		return nil, nil, bad
	}
	return x.newFile(path, header), nil, nil
}

// drop removes files, of which the first is bad, newest first.
func (x *Index) drop(names []string, bad error) error {
	for i, name := range slices.Backward(names) {
		d := Dropped{Path: filepath.Join(x.cfg.Dir, name), Err: ErrBehindDropped}
		if i == 0 {
			d.Err = bad
		}
		if err := x.cfg.FS.Remove(d.Path); err != nil {
			return err
		}
		x.dropped = append(x.dropped, d)
	}
	slices.Reverse(x.dropped)
	return x.cfg.FS.SyncDir(x.cfg.Dir)
}

// Dropped lists the files that Open removed, oldest first. If there are any, the
// records from NextLogOffset on, as it was after Open, have to be put again.
func (x *Index) Dropped() []Dropped { return slices.Clone(x.dropped) }

// NextLogOffset is where the index has to be fed from: every key of a record
// before it is there. After Open it is the offset of the last record that has an
// entry, for want of a better knowledge; after Put it is the end of that record.
func (x *Index) NextLogOffset() message.LogOffset { return message.LogOffset(x.next.Load()) }

// FileInfo describes one file of the index.
type FileInfo struct {
	Path   string
	Header Header
}

// Files describes the files of this moment, oldest first.
func (x *Index) Files() []FileInfo {
	var infos []FileInfo
	for _, f := range x.snapshot() {
		infos = append(infos, FileInfo{f.path, f.header()})
	}
	return infos
}

// Lost returns the path of the first file that somebody has removed since Open, ""
// if none is missing. What was put in it, and in those behind it, has to be put
// again after the next Open.
func (x *Index) Lost() string {
	for _, f := range x.snapshot() {
		if _, err := x.cfg.FS.Lstat(f.path); errors.Is(err, fs.ErrNotExist) {
			return f.path
		}
	}
	return ""
}

// Slots and Entries are the geometry of the files.
func (x *Index) Slots() int32   { return x.cfg.Slots }
func (x *Index) Entries() int32 { return x.cfg.Entries }

func (x *Index) snapshot() []*file { return *x.list.Load() }

// publish makes list what queries see. Files that are too many to be kept are let
// go.
func (x *Index) publish(list []*file) {
	x.list.Store(&list)
	for _, f := range list[:max(0, len(list)-keptFiles)] {
		_ = f.letGo() // it was only read
	}
}

// Newest is the header of the newest file; ok is false if there is no file.
func (x *Index) Newest() (h Header, ok bool) {
	last := x.last()
	if last == nil {
		return Header{}, false
	}
	return last.header(), true
}

// last is the newest file, nil if there is none.
func (x *Index) last() *file {
	if list := x.snapshot(); len(list) > 0 {
		return list[len(list)-1]
	}
	return nil
}

// Close lets go of the files, which queries under way keep until they are done.
// It does not flush. It is idempotent.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed.Store(true)
	return x.release()
}

// release ends the pins of the index.
func (x *Index) release() error {
	held := x.unsynced
	if x.writes != nil {
		held = append(held, x.writes)
	}
	x.writes, x.synced, x.unsynced = nil, 0, nil
	var errs []error
	for _, f := range held {
		errs = append(errs, f.unpin())
	}
	for _, f := range x.snapshot() {
		errs = append(errs, f.letGo())
	}
	return errors.Join(errs...)
}
