// Package segment keeps one growing address space of bytes in files of equal size. A file is named after the absolute
// offset of its first byte, 20 decimal digits, so the directory listing is the only index: the commit log and each
// consume queue are such a list. The package knows nothing of what the bytes mean.
//
// # Rules
//
//   - A file has its full length from the start. Its blocks are allocated in steps, in order, ahead of the writer
//     (Prepare, Ahead), so that a full disk is an error from a call and never a fault in a store.
//   - A file that can be found has its directory entry synced: Create returns after that. (The first file of a list that
//     is Derived has it after the next Sync.)
//   - Open lists files and opens none. The first pin of a file opens and maps it; a Cache, which lists may share, bounds
//     how many are mapped by closing what nobody has pinned.
//   - Nothing is changed on disk by an Open that fails.
//   - Bytes of a file are touched only while it is pinned (Acquire or Pin, then Unpin). A file that left the list is
//     unlinked at once but stays mapped until its last pin is gone, so a reader never waits and never sees the bytes
//     of another file at a stale address.
//   - Every access to a mapping is guarded (Catch): the file may be cut short from outside.
//
// # Concurrency
//
// Snapshot, First, Last, Acquire, the methods of File and the hot path of Ahead may be called by any goroutine at any
// time. Create, CutAfter, RemoveBefore and Close exclude each other with a lock that no reader takes.
//
// # The seam
//
// Each operation on files goes through FS and Handle, so that tests can put a filesystem in its place that fails at
// the n-th call or forgets what was not synced.
package segment
