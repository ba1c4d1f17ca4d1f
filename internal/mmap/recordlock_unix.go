//go:build unix

package mmap

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// held lists the files locked by recordLock in this process. A file that was closed since holds nothing any more.
var held struct {
	sync.Mutex
	files []*os.File
}

// recordLock locks f with a POSIX record lock, a flock and the table of this process.
func recordLock(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	held.Lock()
	defer held.Unlock()
	held.files = slices.DeleteFunc(held.files, func(h *os.File) bool { _, err := h.Stat(); return err != nil })
	for _, h := range held.files {
		if other, err := h.Stat(); err == nil && os.SameFile(info, other) {
			return fmt.Errorf("lock %s: %w", f.Name(), ErrLocked)
		}
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	err = control(f, func(fd int) error {
		if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
			return err
		}
		return unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &lock)
	})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("lock %s: %w", f.Name(), ErrLocked)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	held.files = append(held.files, f)
	return nil
}
