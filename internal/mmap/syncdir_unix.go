//go:build unix

package mmap

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// SyncDir makes the entries of the directory at path durable: files created, renamed and removed in it. A filesystem
// that answers that directories can not be synced offers no better way, and that is not an error.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	err = dir.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil
	}
	if err := errors.Join(err, dir.Close()); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}
