package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"path/filepath"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// primary is what nothing else in the directory tells. It is never guessed: a
// damaged file is an error.
type primary struct {
	// Format is the version of what lies in pocketmq/. A newer one is refused.
	Format int `json:"format"`
	// Generation counts how often the log was found changed by somebody else.
	// Derived files bear it, and are of no use with another one.
	Generation uint64 `json:"generation"`
	// StoreHost is the address that message ids contain, drawn once.
	StoreHost string `json:"storeHost"`
	// Index is how the files of the index are divided; nil before the first.
	Index *indexGeometry `json:"index,omitempty"`
}

type indexGeometry struct {
	Slots   int32 `json:"slots"`
	Entries int32 `json:"entries"`
}

const (
	primaryFile   = "store.json"
	formatVersion = 1

	// syntheticPort is the port of a RocketMQ broker.
	syntheticPort = 10911
)

// FormatError says that a directory was written by a later version. Nothing was
// changed. It matches ErrFormat.
type FormatError struct {
	Path      string
	Got, Most int // versions
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s: %v: version %d, this program reads up to %d", e.Path, ErrFormat, e.Got, e.Most)
}

// Is makes errors.Is(err, ErrFormat) true.
func (e *FormatError) Is(target error) bool { return target == ErrFormat }

// loadPrimary reads the directory's file, making it if there is none.
func (s *DefaultMessageStore) loadPrimary() error {
	err := readOwn(s.cfg.fs, s.dir, primaryFile, &s.primary)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.primary = primary{Format: formatVersion, StoreHost: drawHost().String()}
		err = s.savePrimary()
	case s.primary.Format > formatVersion: // whatever else is in it
		err = &FormatError{Path: filepath.Join(s.dir, ownDir, primaryFile), Got: s.primary.Format, Most: formatVersion}
	}
	if err != nil {
		return err
	}
	if s.host = s.cfg.StoreHost; s.host == (message.Host{}) {
		s.host, err = message.ParseHost(s.primary.StoreHost)
	}
	return err
}

func (s *DefaultMessageStore) savePrimary() error {
	return writeOwn(s.cfg.fs, s.dir, primaryFile, s.primary, s.cfg.FileMode)
}

// changePrimary is savePrimary for what the next Open finds out again, should
// the disk be full: then it can still be opened and read.
func (s *DefaultMessageStore) changePrimary() error {
	err := s.savePrimary()
	if errors.Is(err, segment.ErrNoSpace) {
		return nil
	}
	return err
}

// newGeneration makes all derived files useless: the log is not as we left it.
func (s *DefaultMessageStore) newGeneration() error {
	s.primary.Generation++
	return s.changePrimary()
}

// drawHost draws an address of the loopback network. No network interface is
// looked up.
func drawHost() message.Host {
	n := rand.Uint32()
	return message.Host{Addr: netip.AddrFrom4([4]byte{127, byte(n >> 16), byte(n >> 8), byte(n)}), Port: syntheticPort}
}
