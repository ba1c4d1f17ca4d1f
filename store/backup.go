package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// BackupReport says what a Backup copied. It is a value.
type BackupReport struct {
	Dir              string
	LogStart, LogEnd message.LogOffset // of the copy
	// Recovery is what the first Open of the copy found. Damage that it names is
	// that of this store.
	Recovery Recovery
	Took     time.Duration
}

// Backup makes a consistent copy of the open store in dir, which must be empty
// or not exist: every message that was placed before the call, the consumer
// offsets and topics of a moment before that, and what is derived from them.
// Writers and readers go on, and retention does. The copy is closed properly and
// durable when Backup returns nil; after an error dir holds a part of it.
//
// The log is copied and everything else built from it again, so that the copy
// has been read and checked as a whole. It needs as much space as the log, the
// queues and the index have.
func (s *DefaultMessageStore) Backup(ctx context.Context, dir string) (BackupReport, error) {
	began := time.Now()
	report, err := s.backup(ctx, dir)
	report.Took = time.Since(began)
	if err != nil {
		return report, fmt.Errorf("backup: %w", typed(err))
	}
	return report, nil
}

func (s *DefaultMessageStore) backup(ctx context.Context, dir string) (BackupReport, error) {
	if err := s.checkOpen(); err != nil {
		return BackupReport{}, err
	}
	dir, err := s.backupDir(dir)
	if err != nil {
		return BackupReport{}, err
	}
	report := BackupReport{Dir: dir}
	// Offsets first: none may be behind the end of its queue.
	if err := s.copyConfig(dir); err != nil {
		return report, err
	}
	if err := s.Flush(ctx); err != nil {
		return report, err
	}
	report.LogEnd = s.log.Durable()
	if err := s.WaitDispatched(ctx, report.LogEnd); err != nil {
		return report, err
	}
	if report.LogStart, err = s.log.CopyTo(ctx, filepath.Join(dir, "commitlog"), report.LogEnd); err != nil {
		return report, err
	}
	if err := s.copyNumbering(dir, report); err != nil {
		return report, err
	}
	report.Recovery, err = s.completeBackup(ctx, dir)
	return report, err
}

// backupDir makes the directory of a copy.
func (s *DefaultMessageStore) backupDir(dir string) (string, error) {
	if dir == "" {
		return "", &message.IllegalError{Field: "directory", Reason: "is empty"}
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(s.dir, dir); err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", &message.IllegalError{Field: "directory", Value: dir, Reason: "lies inside the store"}
	}
	if err := s.cfg.fs.MkdirAll(dir, s.cfg.DirMode); err != nil {
		return "", describeDir(dir, err)
	}
	entries, err := s.cfg.fs.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = &message.IllegalError{Field: "directory", Value: dir, Reason: "is not empty"}
	}
	return dir, err
}

// copyConfig copies config/*.json and what is primary in pocketmq/.
func (s *DefaultMessageStore) copyConfig(dir string) error {
	s.configMu.Lock() // nobody replaces a file meanwhile
	defer s.configMu.Unlock()
	for _, sub := range []string{configDir, ownDir} {
		entries, err := s.cfg.fs.ReadDir(filepath.Join(s.dir, sub))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := s.cfg.fs.MkdirAll(filepath.Join(dir, sub), s.cfg.DirMode); err != nil {
			return err
		}
		for _, e := range entries {
			if name := e.Name(); strings.HasSuffix(name, ".json") && name != pointFile {
				if err := s.copyFile(dir, filepath.Join(sub, name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// copyFile copies a small file.
func (s *DefaultMessageStore) copyFile(dir, name string) error {
	b, err := segment.ReadFile(s.cfg.fs, filepath.Join(s.dir, name))
	if err != nil {
		return err
	}
	return segment.WriteFileAtomic(s.cfg.fs, filepath.Join(dir, name), b, s.cfg.FileMode, false)
}

// copyNumbering copies the last file of each queue of which the log has no
// message any more: that is where its numbering goes on.
func (s *DefaultMessageStore) copyNumbering(dir string, r BackupReport) error {
	for _, q := range s.queues.All() {
		n := q.Max()
		u, ok := q.At(n - 1)
		for ok && u.LogOffset >= r.LogEnd { // put since
			n--
			u, ok = q.At(n - 1)
		}
		if !ok || u.LogOffset >= r.LogStart {
			continue
		}
		if err := s.copyUnits(dir, q, n); err != nil {
			return err
		}
	}
	return nil
}

// copyUnits copies the file that holds unit end-1 of q, up to end.
func (s *DefaultMessageStore) copyUnits(dir string, q *consumequeue.Queue, end message.QueueOffset) (err error) {
	first := max(q.First(), q.NextFile(end-1)-message.QueueOffset(q.FileSize()/consumequeue.UnitSize))
	var b []byte
	var units [unitChunk]consumequeue.Unit
	for at := first; at < end; {
		n, err := q.Read(at, units[:min(unitChunk, int(end-at))])
		if err != nil || n == 0 {
			return errors.Join(err, fmt.Errorf("queue %s/%d: %w: unit %d can not be read", q.Topic, q.ID, message.ErrCorrupt, at))
		}
		for _, u := range units[:n] {
			b = u.Append(b)
		}
		at += message.QueueOffset(n)
	}
	queueDir := filepath.Join(dir, "consumequeue", q.Topic, strconv.Itoa(int(q.ID)))
	if err := s.cfg.fs.MkdirAll(queueDir, s.cfg.DirMode); err != nil {
		return err
	}
	h, err := s.cfg.fs.Create(filepath.Join(queueDir, segment.FileName(int64(first)*consumequeue.UnitSize)), s.cfg.FileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if err := h.Truncate(q.FileSize()); err != nil {
		return err
	}
	if _, err := h.WriteAt(b, 0); err != nil {
		return err
	}
	return errors.Join(h.Sync(), s.cfg.fs.SyncDir(queueDir))
}

// completeBackup opens the copy, which builds its queues and its index, and
// closes it.
func (s *DefaultMessageStore) completeBackup(ctx context.Context, dir string) (Recovery, error) {
	cfg := s.cfg
	cfg.fs, cfg.Flush = s.logFS, FlushSync
	cfg.Retention, cfg.MaxBytes, cfg.Reserve = Retention{}, 0, -1
	cfg.SegmentSize, cfg.ConsumeQueueFileSize = s.log.FileSize(), s.queues.FileSize()
	c, err := Open(ctx, dir, cfg)
	if err != nil {
		return Recovery{}, err
	}
	err = errors.Join(c.WaitDispatched(ctx, c.MaxOffset()), c.WaitIndexed(ctx, c.MaxOffset()))
	return c.Recovery(), errors.Join(err, c.Close())
}
