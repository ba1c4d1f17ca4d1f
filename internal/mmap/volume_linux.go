package mmap

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// syncedAsAWhole are the filesystems whose syncfs waits for every page, and hears of every page that could not be
// written. Not so overlay, which hands on to another one what it hears late or never.
var syncedAsAWhole = []string{"ext4", "xfs", "btrfs", "f2fs", "tmpfs"}

// OpenVolume opens the filesystem that holds dir. The error matches errors.ErrUnsupported where its Sync would not
// report all that failed since then: before Linux 5.8 it does not say that a page could not be written.
func OpenVolume(dir string) (*Volume, error) {
	info, err := Filesystem(dir)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(syncedAsAWhole, info.Name) || !kernelSince(5, 8) {
		return nil, fmt.Errorf("sync of the filesystem of %s as a whole: %w", dir, errors.ErrUnsupported)
	}
	root, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	stat, err := root.Stat()
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &Volume{root, FileIDOf(stat)}, nil
}

// Sync returns nil when everything written to the filesystem before the call, by whom and how ever, is on stable
// storage, with all entries of its directories. An error may be that of a page that was written since OpenVolume, or
// since the last call, whether its file is still open or not, and also one of a file that is not ours.
func (v *Volume) Sync() error {
	if err := control(v.root, unix.Syncfs); err != nil {
		return fmt.Errorf("sync the filesystem of %s: %w", v.root.Name(), err)
	}
	return nil
}

// kernelSince reports whether the kernel is of the version or a later one.
func kernelSince(major, minor int) bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	numbers := strings.FieldsFunc(unix.ByteSliceToString(name.Release[:]), func(r rune) bool { return r < '0' || r > '9' })
	if len(numbers) < 2 {
		return false
	}
	is, err := strconv.Atoi(numbers[0])
	sub, err2 := strconv.Atoi(numbers[1])
	return err == nil && err2 == nil && (is > major || is == major && sub >= minor)
}
