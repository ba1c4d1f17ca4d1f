//go:build !linux

package mmap

import "os"

// CreateSized makes a file of that length, of zeros without blocks, for reading and writing. It must not exist. A
// process that dies in between may leave it without a length.
func CreateSized(path string, perm os.FileMode, size int64) (*os.File, error) {
	return createNamed(path, perm, size)
}
