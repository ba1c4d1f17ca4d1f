package mmap

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// LockFile takes an exclusive lock on byte 0 of f without waiting, and holds it until f is closed. f must be open for
// writing. It excludes another process, another open of the same file in this process, and a Java process that locks
// the same byte (a POSIX record lock): an open-file-description lock conflicts with all three and, unlike a record
// lock, is not dropped when some other descriptor of the file is closed. Busy is an error that matches ErrLocked.
func LockFile(f *os.File) error {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	err := control(f, func(fd int) error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lock) })
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		return fmt.Errorf("lock %s: %w", f.Name(), ErrLocked)
	case errors.Is(err, unix.EINVAL): // a kernel or sandbox without such locks
		return recordLock(f)
	}
	return fmt.Errorf("lock %s: %w", f.Name(), err)
}
