package inspect

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/pocketmq/pocketmq/message"
)

// Files of pocketmq/ that hold more than text. docs/format.md says what they are
// for.
const (
	primaryFile  = "store.json"
	recoveryFile = "recovery.json"

	formatVersion = 1 // the newest that is known
)

var ledgerFiles = []string{"queues.0", "queues.1"}

// primary is store.json.
type primary struct {
	Format     int    `json:"format"`
	Generation uint64 `json:"generation"`
	StoreHost  string `json:"storeHost"`
	Index      *struct {
		Slots   int32 `json:"slots"`
		Entries int32 `json:"entries"`
	} `json:"index"`
}

// check returns nil for what an Open takes. Of a later version it is not known
// what the rest means.
func (p primary) check() error {
	if p.Format > formatVersion {
		return nil
	}
	if _, err := message.ParseHost(p.StoreHost); err != nil {
		return fmt.Errorf("storeHost: %w", err)
	}
	if g := p.Index; g != nil && (g.Slots < 1 || g.Entries < 2) {
		return fmt.Errorf("index: %d slots and %d entries, at least 1 and 2 are needed", g.Slots, g.Entries)
	}
	return nil
}

// point is recovery.json, as far as it is compared with other files.
type point struct {
	Generation uint64 `json:"generation"`
	LogOffset  int64  `json:"logOffset"`
	Last       struct {
		LogOffset      int64  `json:"logOffset"`
		Size           int64  `json:"size"`
		Hash           uint64 `json:"hash"` // xxhash64
		StoreTimestamp int64  `json:"storeTimestamp"`
	} `json:"last"`
	SegmentSize int64      `json:"segmentSize"`
	Queues      ledgerMark `json:"queues"`
}

type ledgerMark struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	Sum   uint64 `json:"sum"` // xxhash64
}

// ledgerEntry says how many messages a queue had.
type ledgerEntry struct {
	queueKey

	first, max int64
	size       int // of the entry, in bytes
}

// parseLedgerEntry reads the entry at the start of b, false if there is no whole
// one. Its layout is told in store/ledger.go.
func parseLedgerEntry(b []byte) (ledgerEntry, bool) {
	if len(b) < 2 {
		return ledgerEntry{}, false
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	if len(b) < n+20 {
		return ledgerEntry{}, false
	}
	return ledgerEntry{
		queueKey: queueKey{string(b[2:n]), int32(binary.BigEndian.Uint32(b[n:]))},
		first:    int64(binary.BigEndian.Uint64(b[n+4:])),
		max:      int64(binary.BigEndian.Uint64(b[n+12:])),
		size:     n + 20,
	}, true
}

// ownState is what the files in pocketmq/ say together. What is missing or does
// not match its checksum is nil.
type ownState struct {
	primary *primary
	point   *point
	ledger  []byte // what the point names of it
	wrong   string // why the ledger is not what the point names
}

// readOwn reads the state. A process that replaces the files meanwhile leaves a
// point and a ledger that do not belong together: then they are read again.
func readOwn(dir string) (s ownState, err error) {
	for range 3 {
		if s, err = readOwnOnce(dir); err != nil || s.wrong == "" {
			break
		}
	}
	return s, err
}

func readOwnOnce(dir string) (s ownState, err error) {
	own := filepath.Join(dir, ownDir)
	if s.primary, err = decodeOwn[primary](filepath.Join(own, primaryFile)); err != nil {
		return s, err
	}
	if s.point, err = decodeOwn[point](filepath.Join(own, recoveryFile)); err != nil || s.point == nil {
		return s, err
	}
	mark := s.point.Queues
	if mark == (ledgerMark{}) {
		return s, nil
	}
	if !slices.Contains(ledgerFiles, mark.File) {
		s.wrong = fmt.Sprintf("names %q as its ledger", shorten(mark.File))
		return s, nil
	}
	b, err := readFile(filepath.Join(own, mark.File))
	switch {
	case err != nil:
		return s, err
	case b == nil:
		s.wrong = fmt.Sprintf("its ledger %s is missing", mark.File)
	case mark.Bytes < 0 || mark.Bytes > int64(len(b)):
		s.wrong = fmt.Sprintf("names %d bytes of its ledger %s, which has %d", mark.Bytes, mark.File, len(b))
	case xxhash.Sum64(b[:mark.Bytes]) != mark.Sum:
		s.wrong = fmt.Sprintf("names checksum %016x for its ledger %s, that of the %d bytes is %016x",
			mark.Sum, mark.File, mark.Bytes, xxhash.Sum64(b[:mark.Bytes]))
	default:
		s.ledger = b[:mark.Bytes]
	}
	return s, nil
}

// decodeOwn decodes a JSON file of pocketmq/, nil when it is missing or damaged.
func decodeOwn[T any](path string) (*T, error) {
	b, err := readFile(path)
	if b == nil {
		return nil, err
	}
	v := new(T)
	if text, damage := ownText(b); damage != nil || json.Unmarshal(text, v) != nil {
		v = nil
	}
	return v, err
}

// readFile is os.ReadFile, nil without an error for a file that is not there.
func readFile(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil && b == nil {
		b = []byte{}
	}
	return b, err
}
