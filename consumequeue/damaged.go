package consumequeue

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// damagedQueue is a queue that OpenTable could not take: a file is missing or empty
// between others, or has the wrong size.
type damagedQueue struct {
	queueKey

	size *segment.SizeError // nil when a file is missing
}

// wrongSize reports whether there is a file of another size, and not only one
// without bytes.
func (d damagedQueue) wrongSize() bool { return d.size != nil && d.size.Got != 0 }

func (t *Table) setAside(topic string, id int32, size *segment.SizeError) {
	t.damaged = append(t.damaged, damagedQueue{queueKey{topic, id}, size})
}

// settleSize decides, where not all files have one size, which it is: the one that
// is configured, if a file has it, and else the most frequent. A file that was cut
// must not decide for all the others.
func (t *Table) settleSize(configured int64) error {
	odd := slices.IndexFunc(t.damaged, damagedQueue.wrongSize)
	if odd < 0 {
		return nil
	}
	sizes, err := t.fileSizes()
	if err != nil {
		return err
	}
	if configured > 0 {
		if sizes[configured] == 0 {
			return fmt.Errorf("no file has the configured size: %w", t.damaged[odd].size)
		}
		return nil
	}
	size := mostFrequent(sizes)
	if size == t.cfg.FileSize {
		return nil
	}
	for _, q := range t.All() {
		err = errors.Join(err, q.files.Close())
	}
	t.cfg.FileSize, t.damaged = size, nil
	clear(t.queues)
	return errors.Join(err, t.load())
}

// fileSizes counts the files of all queues by their size.
func (t *Table) fileSizes() (map[int64]int, error) {
	sizes := make(map[int64]int)
	err := t.walk(func(topic string, id int32) error {
		files, err := t.cfg.FS.ReadDir(t.dir(topic, id))
		for _, f := range files {
			info, infoErr := f.Info()
			if infoErr != nil {
				return infoErr
			}
			sizes[info.Size()]++
		}
		return err
	})
	return sizes, err
}

// mostFrequent is the size that most files have, the greater one of two: files are
// cut more easily than they grow. It is 0 when none holds whole units.
func mostFrequent(sizes map[int64]int) int64 {
	best := int64(0)
	for size, n := range sizes {
		if size > 0 && size%UnitSize == 0 && (n > sizes[best] || n == sizes[best] && size > best || best == 0) {
			best = size
		}
	}
	return best
}

// ResetDamaged empties the queues that OpenTable set aside, and returns their
// directories. They must be built again from the log, all of it. logMin is where
// that begins: files of a wrong size that end with a message before it carry a
// numbering that nothing else has, and are an error matching
// segment.ErrFileSize. Then nothing was changed.
func (t *Table) ResetDamaged(logMin message.LogOffset) ([]string, error) {
	for _, d := range t.damaged {
		if err := t.checkRebuildable(d, logMin); err != nil {
			return nil, fmt.Errorf("consume queues: %w", err)
		}
	}
	var dirs []string
	for _, d := range t.damaged {
		dir := t.dir(d.topic, d.id)
		if err := t.empty(dir); err != nil {
			return dirs, fmt.Errorf("consume queues: %w", err)
		}
		dirs = append(dirs, dir)
	}
	t.damaged = nil
	return dirs, nil
}

// empty removes the files of a queue, the last one first: what a crash leaves of
// them is damaged as well.
func (t *Table) empty(dir string) error {
	files, err := t.cfg.FS.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range slices.Backward(files) {
		if err := t.takeSize(f); err != nil {
			return err
		}
		if err := t.cfg.FS.Remove(filepath.Join(dir, f.Name())); err != nil {
			return err
		}
	}
	return t.cfg.FS.SyncDir(dir)
}

// checkRebuildable wants the last unit of a queue with a file of a wrong size to
// point into the log, if it has any.
func (t *Table) checkRebuildable(d damagedQueue, logMin message.LogOffset) error {
	if !d.wrongSize() {
		return nil
	}
	dir := t.dir(d.topic, d.id)
	files, err := t.cfg.FS.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range slices.Backward(files) {
		b, err := segment.ReadFile(t.cfg.FS, filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		if u, ok := lastRealOf(b); ok {
			if u.LogOffset < logMin {
				return fmt.Errorf("%w, and the log has no message of the queue any more to build it again", d.size)
			}
			return nil
		}
	}
	return nil
}

// lastRealOf is the last unit of a file that points at a message.
func lastRealOf(b []byte) (Unit, bool) {
	for n := len(b) / UnitSize; n > 0; n-- {
		if u := unitAt(b[(n-1)*UnitSize:]); u.IsReal() {
			return u, true
		}
	}
	return Unit{}, false
}
