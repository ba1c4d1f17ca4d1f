//go:build !linux && !darwin && !windows

package mmap

import (
	"errors"
	"fmt"
)

// Filesystem does not know the filesystems of this system; it returns an empty FSInfo.
func Filesystem(path string) (FSInfo, error) { return FSInfo{}, nil }

// Space is not known on this system; the error matches errors.ErrUnsupported.
func Space(path string) (total, free int64, err error) {
	return 0, 0, fmt.Errorf("space of %s: %w", path, errors.ErrUnsupported)
}
