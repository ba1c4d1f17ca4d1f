//go:build !linux

package mmap

import (
	"fmt"
	"os"
)

// Datasync returns nil when everything written to f before the call, by system calls and through m, is on stable
// storage. m is the mapping through which f is written, or nil; it must stay mapped during the call, because its
// pages are handed to the file first. File.Sync is F_FULLFSYNC on darwin and FlushFileBuffers on Windows. After an
// error nobody knows which bytes are kept, and a further call proves nothing.
func Datasync(f *os.File, m *Mapping) error {
	if m != nil && !m.gone.Load() {
		if err := flushView(m.data); err != nil {
			return fmt.Errorf("sync the mapping of %s: %w", m.path, err)
		}
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", f.Name(), err)
	}
	return nil
}
