// Package mmap is the thin layer between PocketMQ and the operating system: it maps files, guards accesses to the
// mapping, reserves disk blocks, makes bytes durable, locks files and tells filesystems apart.
//
// It is the only package of the module with build tags. Everything above it is plain Go and sees one behaviour on
// every system; where a system cannot give that behaviour, the doc comment of the function says what is given instead.
//
// Offsets and lengths are bytes. Errors carry the operation and the path and match the sentinels of this package
// (ErrFault, ErrNoSpace, ErrLocked, ErrTooLarge) with errors.Is.
//
// # Faults
//
// A load or store to a mapped page that the filesystem cannot deliver (the file was cut short by somebody else, the
// disk is full under a hole, the medium failed) is a signal, and in Go it ends the process unless the same goroutine
// asked for a panic instead. The guard is one line at the top of a function that touches mapped bytes:
//
//	func (r *reader) copy(dst []byte) (err error) {
//		defer m.Catch(debug.SetPanicOnFault(true), &err)
//		copy(dst, m.Bytes())
//		return nil
//	}
//
// It costs about 20 ns and no allocation. Code of users must not run inside it: their nil pointer is none of our
// business, and Catch hands every panic that is not a fault inside the mapping on, unchanged.
package mmap
