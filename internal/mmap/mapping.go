package mmap

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	mmapgo "github.com/edsrzf/mmap-go"
)

// MaxLength32 is the longest mapping, in bytes, that a 32-bit process is given. Its whole address space is 2 to 4 GiB
// and several files have to be mapped at a time, so a larger one would fail at some later, worse moment.
const MaxLength32 = 256 << 20

// ErrTooLarge is matched by the error for a mapping longer than this process can afford.
var ErrTooLarge = errors.New("mapping too large for this process")

// TooLargeError reports a mapping longer than a 32-bit process may have. It matches ErrTooLarge.
type TooLargeError struct {
	Path   string
	Length int64 // bytes asked for
	Max    int64 // bytes allowed
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("map %s: %d bytes are more than the %d a 32-bit process may map", e.Path, e.Length, e.Max)
}

func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }

// A Mapping is the first bytes of a file, shared with the page cache. Its owner decides when it ends: after Unmap the
// addresses belong to somebody else, so whoever unmaps must know that no slice of Bytes is in use any more.
type Mapping struct {
	data mmapgo.MMap
	base uintptr // address of data[0]; kept apart so that a fault can be attributed without touching data
	span uintptr // bytes from base, whole pages
	path string
	gone atomic.Bool
}

// live counts the mappings that exist, for tests that look for leaks.
var live atomic.Int64

// Live returns the number of mappings of this process that have not been unmapped.
func Live() int64 { return live.Load() }

// Map maps the first length bytes of f, shared, for reading and writing. f must be open for both and at least that
// long: bytes past its end fault. The mapping does not need f any more on Unix; on Windows f must stay open until Unmap.
func Map(f *os.File, length int64) (*Mapping, error) { return mapFile(f, length, mmapgo.RDWR) }

// MapReadOnly maps the first length bytes of f for reading. A store faults.
func MapReadOnly(f *os.File, length int64) (*Mapping, error) {
	return mapFile(f, length, mmapgo.RDONLY)
}

func mapFile(f *os.File, length int64, prot int) (*Mapping, error) {
	if err := checkLength(f.Name(), length, strconv.IntSize); err != nil {
		return nil, err
	}
	data, err := mmapgo.MapRegion(f, int(length), prot, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of %s: %w", length, f.Name(), err)
	}
	live.Add(1)
	page := uintptr(os.Getpagesize())
	return &Mapping{
		data: data,
		base: address(data),
		span: (uintptr(len(data)) + page - 1) / page * page,
		path: f.Name(),
	}, nil
}

func checkLength(path string, length int64, intSize int) error {
	if length <= 0 {
		return fmt.Errorf("map %s: length %d is not positive", path, length)
	}
	if intSize == 32 && length > MaxLength32 {
		return &TooLargeError{Path: path, Length: length, Max: MaxLength32}
	}
	return nil
}

// Bytes returns the mapped bytes; nil after Unmap. Touch them only under Catch, and never after Unmap.
func (m *Mapping) Bytes() []byte { return m.data }

// Unmap ends the mapping. Stores made before stay in the page cache and reach the disk in their time; Unmap does not
// make them durable. A second call does nothing and returns nil.
func (m *Mapping) Unmap() error {
	if m.gone.Swap(true) {
		return nil
	}
	live.Add(-1)
	data := m.data
	m.data = nil
	if quarantined(data) {
		return nil
	}
	if err := data.Unmap(); err != nil {
		return fmt.Errorf("unmap %s: %w", m.path, err)
	}
	return nil
}

// checkRange refuses a range that is not inside the mapping.
func (m *Mapping) checkRange(op string, off, n int64) error {
	if off < 0 || n < 0 || off > int64(len(m.data))-n {
		return fmt.Errorf("%s %s: %d bytes at %d are outside the mapping of %d", op, m.path, n, off, len(m.data))
	}
	return nil
}
