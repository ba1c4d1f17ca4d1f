//go:build !linux

package mmap

// Populate would bring the pages of the n bytes at off into memory; this system has no call for that, so it only
// checks its arguments.
func (m *Mapping) Populate(off, n int64) error {
	return m.checkRange("populate", off, n)
}

// Drop would take the pages of the n bytes at off out of the page tables before a sync; here it only checks its
// arguments.
func (m *Mapping) Drop(off, n int64) error { return m.checkRange("drop", off, n) }
