package mmap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrNoSpace is matched by errors that come from a full disk, an exhausted quota or a file size limit.
var ErrNoSpace = errors.New("no space left on device")

// noSpaceError adds ErrNoSpace to the system's own error.
type noSpaceError struct{ cause error }

func (e *noSpaceError) Error() string        { return e.cause.Error() }
func (e *noSpaceError) Unwrap() error        { return e.cause }
func (e *noSpaceError) Is(target error) bool { return target == ErrNoSpace }

// NoSpace makes err match ErrNoSpace if it comes from a full disk, an exhausted quota or a file size limit, and
// returns any other error, or nil, as it is.
func NoSpace(err error) error {
	if err == nil || errors.Is(err, ErrNoSpace) || !isNoSpace(err) {
		return err
	}
	return &noSpaceError{cause: err}
}

// Allocate gives the n bytes at off of f real blocks, so that storing them later can not meet a full disk. Data
// already there is kept; the file grows to off+n if it was shorter. f must be open for reading and writing.
//
// Linux asks the filesystem (fallocate); where that is unknown, and on other systems, zeros are written into the
// pages that read as zeros, so nobody may write into the range at the same time. On filesystems that copy on write or
// compress, an allocated block is still no promise. The allocation is durable after the next Datasync.
//
// On a full disk the error matches ErrNoSpace and the file has its old length again. Blocks that were found inside the
// old length stay: taking them back could take data along, and a later attempt uses them.
func Allocate(f *os.File, off, n int64) error {
	if off < 0 || n <= 0 {
		return fmt.Errorf("allocate %s: bad range of %d bytes at %d", f.Name(), n, off)
	}
	before, err := f.Stat()
	if err != nil {
		return fmt.Errorf("allocate: %w", err)
	}
	if err := allocate(f, off, n); err != nil {
		err = fmt.Errorf("allocate %d bytes at %d of %s: %w", n, off, f.Name(), NoSpace(err))
		return errors.Join(err, shrink(f, before.Size()))
	}
	return nil
}

// shrink gives back what a failed allocation added to the file: ext4 keeps what it had found when the disk ran full.
func shrink(f *os.File, size int64) error {
	now, err := f.Stat()
	if err != nil || now.Size() <= size {
		return err
	}
	return f.Truncate(size)
}

const (
	zeroChunk = 64 << 10 // bytes read and written at a time
	zeroPage  = 4 << 10  // granularity in which existing data is told from nothing
)

// fillZeros allocates by writing. A page with a byte that is not zero has its block already and is left alone.
func fillZeros(f *os.File, off, n int64) error {
	have := make([]byte, zeroChunk)
	for end := off + n; off < end; {
		chunk := have[:min(zeroChunk-off%zeroChunk, end-off)]
		got, err := f.ReadAt(chunk, off)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		clear(chunk[got:]) // past the end of the file
		for _, r := range zeroRuns(chunk, off) {
			if _, err := f.WriteAt(zeros[:r.to-r.from], off+int64(r.from)); err != nil {
				return err
			}
		}
		off += int64(len(chunk))
	}
	return nil
}

type run struct{ from, to int }

// zeroRuns returns the runs of whole pages of b that hold only zeros; b starts at offset off of the file, and pages
// are counted from the start of the file.
func zeroRuns(b []byte, off int64) []run {
	var runs []run
	for from := 0; from < len(b); {
		to := min(from+zeroPage-int((off+int64(from))%zeroPage), len(b))
		if allZero(b[from:to]) {
			if last := len(runs) - 1; last >= 0 && runs[last].to == from {
				runs[last].to = to
			} else {
				runs = append(runs, run{from, to})
			}
		}
		from = to
	}
	return runs
}

var zeros [zeroChunk]byte

func allZero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }
