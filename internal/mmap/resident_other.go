//go:build !linux

package mmap

// Resident would report whether all pages of the n bytes at off are in memory; this system has no dependable call for
// that, so the answer is always that it could not be told.
func (m *Mapping) Resident(_, _ int64) bool { return false }
