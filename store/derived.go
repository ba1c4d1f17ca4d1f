package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// A derived file, in pocketmq/, keeps what somebody has made from the log. It is
// replaced atomically.
//
//	 0  8  xxhash64 of what follows
//	 8  8  generation of the log: see primary
//	16     data
const derivedHeader = 16

// ReadDerived returns what WriteDerived has written. The error matches
// fs.ErrNotExist when there is nothing, or the log was changed by somebody else
// since, and message.ErrCorrupt when the file is damaged: either way it is to be
// made again from the log.
func (s *DefaultMessageStore) ReadDerived(name string) ([]byte, error) {
	path := filepath.Join(s.dir, ownDir, name)
	b, err := segment.ReadFile(s.cfg.fs, path)
	if err != nil {
		return nil, typed(err)
	}
	if len(b) < derivedHeader || binary.BigEndian.Uint64(b) != xxhash.Sum64(b[8:]) {
		return nil, &message.CorruptionError{File: path, Err: errors.New("checksum does not match")}
	}
	if g := binary.BigEndian.Uint64(b[8:]); g != s.primary.Generation {
		return nil, fmt.Errorf("%s is of generation %d, the log of %d: %w", path, g, s.primary.Generation, fs.ErrNotExist)
	}
	return b[derivedHeader:], nil
}

// WriteDerived replaces pocketmq/name by data. It is durable on return;
// at every moment there is the old version or the new one. Writers of one name
// exclude each other. What it is derived from must be on disk before: see Flush.
func (s *DefaultMessageStore) WriteDerived(name string, data []byte) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	b := make([]byte, derivedHeader, derivedHeader+len(data))
	binary.BigEndian.PutUint64(b[8:], s.primary.Generation)
	b = append(b, data...)
	binary.BigEndian.PutUint64(b, xxhash.Sum64(b[8:]))
	return typed(segment.WriteFileAtomic(s.cfg.fs, filepath.Join(s.dir, ownDir, name), b, s.cfg.FileMode, false))
}
