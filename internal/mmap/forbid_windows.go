package mmap

import "golang.org/x/sys/windows"

// forbid takes every access right from the pages of data.
func forbid(data []byte) error {
	var before uint32
	return windows.VirtualProtect(address(data), uintptr(len(data)), windows.PAGE_NOACCESS, &before)
}
