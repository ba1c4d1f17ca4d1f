//go:build unix

package mmap

import "golang.org/x/sys/unix"

// forbid takes every access right from the pages of data.
func forbid(data []byte) error { return unix.Mprotect(data, unix.PROT_NONE) }
