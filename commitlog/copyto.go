package commitlog

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// CopyTo writes the log up to end, which is the end of a record and durable, as
// the files of another log into dir, and returns where the copy begins. Files
// that are removed meanwhile are copied all the same. When it returns nil the
// copy is durable. What it reads it reads by system calls. After an error dir
// holds a part of the copy.
func (l *Log) CopyTo(ctx context.Context, dir string, end message.LogOffset) (start message.LogOffset, err error) {
	files := l.pinAll(end)
	defer func() {
		for _, f := range files {
			f.Unpin()
		}
	}()
	fsys := l.cfg.FS
	if err := fsys.MkdirAll(dir, l.cfg.DirMode); err != nil {
		return 0, fmt.Errorf("copy log: %w", err)
	}
	for _, f := range files {
		if err := l.copyFile(ctx, f, filepath.Join(dir, filepath.Base(f.Path())), min(f.End(), int64(end))-f.Base()); err != nil {
			return 0, fmt.Errorf("copy log: %w", err)
		}
	}
	if len(files) > 0 {
		start = message.LogOffset(files[0].Base())
	}
	return start, fsys.SyncDir(dir)
}

// pinAll pins the files that hold something before end.
func (l *Log) pinAll(end message.LogOffset) []*segment.File {
	var pinned []*segment.File
	for _, f := range l.files.Snapshot() {
		if f.Base() < int64(end) && f.Pin() { // one that can not be pinned has just been removed, with all before it
			pinned = append(pinned, f)
		}
	}
	return pinned
}

// copyFile makes a file of full length with the first n bytes of f.
func (l *Log) copyFile(ctx context.Context, f *segment.File, path string, n int64) (err error) {
	h, err := l.cfg.FS.Create(path, l.cfg.FileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if err := h.Truncate(f.Size()); err != nil {
		return err
	}
	buf := make([]byte, min(n, 1<<20))
	for at := int64(0); at < n; {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buf[:min(int64(len(buf)), n-at)]
		if _, err := f.ReadAt(b, at); err != nil {
			return fmt.Errorf("read %s: %w", f.Path(), err)
		}
		if _, err := h.WriteAt(b, at); err != nil {
			return err
		}
		at += int64(len(b))
	}
	return h.Sync()
}
