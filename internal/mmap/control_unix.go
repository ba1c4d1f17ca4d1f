//go:build unix

package mmap

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// control runs fn with the descriptor of f, which can not be closed and reused meanwhile, again while it is
// interrupted by a signal.
func control(f *os.File, fn func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		failed = fn(int(fd))
		for errors.Is(failed, unix.EINTR) {
			failed = fn(int(fd))
		}
	})
	return errors.Join(err, failed)
}

func isNoSpace(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// UnlinkMapped tells whether the name of a file can be removed while the file is open and mapped.
const UnlinkMapped = true

// OpenFile is os.OpenFile that refuses a symbolic link at the end of the path.
func OpenFile(path string, flag int, perm os.FileMode) (*os.File, error) {
	return os.OpenFile(path, flag|unix.O_NOFOLLOW, perm)
}
