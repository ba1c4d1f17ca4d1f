//go:build !linux

package mmap

import (
	"errors"
	"fmt"
)

// OpenVolume answers errors.ErrUnsupported: there is no sync of a filesystem that waits and reports what failed.
func OpenVolume(dir string) (*Volume, error) {
	return nil, fmt.Errorf("sync of the filesystem of %s as a whole: %w", dir, errors.ErrUnsupported)
}

// Sync is never called: there is no Volume.
func (v *Volume) Sync() error { return errors.ErrUnsupported }
