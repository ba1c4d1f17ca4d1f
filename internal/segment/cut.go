package segment

import (
	"bytes"
	"fmt"
)

// CutAfter ends the address space at the absolute offset off: files that start at or after off are removed, newest
// first, and every byte from off to the end of the file that holds it becomes zero and is synced, so that nothing
// behind the cut can come back. With keepEmpty a file that starts exactly at off stays, all zero.
//
// zeroed is the distance from off to the end of the last byte that was not zero, in the file that stays; 0 if there
// was none. removed are the paths of the removed files. Only pages that hold something are written, so holes stay
// holes. It is for recovery: nobody may write meanwhile, and no Ahead may run. After an error the steps done so far
// stay done; calling it again goes on.
func (s *Files) CutAfter(off int64, keepEmpty bool) (zeroed int64, removed []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, nil, fmt.Errorf("cut segments: %w", ErrClosed)
	}
	from := off
	if keepEmpty {
		from++
	}
	removed, err = s.removeFrom(from, func(*File) bool { return true })
	if err != nil {
		return 0, removed, fmt.Errorf("cut segments: %w", err)
	}
	if err := s.syncDir(); err != nil {
		return 0, removed, fmt.Errorf("cut segments: %w", err)
	}
	f := s.Acquire(off)
	if f == nil {
		return 0, removed, nil
	}
	defer f.Unpin()
	if zeroed, err = f.zeroFrom(off - f.base); err != nil {
		return zeroed, removed, fmt.Errorf("cut segments: %w", err)
	}
	return zeroed, removed, nil
}

// cutChunk is how many bytes are read at a time, cutPage the granularity of writing.
const (
	cutChunk = 256 << 10
	cutPage  = 4 << 10
)

// zeroFrom makes every byte from off to the end of the file zero, durably, and returns the distance from off to the
// end of the last byte that was not. It uses system calls, not the mapping: the tail may be cold, and a fault would
// stop every goroutine at the next garbage collection. It syncs even if all was zero, because the zeros may be those
// of an earlier cut that never reached the disk.
func (f *File) zeroFrom(off int64) (zeroed int64, err error) {
	buf, zeros := make([]byte, min(cutChunk, f.list.size)), make([]byte, cutPage)
	for at := off; at < f.list.size; {
		chunk := buf[:min(cutChunk-at%cutChunk, f.list.size-at)]
		if n, err := f.handle.ReadAt(chunk, at); n < len(chunk) {
			return zeroed, fmt.Errorf("read %s at %d: %w", f.Path(), at+int64(n), unexpected(err))
		}
		last, err := f.zeroPages(chunk, at, zeros)
		if last > 0 {
			zeroed = at + last - off
		}
		if err != nil {
			return zeroed, err
		}
		at += int64(len(chunk))
	}
	return zeroed, f.handle.Sync()
}

// zeroPages overwrites the pages of chunk, which was read at at, that hold something, and returns the end of the last
// byte in it that was not zero.
func (f *File) zeroPages(chunk []byte, at int64, zeros []byte) (last int64, err error) {
	for from := 0; from < len(chunk); {
		to := min(from+cutPage-int((at+int64(from))%cutPage), len(chunk))
		if page := chunk[from:to]; !bytes.Equal(page, zeros[:len(page)]) {
			last = int64(from + lastNonZero(page))
			if _, err := f.handle.WriteAt(zeros[:to-from], at+int64(from)); err != nil {
				return last, fmt.Errorf("zero %s at %d: %w", f.Path(), at+int64(from), err)
			}
		}
		from = to
	}
	return last, nil
}

// lastNonZero returns the index after the last byte that is not zero, 0 if there is none.
func lastNonZero(b []byte) int {
	for i := len(b); i > 0; i-- {
		if b[i-1] != 0 {
			return i
		}
	}
	return 0
}
