package indexfile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pocketmq/pocketmq/message"
)

// Flush returns nil when the entries of every Put that returned before the call
// are durable. Where nothing was put it does nothing. Puts and queries go on
// meanwhile. A failed sync is final: every later Flush returns its error, until
// the index is opened again and repaired.
func (x *Index) Flush() error {
	x.flushing.Lock()
	defer x.flushing.Unlock()
	targets, err := x.startFlush()
	for _, t := range targets {
		if err == nil {
			err = t.sync()
		}
	}
	return x.endFlush(targets, err)
}

// target is a file that is being synced, pinned, and its count before that.
type target struct {
	*file
	count int32
}

// sync makes what was stored durable. Its pages leave the page tables before: a sync
// write-protects those that are there, one by one, and interrupts for each every processor
// that runs this program, which may be in the middle of a query or a put.
func (t *target) sync() error {
	if view := t.view.Load(); view != nil {
		_ = (*view).Drop(0, t.size()) // an error only makes it slower
	}
	return t.handle.Sync()
}

func (x *Index) startFlush() (targets []target, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed.Load() {
		return nil, fmt.Errorf("flush index: %w", message.ErrClosed)
	}
	if x.failed != nil {
		return nil, x.failed
	}
	files := x.unsynced
	if x.writes != nil && x.writes.count.Load() != x.synced {
		files = append(slices.Clone(files), x.writes)
	}
	for _, f := range files {
		if err := f.pin(); err != nil { // the index has a pin already, so this does not happen
			return targets, err
		}
		targets = append(targets, target{f, f.count.Load()})
	}
	return targets, nil
}

func (x *Index) endFlush(targets []target, err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil && len(targets) > 0 {
		x.failed = fmt.Errorf("flush index: %w", err)
		err = x.failed
	}
	for _, t := range targets {
		if err == nil {
			err = x.durable(t)
		}
		err = errors.Join(err, t.unpin())
	}
	return err
}

// durable notes what was synced of a file, which may have got full since, or be
// gone.
func (x *Index) durable(t target) error {
	if t.file == x.writes {
		if x.synced = t.count; t.count >= t.entries {
			x.full = t.header()
		}
		return nil
	}
	i := slices.Index(x.unsynced, t.file)
	if i < 0 || t.count != t.file.count.Load() {
		return nil
	}
	if t.full() {
		x.full = t.header()
	}
	x.unsynced = slices.Delete(x.unsynced, i, i+1)
	return t.unpin()
}

// LastFull returns the end of the newest file that is full and durable: store
// time (ms) and log offset of its last record. The time is what RocketMQ's
// checkpoint holds for the index. ok is false if there is no such file.
func (x *Index) LastFull() (endTimestamp int64, end message.LogOffset, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.full.EndTimestamp, x.full.EndLogOffset, x.full.Count > 0
}

// findFull sets what LastFull returns. Full files that were there at Open count
// as durable. The caller holds mu, or is Open.
func (x *Index) findFull() {
	x.full = Header{}
	for _, f := range slices.Backward(x.snapshot()) {
		if f.full() && f != x.writes && !slices.Contains(x.unsynced, f) {
			x.full = f.header()
			return
		}
	}
}

// RemoveBefore removes, oldest first, the files whose last record lies before
// logMin, where the log begins, but never the newest file, and returns their
// paths. Queries that look into one go on. After an error the files named are
// removed and the others are as before.
//
// Source: RocketMQ store/index/IndexService.java, deleteExpiredFile.
func (x *Index) RemoveBefore(logMin message.LogOffset) (removed []string, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed.Load() {
		return nil, fmt.Errorf("remove index files: %w", message.ErrClosed)
	}
	for list := x.snapshot(); len(list) > 1 && message.LogOffset(list[0].endOffset.Load()) < logMin; list = x.snapshot() {
		if err := x.removeFile(list[0]); err != nil {
			return removed, fmt.Errorf("remove index files: %w", err)
		}
		removed = append(removed, list[0].path)
	}
	if len(removed) == 0 {
		return nil, nil
	}
	return removed, x.cfg.FS.SyncDir(x.cfg.Dir)
}

// Bytes is what header, slots and used entries of all files have, without the
// space that is left in the newest.
func (x *Index) Bytes() (sum int64) {
	for _, f := range x.snapshot() {
		sum += FileSize(f.slots, f.count.Load())
	}
	return sum
}
