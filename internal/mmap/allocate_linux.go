package mmap

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocateChunk bounds one call, in bytes. tmpfs undoes everything when a signal interrupts it, so one call for a
// very large file might never end in a process with a profiler running.
const allocateChunk = 64 << 20

func allocate(f *os.File, off, n int64) error {
	for end := off + n; off < end; {
		size := min(allocateChunk, end-off)
		err := control(f, func(fd int) error { return unix.Fallocate(fd, 0, off, size) })
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
			return fillZeros(f, off, end-off)
		}
		if err != nil {
			return err
		}
		off += size
	}
	return nil
}
