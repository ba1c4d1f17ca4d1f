package indexfile

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime/debug"
	"strconv"

	"github.com/pocketmq/pocketmq/internal/segment"
)

// ErrUnknownGeometry says that files do not show how they are divided.
var ErrUnknownGeometry = errors.New("can not tell slots from entries of the index file")

// Infer finds out how the index files in dir are divided, which nothing in them
// says: 0 and 0 when no file has an entry, unless one has the size of RocketMQ's.
// A file is divided in the one way in
// which its first and last entry are where they should be, and the last one is
// the newest of its slot. The error matches ErrUnknownGeometry when there is no
// file with entries for which there is exactly one such way. fsys nil means
// segment.OS.
func Infer(fsys segment.FS, dir string) (slots, entries int32, err error) {
	x := &Index{cfg: Config{FS: fsys, Dir: dir}.withDefaults()}
	names, err := x.names()
	if err != nil {
		return 0, 0, fmt.Errorf("index: %w", err)
	}
	var unknown error
	for _, name := range names {
		path := filepath.Join(x.cfg.Dir, name)
		slots, entries, err = inferFile(x.cfg.FS, path)
		switch {
		case errors.Is(err, ErrUnknownGeometry): // perhaps another one shows it
			unknown = errors.Join(unknown, fmt.Errorf("index: %s: %w", path, err))
		case err != nil:
			return 0, 0, fmt.Errorf("index: %s: %w", path, err)
		case slots != 0:
			return slots, entries, nil
		}
	}
	return 0, 0, unknown
}

func inferFile(fsys segment.FS, path string) (slots, entries int32, err error) {
	h, err := fsys.OpenRead(path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	size, err := h.Size()
	if err != nil || size < FileSize(1, 2) {
		return 0, 0, err
	}
	if size > math.MaxInt32 { // no index file is
		return 0, 0, ErrUnknownGeometry
	}
	if strconv.IntSize == 32 && size == FileSize(RocketMQSlots, RocketMQEntries) {
		return RocketMQSlots, RocketMQEntries, nil // too large to be mapped, and hardly anybody divides that size otherwise
	}
	view, err := h.Map(size)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, view.Unmap()) }()
	defer func(old bool) {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			err = view.Caught(r)
		}
	}(debug.SetPanicOnFault(true))
	return infer(view.Bytes())
}

// infer tries every division of the file b, RocketMQ's first.
func infer(b []byte) (slots, entries int32, err error) {
	h := headerAt(b)
	if FileSize(RocketMQSlots, RocketMQEntries) == int64(len(b)) &&
		(h.Count <= 1 || h.Count <= RocketMQEntries && divided(b, h, RocketMQSlots)) {
		return RocketMQSlots, RocketMQEntries, nil
	}
	if h.Count <= 1 {
		return 0, 0, nil
	}
	most := (int64(len(b)) - headerSize - entrySize*int64(h.Count)) / slotSize
	rest := (int64(len(b)) - headerSize) % entrySize
	for s := rest / slotSize; s <= most && rest%slotSize == 0; s += entrySize / slotSize {
		if s == 0 || !divided(b, h, s) {
			continue
		}
		if slots != 0 {
			return 0, 0, fmt.Errorf("%w: %d or %d slots", ErrUnknownGeometry, slots, s)
		}
		slots, entries = int32(s), int32((int64(len(b))-headerSize-slotSize*s)/entrySize)
	}
	if slots == 0 {
		return 0, 0, ErrUnknownGeometry
	}
	return slots, entries, nil
}

// divided reports whether the file b can have that many slots.
func divided(b []byte, h Header, slots int64) bool {
	at := func(e int32) entry { return entryAt(b[headerSize+slotSize*slots+entrySize*int64(e):]) }
	first, last := at(1), at(h.Count-1)
	return first != (entry{}) && first.offset == h.BeginLogOffset && first.prev == 0 && first.hash >= 0 &&
		last.offset == h.EndLogOffset && last.hash >= 0 && last.prev < h.Count-1 &&
		loadSlot(b[headerSize+slotSize*(int64(last.hash)%slots):]) == h.Count-1
}
