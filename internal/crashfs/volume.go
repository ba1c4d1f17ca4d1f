package crashfs

import (
	"errors"

	"github.com/pocketmq/pocketmq/internal/mmap"
	"github.com/pocketmq/pocketmq/internal/segment"
)

// volume is all that the FS holds.
type volume struct{ fs *FS }

// OpenVolume implements segment.FS.
func (f *FS) OpenVolume(dir string) (segment.Volume, error) {
	if err := f.step(OpOpenVolume, dir); err != nil {
		return nil, err
	}
	return volume{f}, nil
}

// Sync does what a Sync of every file and a SyncDir of every directory do.
func (v volume) Sync() error {
	fail := v.fs.step(OpSyncVolume, v.fs.root)
	if fail == nil && v.fs.lies(OpSyncVolume, v.fs.root) {
		return nil
	}
	v.fs.mu.Lock()
	defer v.fs.mu.Unlock()
	var errs []error
	v.fs.walk(func(n *node) { errs = append(errs, n.syncWith(fail)) })
	if fail != nil {
		return fail
	}
	return errors.Join(errs...)
}

// syncWith is the part of a sync that fails with fail, or does not, that one node has.
func (n *node) syncWith(fail error) error {
	if n.isDir() {
		if fail == nil {
			n.sync()
		}
		return nil
	}
	if n.live == nil {
		return nil
	}
	return n.syncBytes(fail)
}

func (v volume) Holds(mmap.FileID) bool { return true }
func (v volume) Close() error           { return nil }
