package mmap

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// CreateSized makes a file of that length, of zeros without blocks, for reading and writing. It must not exist. Where
// the file system can do that, the name appears only when the length is there, so that a process that dies in
// between leaves nothing behind.
func CreateSized(path string, perm os.FileMode, size int64) (*os.File, error) {
	f, err := createUnnamed(path, perm, size)
	if err == nil || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOSPC) {
		return f, err
	}
	return createNamed(path, perm, size) // not every file system has files without a name
}

func createUnnamed(path string, perm os.FileMode, size int64) (*os.File, error) {
	fd, err := unix.Open(filepath.Dir(path), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, uint32(perm.Perm()))
	if err != nil {
		return nil, &os.PathError{Op: "create", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	if err := f.Truncate(size); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// The kernel's own way to name such a file: through its descriptor.
	err = unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "create", Path: path, Err: err}, f.Close())
	}
	return f, nil
}
