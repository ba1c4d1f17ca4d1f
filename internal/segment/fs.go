package segment

import (
	"io"
	"os"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

// FS is the one seam between the store and the operating system: everything that reads or changes a directory.
// Implementations are safe for concurrent use. Errors match fs.ErrNotExist and fs.ErrExist where these apply, and
// ErrNoSpace for a full disk.
type FS interface {
	// MkdirAll makes dir and the parents it lacks, and syncs each directory that gained an entry.
	MkdirAll(dir string, perm os.FileMode) error

	// Mkdir makes one directory, whose parent exists; an error matches fs.ErrExist if there is something of that name. Not
	// durable before SyncDir of the parent.
	Mkdir(dir string, perm os.FileMode) error

	// Create makes a file that must not exist, for reading and writing. Its entry is not durable before SyncDir.
	Create(path string, perm os.FileMode) (Handle, error)

	// CreateSized is Create of a file with a length, which reads as zeros and has no blocks. Where the system can do
	// that, the name appears together with the length: RocketMQ opens no store with a file that has none.
	CreateSized(path string, perm os.FileMode, size int64) (Handle, error)

	// Open opens an existing regular file for reading and writing. It never follows a symbolic link.
	Open(path string) (Handle, error)

	// OpenRead is Open for reading only.
	OpenRead(path string) (Handle, error)

	// Remove removes a file or an empty directory. Not durable before SyncDir.
	Remove(path string) error

	// Rename moves a file, replacing one at to, in one step. Not durable before SyncDir.
	Rename(from, to string) error

	// Link gives a file a second name, which must not exist. Filesystems without links answer an error.
	Link(from, to string) error

	// ReadDir lists dir, sorted by name.
	ReadDir(dir string) ([]os.DirEntry, error)

	// Lstat describes path itself, not what a link points to.
	Lstat(path string) (os.FileInfo, error)

	// SyncDir makes the entries of dir durable.
	SyncDir(dir string) error

	// OpenVolume opens the filesystem that holds dir, to sync all of it by one call. The error matches
	// errors.ErrUnsupported where that is not as good as the syncs of single files.
	OpenVolume(dir string) (Volume, error)
}

// Volume is a filesystem that can be synced as a whole. Its methods may be used concurrently, except Close, which must
// come last.
type Volume interface {
	// Sync returns nil when everything written to the filesystem before is durable, also through handles that are
	// closed, with the entries of all directories. An error says that something that was written since OpenVolume is
	// not, or somebody else's is not; after it another call proves nothing.
	Sync() error

	// Holds reports whether the file lies on the filesystem.
	Holds(file mmap.FileID) bool

	Close() error
}

// Handle is an open file. Its methods may be used concurrently, except Close, which must come last.
type Handle interface {
	io.ReaderAt
	io.WriterAt

	// Size returns the length in bytes.
	Size() (int64, error)

	// ID tells the file from others; the zero value means that the system does not say.
	ID() (mmap.FileID, error)

	// DataEnd returns a position from which on the file, which is size bytes long, is known to read as zeros: the end
	// of its last range that is no hole.
	DataEnd(size int64) (int64, error)

	// Truncate sets the length. What is added reads as zeros and has no blocks.
	Truncate(size int64) error

	// Allocate gives the n bytes at off blocks and keeps what they hold. On a full disk the error matches ErrNoSpace
	// and the length is unchanged. Nobody may write into the range at the same time.
	Allocate(off, n int64) error

	// Map maps the first length bytes, for reading only if the handle is. One mapping at a time. It must be unmapped
	// before Close.
	Map(length int64) (Mapping, error)

	// Sync returns nil when everything written before, by WriteAt and through the mapping, is durable (fdatasync;
	// F_FULLFSYNC on darwin). After an error nobody knows what is kept, and another call proves nothing.
	Sync() error

	// Lock takes the exclusive lock of the file without waiting, until Close. Busy matches ErrLocked.
	Lock() error

	// StillAt tells whether path leads to this very file; false if there is no file or another one.
	StillAt(path string) (bool, error)

	Close() error
}

// Mapping is mapped memory of one file; *mmap.Mapping is the real one.
type Mapping interface {
	// Bytes returns the mapped bytes, which are valid until Unmap.
	Bytes() []byte

	// Populate makes the pages of a range present and writable, inside a system call; it may do nothing.
	Populate(off, n int64) error

	// Drop takes the pages of a range out of the page tables, which makes the next sync cheaper; it may do nothing.
	// The bytes stay, and are mapped again by the next access.
	Drop(off, n int64) error

	// Resident reports whether a range is known to be in memory.
	Resident(off, n int64) bool

	// Caught returns the error, matching ErrFault, for a recovered fault inside this mapping, and panics with the
	// value otherwise.
	Caught(recovered any) error

	// Unmap ends the mapping; idempotent.
	Unmap() error
}
