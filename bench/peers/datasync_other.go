//go:build !linux

package main

import "os"

// syncData syncs the bytes of a file.
func syncData(f *os.File) error { return f.Sync() }
