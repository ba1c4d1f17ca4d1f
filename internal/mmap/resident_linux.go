package mmap

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Resident reports whether all pages of the n bytes at off are in memory, so that a load from them waits for no disk.
// It is a snapshot: the kernel may take a page back at any time. False also means that it could not be told.
func (m *Mapping) Resident(off, n int64) bool {
	if m.checkRange("resident", off, n) != nil {
		return false
	}
	page := int64(os.Getpagesize())
	var state [256]byte // one byte for each page
	for first := off / page * page; first < off+n; {
		span := min(off+n-first, int64(len(state))*page)
		if !resident(m.data[first:first+span], &state[0]) {
			return false
		}
		for _, s := range state[:(span+page-1)/page] {
			if s&1 == 0 {
				return false
			}
		}
		first += span
	}
	return true
}

// resident asks for the state of the pages of data, which begins at one.
func resident(data []byte, state *byte) bool {
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, address(data), uintptr(len(data)), uintptr(unsafe.Pointer(state)))
	return errno == 0
}
