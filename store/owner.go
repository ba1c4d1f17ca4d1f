package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// LockedError says who owns a directory. It matches message.ErrLocked.
type LockedError struct {
	Dir   string
	Owner string // what the owner wrote about itself; "" if it is not a PocketMQ store
}

func (e *LockedError) Error() string {
	owner := e.Owner
	if owner == "" {
		owner = "an unknown process (a RocketMQ broker?)"
	}
	return fmt.Sprintf("%s: %v by %s", e.Dir, message.ErrLocked, owner)
}

// Is makes errors.Is(err, message.ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == message.ErrLocked }

// owner holds a directory: the lock that excludes RocketMQ and other stores,
// and the marker that says the directory was not closed properly.
type owner struct {
	fs       segment.FS
	dir      string
	lock     segment.Handle
	wasClean bool // no marker was there
}

// Files at the root of a store, RocketMQ's and ours.
const (
	lockFile  = "lock"
	abortFile = "abort"
	ownDir    = "pocketmq" // RocketMQ ignores it
	ownerFile = "owner"    // in ownDir
)

// takeOwnership locks dir. Nothing else in dir has been looked at before:
// RocketMQ recovers first and locks afterwards.
func takeOwnership(c Config, dir string) (*owner, error) {
	if err := c.fs.MkdirAll(dir, c.DirMode); err != nil {
		return nil, describeDir(dir, err)
	}
	lock, err := openOrCreate(c.fs, filepath.Join(dir, lockFile), c.FileMode)
	if err != nil {
		return nil, describeDir(dir, err)
	}
	o := &owner{fs: c.fs, dir: dir, lock: lock}
	if err := lock.Lock(); err != nil {
		if errors.Is(err, segment.ErrLocked) {
			who, _ := segment.ReadFile(c.fs, filepath.Join(dir, ownDir, ownerFile))
			err = &LockedError{Dir: dir, Owner: string(who)}
		}
		return nil, errors.Join(err, lock.Close())
	}
	return o, nil
}

// describeDir tells the errors apart that a bad path gives.
func describeDir(dir string, err error) error {
	info, statErr := os.Stat(dir) // follows a link: the root may be one
	switch {
	case statErr == nil && !info.IsDir(), errors.Is(statErr, syscall.ENOTDIR):
		return fmt.Errorf("%s: %w", dir, ErrNotDirectory)
	case errors.Is(err, fs.ErrPermission) || isReadOnly(err):
		return fmt.Errorf("%s: %w: %w", dir, ErrReadOnly, err)
	}
	return err
}

func openOrCreate(fsys segment.FS, path string, mode fs.FileMode) (segment.Handle, error) {
	h, err := fsys.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		h, err = fsys.Create(path, mode)
	}
	return h, err
}

// mark writes what RocketMQ writes into lock, who we are, and the marker.
func (o *owner) mark(c Config) error {
	o.fs = c.fs // which may have a reserve
	if err := o.leaveMark(c); err != nil {
		return describeDir(o.dir, err)
	}
	return nil
}

func (o *owner) leaveMark(c Config) error {
	if err := o.label(); err != nil {
		return err
	}
	abort := filepath.Join(o.dir, abortFile)
	_, err := o.fs.Lstat(abort)
	o.wasClean = errors.Is(err, fs.ErrNotExist)
	if err != nil && !o.wasClean {
		return err
	}
	if o.wasClean {
		h, err := o.fs.Create(abort, c.FileMode)
		if err != nil {
			return err
		}
		if err := h.Close(); err != nil {
			return err
		}
	}
	if err := o.fs.SyncDir(o.dir); err != nil {
		return err
	}
	own := filepath.Join(o.dir, ownDir)
	if err := o.fs.MkdirAll(own, c.DirMode); err != nil {
		return err
	}
	host, _ := os.Hostname()
	text := fmt.Sprintf("process %d on %s, since %s", os.Getpid(), host, c.Now().UTC().Format(time.RFC3339))
	err = segment.WriteFileAtomic(o.fs, filepath.Join(own, ownerFile), []byte(text), c.FileMode, false)
	if errors.Is(err, segment.ErrNoSpace) {
		return nil // it is for people; a full disk can still be read
	}
	return err
}

// label writes into lock what RocketMQ does.
func (o *owner) label() error {
	var b [len(lockFile)]byte
	if _, err := o.lock.ReadAt(b[:], 0); err == nil && string(b[:]) == lockFile {
		return nil
	}
	_, err := o.lock.WriteAt([]byte(lockFile), 0)
	return err
}

// release removes the marker when clean is set, and the lock. A lock file
// stays: removing it would let two processes hold two locks of one name.
func (o *owner) release(clean bool) error {
	var errs []error
	if clean {
		if err := o.fs.Remove(filepath.Join(o.dir, abortFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		errs = append(errs, o.fs.SyncDir(o.dir))
	}
	return errors.Join(append(errs, o.lock.Close())...)
}
