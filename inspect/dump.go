package inspect

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/pocketmq/pocketmq/indexfile"
	"github.com/pocketmq/pocketmq/message"
)

// ErrUnknownFile is returned for a file that is none of a store.
var ErrUnknownFile = errors.New("not known as a file of a store")

// DumpConfig says which part of each file Dump tells of.
type DumpConfig struct {
	// From leaves out what comes before: log offset From in files of the log,
	// message From in those of a consume queue, entry From in those of the index.
	From int64
	// Limit is how many records, units or entries of a file are told of; 0 means
	// all.
	Limit int64
}

// Dump tells what is in a file of a store, or in all files of a directory, by
// their paths. What kind of file one is is seen from its path, and outside a
// store from its name and content; others are told of as unknown in a directory,
// and ErrUnknownFile where path is one. Damage is an Entry, and costs what it
// covers; the error says why Dump, or entry, could not go on.
//
// It can be used on any file, also on one that is written to, and changes
// nothing.
func Dump(ctx context.Context, path string, cfg DumpConfig, entry func(Entry) error) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	if info.IsDir() {
		err = dumpDir(ctx, path, cfg, entry)
	} else {
		err = dumpFile(ctx, path, cfg, entry)
	}
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	return nil
}

func dumpDir(ctx context.Context, dir string, cfg DumpConfig, entry func(Entry) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		err = dumpFile(ctx, path, cfg, entry)
		if errors.Is(err, ErrUnknownFile) {
			return entry(Entry{File: path, Kind: EntryFile, Fields: []Field{{"is", "unknown"}}})
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errRetired) {
			return nil
		}
		return err
	})
}

// dumper tells of one file.
type dumper struct {
	ctx   context.Context
	cfg   DumpConfig
	path  string
	size  int64
	file  *os.File
	entry func(Entry) error
	count int64
}

func dumpFile(ctx context.Context, path string, cfg DumpConfig, entry func(Entry) error) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	d := &dumper{ctx: ctx, cfg: cfg, path: path, size: info.Size(), file: f, entry: entry}
	kind, err := d.recognize()
	if err != nil {
		return err
	}
	if kind == "" {
		return fmt.Errorf("%w: %s", ErrUnknownFile, path)
	}
	if err := d.tell(0, EntryFile, Field{"is", kind}, Field{"size", d.size}); err != nil {
		return err
	}
	err = dumpers[kind](d)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// dumpers are the kinds of files.
var dumpers = map[string]func(*dumper) error{
	"commitlog":        (*dumper).log,
	"consumequeue":     (*dumper).units,
	"consumequeue_ext": (*dumper).extUnits,
	"index":            (*dumper).index,
	"checkpoint":       (*dumper).checkpoint,
	"abort":            (*dumper).text,
	"lock":             (*dumper).text,
	"owner":            (*dumper).text,
	"config":           (*dumper).config,
	"own":              (*dumper).own,
	"ledger":           (*dumper).ledger,
	"reserve":          (*dumper).reserve,
	"timers":           (*dumper).timers,
}

// places say where in a store which files are.
var places = []struct {
	kind string
	path *regexp.Regexp
}{
	{"commitlog", regexp.MustCompile(`(^|/)commitlog/\d{20}$`)},
	{"consumequeue", regexp.MustCompile(`(^|/)consumequeue/[^/]+/\d+/\d{20}$`)},
	{"consumequeue_ext", regexp.MustCompile(`(^|/)consumequeue_ext/[^/]+/\d+/\d{20}$`)},
	{"index", regexp.MustCompile(`(^|/)index/-?\d+$`)},
	{"config", regexp.MustCompile(`(^|/)config/[^/]+\.json(\.bak|\.tmp)?$`)},
	{"own", regexp.MustCompile(`(^|/)pocketmq/[^/]+\.json$`)},
	{"owner", regexp.MustCompile(`(^|/)pocketmq/owner$`)},
	{"ledger", regexp.MustCompile(`(^|/)pocketmq/queues\.[01]$`)},
	{"timers", regexp.MustCompile(`(^|/)pocketmq/timers$`)},
	{"reserve", regexp.MustCompile(`(^|/)pocketmq/reserve$`)},
	{"checkpoint", regexp.MustCompile(`(^|/)checkpoint$`)},
	{"abort", regexp.MustCompile(`(^|/)abort$`)},
	{"lock", regexp.MustCompile(`(^|/)lock$`)},
}

// recognize says what kind of file it is, "" for none.
func (d *dumper) recognize() (string, error) {
	path, err := filepath.Abs(d.path)
	if err != nil {
		return "", err
	}
	path = filepath.ToSlash(path)
	for _, p := range places {
		if p.path.MatchString(path) {
			return p.kind, nil
		}
	}
	head := make([]byte, 64)
	n, err := d.file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return recognizeContent(filepath.Base(path), head[:n], d.size), nil
}

var (
	segmentName = regexp.MustCompile(`^\d{20}$`)
	ownContent  = regexp.MustCompile(`^[0-9a-f]{16}\n`)
)

// recognizeContent is for a file outside a store.
func recognizeContent(name string, head []byte, size int64) string {
	switch {
	case len(head) >= 8 && (bytes.Equal(head[4:8], recordMagic) || binary.BigEndian.Uint32(head[4:]) == message.BlankMagic):
		return "commitlog"
	case ownContent.Match(head):
		return "own"
	case bytes.HasPrefix(bytes.TrimSpace(head), []byte("{")):
		return "config"
	case segmentName.MatchString(name) && size%unitSize == 0:
		return "consumequeue"
	case len(name) == 17 && strings.Trim(name, "0123456789") == "" && size > indexfile.FileSize(1, 2):
		return "index"
	}
	return ""
}

var errEnough = errors.New("enough")

// tell passes an entry on.
func (d *dumper) tell(at int64, kind EntryKind, fields ...Field) error {
	return d.entry(Entry{File: d.path, Offset: at, Kind: kind, Fields: fields})
}

// item is tell for what is counted: errEnough when there was enough.
func (d *dumper) item(at int64, kind EntryKind, fields ...Field) error {
	if d.cfg.Limit > 0 && d.count >= d.cfg.Limit {
		return errEnough
	}
	if d.count%1024 == 0 {
		if err := d.ctx.Err(); err != nil {
			return err
		}
	}
	d.count++
	return d.tell(at, kind, fields...)
}

// rest tells of what lies from at to the end of the file, and is not known.
func (d *dumper) rest(at int64) error {
	if at >= d.size {
		return nil
	}
	nonzero, err := d.nonzero(at)
	if err != nil {
		return err
	}
	if nonzero < 0 {
		return d.tell(at, EntryUnused, Field{"size", d.size - at})
	}
	return d.tell(at, EntryDamage, Field{"size", d.size - at},
		Field{"why", fmt.Sprintf("behind the end, and not zero at byte %d", nonzero)})
}

// nonzero is the first byte from at on that is not zero, -1 for none.
func (d *dumper) nonzero(at int64) (int64, error) {
	buf := make([]byte, 256<<10)
	for at < d.size {
		n, err := d.file.ReadAt(buf, at)
		if i := firstNonzero(buf[:n]); i >= 0 {
			return at + int64(i), nil
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		at += int64(n)
	}
	return -1, nil
}

// base is the offset that the file's name gives, false where it gives none.
func (d *dumper) base() (int64, bool) {
	name := filepath.Base(d.path)
	base, err := strconv.ParseInt(name, 10, 64)
	return base, err == nil && segmentName.MatchString(name)
}
