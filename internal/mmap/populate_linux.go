package mmap

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Populate brings the pages of the n bytes at off into memory, writable, so that later stores meet no fault. The
// pages become dirty. It works inside a system call: a slow disk stops the caller, not the whole Go program. The
// blocks must be allocated. Kernels before 5.14, and mappings for reading only, are left as they are without error.
func (m *Mapping) Populate(off, n int64) error {
	if off < 0 || n < 0 || off > int64(len(m.data))-n {
		return fmt.Errorf("populate %s: %d bytes at %d are outside the mapping of %d", m.path, n, off, len(m.data))
	}
	if n == 0 {
		return nil
	}
	first := off / int64(os.Getpagesize()) * int64(os.Getpagesize())
	for {
		err := unix.Madvise(m.data[first:off+n], unix.MADV_POPULATE_WRITE)
		switch {
		case err == nil, errors.Is(err, unix.EINVAL):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		}
		return fmt.Errorf("populate %d bytes at %d of %s: %w", n, off, m.path, err)
	}
}
