package main

import (
	"os"
	"syscall"
)

// syncData syncs the bytes of a file whose size does not change.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
