package mmap

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Datasync returns nil when everything written to f before the call, by system calls and through mappings, is on
// stable storage, together with the metadata needed to read it. m is the mapping through which f is written, or nil;
// Linux does not need it. After an error nobody knows which bytes are kept, and a further call proves nothing.
func Datasync(f *os.File, m *Mapping) error {
	if err := control(f, unix.Fdatasync); err != nil {
		return fmt.Errorf("sync %s: %w", f.Name(), err)
	}
	return nil
}
