package mmap

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Drop takes the whole pages in the n bytes at off out of the page tables; what
// they hold stays in the page cache, and the next access maps it again. Before a
// sync this saves it from write-protecting the pages one by one, each with an
// interrupt to every processor that runs this program.
func (m *Mapping) Drop(off, n int64) error {
	if err := m.checkRange("drop", off, n); err != nil {
		return err
	}
	page := int64(os.Getpagesize())
	first, end := (off+page-1)/page*page, (off+n)/page*page
	if first >= end {
		return nil
	}
	if err := unix.Madvise(m.data[first:end], unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("drop %d bytes at %d of %s: %w", n, off, m.path, err)
	}
	return nil
}

// Populate brings the pages of the n bytes at off into memory, writable, so that later stores meet no fault. The
// pages become dirty. It works inside a system call: a slow disk stops the caller, not the whole Go program. The
// blocks must be allocated. Kernels before 5.14, and mappings for reading only, are left as they are without error.
func (m *Mapping) Populate(off, n int64) error {
	if err := m.checkRange("populate", off, n); err != nil {
		return err
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
