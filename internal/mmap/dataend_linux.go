package mmap

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// DataEnd returns the end of the last range of f that the filesystem does not know to be a hole: everything from there
// to size, the length of f in bytes, reads as zeros. Where the filesystem knows no holes it is size. Nobody may use
// the position of f.
func DataEnd(f *os.File, size int64) (end int64, err error) {
	err = control(f, func(fd int) error {
		for end < size {
			data, err := unix.Seek(fd, end, unix.SEEK_DATA)
			if errors.Is(err, unix.ENXIO) { // nothing but a hole follows
				return nil
			}
			if err == nil {
				end, err = unix.Seek(fd, data, unix.SEEK_HOLE)
			}
			if errors.Is(err, unix.EINVAL) {
				end = size
				return nil
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("look for holes in %s: %w", f.Name(), err)
	}
	return min(end, size), nil
}
