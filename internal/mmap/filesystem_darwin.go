package mmap

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Filesystem tells what kind of filesystem path, which must exist, lies on.
func Filesystem(path string) (FSInfo, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return FSInfo{}, fmt.Errorf("filesystem of %s: %w", path, err)
	}
	name := unix.ByteSliceToString(st.Fstypename[:])
	return FSInfo{Name: name, Network: st.Flags&unix.MNT_LOCAL == 0, Volatile: name == "tmpfs"}, nil
}

// Space returns the size of the filesystem of path and what is free for this user, in bytes.
func Space(path string) (total, free int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, 0, fmt.Errorf("space of %s: %w", path, err)
	}
	return int64(st.Blocks) * int64(st.Bsize), int64(st.Bavail) * int64(st.Bsize), nil
}
