//go:build unix

package mmap

import (
	"os"
	"syscall"
)

// FileIDOf returns the identity of the file that info describes.
func FileIDOf(info os.FileInfo) FileID {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return FileID{}
	}
	// The types of both differ between systems.
	return FileID{uint64(stat.Dev), uint64(stat.Ino)}
}
