package mmap

import "golang.org/x/sys/windows"

func flushView(data []byte) error { return windows.FlushViewOfFile(address(data), uintptr(len(data))) }
