package mmap

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// LockFile takes an exclusive lock on byte 0 of f without waiting, and holds it until f is closed. It excludes every
// other handle, of this process or another, Java included. Busy is an error that matches ErrLocked.
func LockFile(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return fmt.Errorf("lock %s: %w", f.Name(), ErrLocked)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}
