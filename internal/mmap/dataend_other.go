//go:build !linux

package mmap

import "os"

// DataEnd returns a position from which on f, which is size bytes long, is known to read as zeros: here its end.
func DataEnd(_ *os.File, size int64) (int64, error) { return size, nil }
