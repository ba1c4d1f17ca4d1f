//go:build !linux

package bench

import "os"

// datasync is the nearest that the standard library offers.
func datasync(f *os.File) error { return f.Sync() }
