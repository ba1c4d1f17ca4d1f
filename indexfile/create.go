package indexfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// writable returns the newest file that has room, pinned by the index, making
// it if there is none. The caller holds mu.
func (x *Index) writable() (*file, error) {
	if x.writes != nil && !x.writes.full() {
		return x.writes, nil
	}
	last := x.last()
	if last == nil || last.full() {
		return x.create(last)
	}
	if i := slices.Index(x.unsynced, last); i >= 0 { // it was full until it was cut
		x.unsynced = slices.Delete(x.unsynced, i, i+1)
	} else if err := last.pinMapped(); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	x.writes, x.synced = last, 0
	return last, nil
}

// create makes the file after last, which may be nil. When it returns nil the
// file has its length, blocks for the slots and the first entries, and a durable
// name. After an error there is no new file; one that could not be removed again
// is removed before the next is made.
//
// Source: RocketMQ store/index/IndexService.java, getAndCreateLastIndexFile.
func (x *Index) create(last *file) (*file, error) {
	if err := x.removeLeftover(); err != nil {
		return nil, fmt.Errorf("create index file: %w", err)
	}
	if err := x.makeDir(last); err != nil {
		return nil, fmt.Errorf("create index file: %w", err)
	}
	name, err := nameAfter(last.name(), x.cfg.Now().In(x.cfg.Location))
	if err != nil {
		return nil, fmt.Errorf("create index file in %s: %w", x.cfg.Dir, err)
	}
	f := x.newFile(filepath.Join(x.cfg.Dir, name), seed(last))
	if err := x.establish(f); err != nil {
		return nil, fmt.Errorf("create index file: %w", err)
	}
	if x.writes != nil {
		x.unsynced = append(x.unsynced, x.writes)
	}
	x.writes, x.synced = f, 0
	x.publish(append(slices.Clip(x.snapshot()), f))
	return f, nil
}

// name is the file's name, empty for nil.
func (f *file) name() string {
	if f == nil {
		return ""
	}
	return filepath.Base(f.path)
}

// seed is the header of the file after last. It makes the test for records that
// are indexed already work across files.
func seed(last *file) Header {
	h := Header{Count: 1}
	if last != nil {
		end := last.header()
		h.BeginTimestamp, h.EndTimestamp = end.EndTimestamp, end.EndTimestamp
		h.BeginLogOffset, h.EndLogOffset = end.EndLogOffset, end.EndLogOffset
	}
	return h
}

// makeDir makes the directory for the first file, and syncs its parent even if
// it exists: whoever made it may have died before doing so.
func (x *Index) makeDir(last *file) error {
	if last != nil {
		return nil
	}
	if err := x.cfg.FS.MkdirAll(x.cfg.Dir, x.cfg.DirMode); err != nil {
		return err
	}
	return x.cfg.FS.SyncDir(filepath.Dir(x.cfg.Dir))
}

// establish brings f into being, with one pin.
func (x *Index) establish(f *file) error {
	h, err := x.cfg.FS.Create(f.path, x.cfg.FileMode)
	if err != nil {
		return err
	}
	f.handle = h
	if err := x.complete(f); err != nil {
		x.leftover = f.path
		return errors.Join(err, f.close(), x.removeLeftover())
	}
	f.pins.Store(1)
	return nil
}

func (x *Index) complete(f *file) error {
	if err := f.handle.Truncate(f.size()); err != nil {
		return err
	}
	if err := f.prepare(f.entryAt(2)); err != nil {
		return err
	}
	if err := f.mapIn(); err != nil {
		return err
	}
	if err := f.writeHeader(f.header()); err != nil {
		return err
	}
	if err := f.handle.Sync(); err != nil {
		return err
	}
	return x.cfg.FS.SyncDir(x.cfg.Dir)
}

// removeLeftover removes a file that could not be completed.
func (x *Index) removeLeftover() error {
	if x.leftover == "" {
		return nil
	}
	if err := x.cfg.FS.Remove(x.leftover); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	x.leftover = ""
	return nil
}
