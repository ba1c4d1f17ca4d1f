package segment

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/pocketmq/pocketmq/internal/mmap"
)

// nameLength is the number of digits in a file name.
const nameLength = 20

// FileName returns the name of the file that starts at the absolute offset base.
func FileName(base int64) string { return fmt.Sprintf("%0*d", nameLength, base) }

// parseName is the inverse of FileName.
func parseName(dir, name string) (int64, error) {
	foreign := &ForeignFileError{Path: filepath.Join(dir, name), Reason: "the name is not 20 digits"}
	if len(name) != nameLength {
		return 0, foreign
	}
	for _, c := range []byte(name) {
		if c < '0' || c > '9' {
			return 0, foreign
		}
	}
	base, err := strconv.ParseInt(name, 10, 64)
	if err != nil {
		return 0, foreign
	}
	return base, nil
}

// entry is a file found in the directory.
type entry struct {
	path string
	base int64
	size int64
	id   mmap.FileID
}

// fileSize returns the size every entry must have: want, or that of the first one.
func fileSize(dir string, want int64, found []entry) (int64, error) {
	switch {
	case want < 0:
		return 0, fmt.Errorf("%s: file size %d is negative", dir, want)
	case want > 0:
		return want, nil
	case len(found) == 0 || found[0].size == 0:
		return 0, fmt.Errorf("%s: %w", dir, ErrUnknownSize)
	}
	return found[0].size, nil
}

// checkEntries checks sizes and bases. A last file of zero length is accepted here: a crash between making a file and
// giving it its length leaves one.
func checkEntries(found []entry, size int64) error {
	for i, e := range found {
		last := i == len(found)-1
		if e.size != size && !(last && e.size == 0) {
			return &SizeError{Path: e.path, Got: e.size, Want: size}
		}
		want := e.base - e.base%size
		if i > 0 {
			want = found[i-1].base + size
		}
		if e.base != want {
			return &GapError{Path: e.path, Got: e.base, Want: want}
		}
	}
	return nil
}
