// Package crashfs is a file system for tests that knows what a loss of power may
// leave of it, and that fails where it is told to.
//
// An FS works on a real directory: files are real, and really mapped, so the
// code under test is the code that ships. Beside it the FS keeps what is known
// to be on disk. A Snapshot takes both at one moment, and writes any number of
// directories, images, that a disk might hold if the power had failed then.
//
// # What may be lost, and what keeps it
//
//	what                                     in an image                    kept by
//	bytes stored through a mapping, WriteAt  per page of 4096 bytes: the    Sync of the file, by any handle
//	                                         old ones, the new ones, or
//	                                         torn at a multiple of 512
//	length of a file (Truncate, WriteAt)     old or new                     Sync of the file
//	blocks (Allocate)                        nothing to see: zeros either way
//	entries (Create, Rename, Remove, Link,   per directory, a number of     SyncDir of that directory
//	Mkdir, MkdirAll)                         the last ones did not happen
//
// Old means: since the last Sync, or SyncDir. The Sync of the Volume does both for
// all there is. Syncing a file does not keep its
// name, and syncing a name does not keep the bytes: an image may have a name
// with a length of 0, or no name for bytes that were synced. A file that was
// removed may come back with all it had. Links of one file share its bytes.
//
// Directory operations are lost from the end: what a journaling file system
// does. A Sync that fails loses what it was about to write: as on Linux, those
// pages count as written, later Syncs leave them alone, and only writing them
// again makes them be written (a store through a mapping is noticed only if it
// changes a byte).
//
// No Sync costs I/O. The real directory is what the process that
// lost power had seen; after a kill without loss of power it is the image.
package crashfs
