package mmap

import "os"

// Volume is a filesystem that is synced as a whole.
type Volume struct {
	root *os.File // a directory of it, open since OpenVolume: it remembers which failures were reported
	id   FileID
}

// Holds reports whether the file lies on the volume.
func (v *Volume) Holds(file FileID) bool { return file != FileID{} && file.device == v.id.device }

// Close gives the descriptor back.
func (v *Volume) Close() error { return v.root.Close() }
