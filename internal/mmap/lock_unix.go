//go:build unix && !linux

package mmap

import "os"

// LockFile takes an exclusive lock on byte 0 of f without waiting, and holds it until f is closed. f must be open for
// writing. Busy is an error that matches ErrLocked.
//
// Without open-file-description locks it takes a record lock, against a Java process, and a flock, against another
// PocketMQ, and remembers f, against a second open in this process. The system drops the record lock when this
// process closes any descriptor of the file, so after a second open was refused only the other two hold.
func LockFile(f *os.File) error { return recordLock(f) }
