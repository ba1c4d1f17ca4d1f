package mmap

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// Filesystem tells what kind of filesystem path, which must exist, lies on.
func Filesystem(path string) (FSInfo, error) {
	volume, err := volumeOf(path)
	if err != nil {
		return FSInfo{}, fmt.Errorf("filesystem of %s: %w", path, err)
	}
	var name [windows.MAX_PATH + 1]uint16
	err = windows.GetVolumeInformation(volume, nil, 0, nil, nil, nil, &name[0], uint32(len(name)))
	if err != nil {
		return FSInfo{}, fmt.Errorf("filesystem of %s: %w", path, err)
	}
	kind := windows.GetDriveType(volume)
	return FSInfo{
		Name:     windows.UTF16ToString(name[:]),
		Network:  kind == windows.DRIVE_REMOTE,
		Volatile: kind == windows.DRIVE_RAMDISK,
	}, nil
}

// Space returns the size of the filesystem of path and what is free for this user, in bytes.
func Space(path string) (total, free int64, err error) {
	volume, err := volumeOf(path)
	if err != nil {
		return 0, 0, fmt.Errorf("space of %s: %w", path, err)
	}
	var mine, all uint64
	if err := windows.GetDiskFreeSpaceEx(volume, &mine, &all, nil); err != nil {
		return 0, 0, fmt.Errorf("space of %s: %w", path, err)
	}
	return int64(all), int64(mine), nil
}

func volumeOf(path string) (*uint16, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return windows.UTF16PtrFromString(filepath.VolumeName(abs) + `\`)
}
