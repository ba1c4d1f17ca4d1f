package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// configDir holds the JSON files of RocketMQ's broker. The store keeps them
// safe; what is in them is the broker's business.
const configDir = "config"

// ReadConfig returns config/name, or config/name.bak when the first is missing,
// empty, or refused by valid. The error matches fs.ErrNotExist when there is
// neither, and message.ErrCorrupt when there are files but none is valid:
// nothing was changed, and nothing should be written over them unseen.
func (s *DefaultMessageStore) ReadConfig(name string, valid func([]byte) error) ([]byte, error) {
	path := filepath.Join(s.dir, configDir, name)
	var errs []error
	missing := 0
	for _, p := range []string{path, path + ".bak"} {
		b, err := segment.ReadFile(s.cfg.fs, p)
		if errors.Is(err, fs.ErrNotExist) {
			missing++
			continue
		}
		if err == nil && len(b) == 0 {
			err = errors.New("is empty")
		}
		if err == nil {
			err = valid(b)
		}
		if err == nil {
			return b, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", p, err))
	}
	if missing == 2 {
		return nil, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	}
	return nil, &message.CorruptionError{File: path, Err: errors.Join(errs...)}
}

// WriteConfig replaces config/name; the version before stays as name.bak. It is
// durable on return, and at every moment one of the two is whole.
func (s *DefaultMessageStore) WriteConfig(name string, data []byte) error {
	s.configMu.Lock()
	defer s.configMu.Unlock()
	dir := filepath.Join(s.dir, configDir)
	if err := s.cfg.fs.MkdirAll(dir, s.cfg.DirMode); err != nil {
		return typed(err)
	}
	return typed(segment.WriteFileAtomic(s.cfg.fs, filepath.Join(dir, name), data, s.cfg.FileMode, true))
}
