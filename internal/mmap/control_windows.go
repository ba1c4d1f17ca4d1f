package mmap

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

func isNoSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

// UnlinkMapped tells whether the name of a file can be removed while the file is open and mapped.
const UnlinkMapped = false

// OpenFile is os.OpenFile that refuses a symbolic link at the end of the path. The check comes before the open, so it
// protects from accidents, not from somebody who swaps the file in between.
func OpenFile(path string, flag int, perm os.FileMode) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return nil, &os.PathError{Op: "open", Path: path, Err: windows.ERROR_CANT_ACCESS_FILE}
	}
	return os.OpenFile(path, flag, perm)
}
