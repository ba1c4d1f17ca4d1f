package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// File is one file of the log or of a queue.
type File struct {
	Path string `json:"path"`
	// Base is the offset of its first byte in the log, or in the queue's units.
	Base int64 `json:"base"`
	Size int64 `json:"size"` // bytes
}

// End is the offset after the last byte.
func (f File) End() int64 { return f.Base + f.Size }

// nameLength is the number of digits in a file's name.
const nameLength = 20

// Files lists the files of a directory of the log, or of a consume queue, by their
// base; what does not belong there is left out. A missing directory is empty.
func Files(dir string) ([]File, error) {
	files, _, err := list(dir)
	return files, err
}

// list returns the files of a directory by their base, and the paths of what
// does not belong there. A missing directory is empty.
func list(dir string) (files []File, foreign []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		base, numErr := strconv.ParseUint(e.Name(), 10, 63)
		if len(e.Name()) != nameLength || numErr != nil || !e.Type().IsRegular() {
			foreign = append(foreign, path)
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, nil, err
		}
		files = append(files, File{path, int64(base), info.Size()})
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Base, b.Base) })
	return files, foreign, err
}

// errRetired is met when the owner of the store has removed the oldest files
// since they were listed, among them the one that was wanted.
var errRetired = errors.New("removed by the owner of the store")

// space reads the files of one address space, with one of them open at a time.
type space struct {
	dir   string // where to look whether a file that has gone was the oldest
	files []File
	// retired is where the files begin now, when the oldest were removed since
	// they were listed; 0 otherwise.
	retired int64

	open *os.File
	path string // of the open one
}

// find returns the file that holds the position.
func (s *space) find(pos int64) (File, bool) {
	i, found := slices.BinarySearchFunc(s.files, pos, func(f File, pos int64) int { return cmp.Compare(f.Base, pos) })
	if !found {
		i--
	}
	if i < 0 || pos >= s.files[i].End() {
		return File{}, false
	}
	return s.files[i], true
}

// after returns the first file that begins at or after the position and is not
// empty.
func (s *space) after(pos int64) (File, bool) {
	for _, f := range s.files {
		if f.Base >= pos && f.Size > 0 {
			return f, true
		}
	}
	return File{}, false
}

// end is the position after the last file.
func (s *space) end() int64 {
	if len(s.files) == 0 {
		return 0
	}
	return s.files[len(s.files)-1].End()
}

// read fills b from pos on and returns how many bytes there were: fewer at the
// end of the file that holds pos. The error matches errRetired if that file is
// not wanted any more.
func (s *space) read(b []byte, pos int64) (int, error) {
	f, ok := s.find(pos)
	if !ok {
		return 0, nil
	}
	if s.path != f.Path {
		s.close()
		open, err := os.Open(f.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, s.gone(f, err)
		}
		if err != nil {
			return 0, err
		}
		s.open, s.path = open, f.Path
	}
	n, err := s.open.ReadAt(b[:min(int64(len(b)), f.End()-pos)], pos-f.Base)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("at byte %d: %w", pos-f.Base, err)
	}
	return n, nil
}

// gone looks whether f, which is not there any more, was one of the oldest files.
func (s *space) gone(f File, err error) error {
	files, _, listErr := list(s.dir)
	if listErr != nil {
		return listErr
	}
	begin := s.end()
	if len(files) > 0 {
		begin = files[0].Base
	}
	if begin <= f.Base { // it was taken from among others
		return err
	}
	s.retired = begin
	s.files = slices.DeleteFunc(slices.Clone(s.files), func(f File) bool { return f.Base < begin })
	return fmt.Errorf("%s: %w", f.Path, errRetired)
}

// close closes the file that is open. Closing a file that was only read loses
// nothing, so nobody hears of an error.
func (s *space) close() {
	if s.open != nil {
		_ = s.open.Close()
		s.open, s.path = nil, ""
	}
}

// window reads a space forward, a chunk at a time.
type window struct {
	space
	chunk int
	buf   []byte
	base  int64 // position of buf[0]
}

// from returns bytes from pos on: at least want, unless the file ends before.
// They are valid until the next call.
func (w *window) from(pos int64, want int) ([]byte, error) {
	if at := pos - w.base; at >= 0 && at+int64(want) <= int64(len(w.buf)) {
		return w.buf[at:], nil
	}
	want = max(want, w.chunk)
	w.buf = slices.Grow(w.buf[:0], want)[:want]
	n, err := w.read(w.buf, pos)
	w.buf, w.base = w.buf[:n], pos
	return w.buf, err
}

// forget makes the next call of from read again.
func (w *window) forget() { w.buf = w.buf[:0] }
