package bench

import (
	"os"
	"syscall"
)

// datasync is the sync that the store uses on Linux.
func datasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
