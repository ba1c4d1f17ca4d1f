package segment

import (
	"errors"
	"fmt"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

// Conditions to branch on with errors.Is. The first three are those of package mmap, so that callers need not import it.
var (
	ErrNoSpace = mmap.ErrNoSpace // the disk is full; the state is unchanged and a later attempt may succeed
	ErrLocked  = mmap.ErrLocked  // another process, or another open in this one, has the lock
	ErrFault   = mmap.ErrFault   // a mapped byte could not be read or stored

	ErrForeignFile  = errors.New("not a segment file")
	ErrFileSize     = errors.New("segment file has the wrong size")
	ErrGap          = errors.New("segment files are not consecutive")
	ErrUnknownSize  = errors.New("segment file size neither given nor found")
	ErrMoved        = errors.New("segment file was replaced or removed from outside")
	ErrClosed       = errors.New("segment files are closed")
	ErrBadOffset    = errors.New("offset outside the segment files")
	errNotARegular  = errors.New("not a regular file")
	errNotDirectory = errors.New("not a directory")
)

// ForeignFileError reports an entry that does not belong into a segment directory: a name that is not 20 digits, a
// directory, a symbolic link. It matches ErrForeignFile.
type ForeignFileError struct {
	Path   string
	Reason string
}

func (e *ForeignFileError) Error() string {
	return fmt.Sprintf("%s: %v: %s", e.Path, ErrForeignFile, e.Reason)
}
func (e *ForeignFileError) Is(target error) bool { return target == ErrForeignFile }

// SizeError reports a file whose length in bytes is not that of its list. It matches ErrFileSize.
type SizeError struct {
	Path      string
	Got, Want int64
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%s: %v: %d bytes, expected %d", e.Path, ErrFileSize, e.Got, e.Want)
}
func (e *SizeError) Is(target error) bool { return target == ErrFileSize }

// GapError reports a file whose base offset does not follow from its neighbour, or is no multiple of the file size.
// It matches ErrGap.
type GapError struct {
	Path      string
	Got, Want int64
}

func (e *GapError) Error() string {
	return fmt.Sprintf("%s: %v: starts at %d, expected %d", e.Path, ErrGap, e.Got, e.Want)
}
func (e *GapError) Is(target error) bool { return target == ErrGap }

// MovedError reports that the file at Path is no longer the one this process has open. It matches ErrMoved.
type MovedError struct{ Path string }

func (e *MovedError) Error() string        { return fmt.Sprintf("%s: %v", e.Path, ErrMoved) }
func (e *MovedError) Is(target error) bool { return target == ErrMoved }
