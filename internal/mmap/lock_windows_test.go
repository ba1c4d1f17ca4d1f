package mmap

import "os"

// javaLock is the lock of the Java runtime, which is the same call as ours on Windows.
func javaLock(f *os.File) error { return LockFile(f) }
