// Package inspect looks into the files of a store directory, also of one that
// is in use by PocketMQ or RocketMQ, without taking a lock, recovering, or
// changing anything.
//
// Info tells what there is, ReadSettings what a broker keeps about topics and groups;
// Log, Queue, Reader and MessageAt read messages; Verify compares
// every file with every other; Salvage tells what could be kept of a damaged
// store; Dump tells what is in any file, entry by entry.
//
// Laws of the package:
//
//   - Files are opened for reading and read through the descriptor: nothing is
//     mapped, and what a writer or a failing disk does is at worst an error.
//   - It goes on behind what is damaged: a record costs itself. Nothing that a file
//     holds makes it panic, or allocate more than the file is long.
//   - It needs memory for a few stretches of the log, for some kilobytes of each
//     queue, and for the slots of one index file.
//   - What a process writes or removes meanwhile is never called damage: a look
//     covers what was there when it began and still is, and perhaps more.
package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrNoStore is returned for a directory in which there is no store.
var ErrNoStore = errors.New("there is no store")

// Names in a store directory.
const (
	logDir         = "commitlog"
	queuesDir      = "consumequeue"
	indexDir       = "index"
	configDir      = "config"
	lockFile       = "lock" // what it holds, too
	abortFile      = "abort"
	checkpointFile = "checkpoint"
	ownDir         = "pocketmq"
	ownerFile      = "owner" // in ownDir
)

// Check returns nil when dir holds a store, and an error that matches
// ErrNoStore when it does not.
func Check(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w in %s, which does not exist", ErrNoStore, dir)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%w in %s, which is no directory", ErrNoStore, dir)
	}
	for _, name := range []string{logDir, queuesDir, ownDir} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.IsDir() {
			return nil
		}
	}
	return fmt.Errorf("%w in %s", ErrNoStore, dir)
}

// marked reports whether the marker is there that a store leaves while it is
// open, and when it was not closed properly.
func marked(dir string) (bool, error) {
	_, err := os.Lstat(filepath.Join(dir, abortFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// owner is what the process that opened the store last wrote about itself.
func owner(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, ownDir, ownerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(b)), err
}
