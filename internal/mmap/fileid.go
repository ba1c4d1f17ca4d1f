package mmap

// FileID tells one file from another, as long as the file exists. The zero value means that the system does not say.
type FileID struct{ device, inode uint64 }

// Differs reports whether a and b are known to be two files.
func (a FileID) Differs(b FileID) bool { return a != b && a != FileID{} && b != FileID{} }
