//go:build unix && !linux

package mmap

import "golang.org/x/sys/unix"

func flushView(data []byte) error { return unix.Msync(data, unix.MS_SYNC) }
