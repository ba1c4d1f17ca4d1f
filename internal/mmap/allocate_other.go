//go:build !linux

package mmap

import "os"

// allocate writes zeros: F_PREALLOCATE of darwin works only past the end of a file, and segments have their full
// length from the start; Windows has nothing for holes at all.
func allocate(f *os.File, off, n int64) error { return fillZeros(f, off, n) }
