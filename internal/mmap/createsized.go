package mmap

import (
	"errors"
	"os"
)

// createNamed makes the file and then gives it its length; if it can not, it leaves no file.
func createNamed(path string, perm os.FileMode, size int64) (*os.File, error) {
	f, err := OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(size); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return f, nil
}
