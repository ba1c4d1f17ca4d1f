package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/pocketmq/pocketmq/internal/barekeys"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// A file of ours, in pocketmq/, is one line with the xxhash64 of all that
// follows, as 16 hex digits, and then JSON. It is replaced atomically.

// readOwn decodes the file; fs.ErrNotExist when there is none, an error
// matching message.ErrCorrupt when it is damaged.
func readOwn(fsys segment.FS, dir, name string, v interface{ read(o *fields) }) error {
	path := filepath.Join(dir, ownDir, name)
	b, err := segment.ReadFile(fsys, path)
	if err != nil {
		return err
	}
	sum, text, ok := bytes.Cut(b, []byte("\n"))
	if !ok || string(sum) != checksum(text) {
		return &message.CorruptionError{File: path, Err: errors.New("checksum does not match")}
	}
	all, err := barekeys.Parse(text)
	if err == nil {
		o := fields{of: all, err: &err}
		v.read(&o)
	}
	if err != nil {
		return &message.CorruptionError{File: path, Err: err}
	}
	return nil
}

// writeOwn replaces the file; it is durable on return.
func writeOwn(fsys segment.FS, dir, name string, v any, mode fs.FileMode) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return segment.WriteFileAtomic(fsys, filepath.Join(dir, ownDir, name), append([]byte(checksum(text)+"\n"), text...), mode, false)
}

func checksum(b []byte) string { return fmt.Sprintf("%016x", xxhash.Sum64(b)) }
