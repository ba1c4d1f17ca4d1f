//go:build !linux

package mmap

import "fmt"

// Populate would bring the pages of the n bytes at off into memory; this system has no call for that, so it only
// checks its arguments.
func (m *Mapping) Populate(off, n int64) error {
	if off < 0 || n < 0 || off > int64(len(m.data))-n {
		return fmt.Errorf("populate %s: %d bytes at %d are outside the mapping of %d", m.path, n, off, len(m.data))
	}
	return nil
}
