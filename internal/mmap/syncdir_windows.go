package mmap

// SyncDir does nothing: Windows has no call for it, NTFS keeps its directories in a journal.
func SyncDir(path string) error { return nil }
