package store

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// The ledger is a part of the recovery point that may be large: how many messages
// each queue has had. It lies in a file of its own, to which each point adds
// entries for the queues that changed since the one before; the last entry of a
// queue counts. The point says how much of the file belongs to it, and what its
// checksum is. When half of it is out of date it is written anew, under the other
// of two names, so that the old one stays whole until the new point is on disk.
//
// Entry layout, big-endian:
//
//	offset size field  meaning
//	     0    2 length of the topic, n
//	     2    n topic
//	   2+n    4 queue id
//	   6+n    8 first  number of the first message whose unit has a file
//	  14+n    8 max    number of the message after the last before the point
const (
	ledgerEntrySize = 2 + 4 + 8 + 8 // without the topic
	ledgerSlack     = 64 << 10      // bytes out of date that do not matter
)

var ledgerFiles = [2]string{"queues.0", "queues.1"}

// ledgerMark is how a point names its ledger.
type ledgerMark struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	Sum   uint64 `json:"sum"` // xxhash64 of them
}

type ledgerEntry struct {
	topic      string
	id         int32
	first, max message.QueueOffset
}

func (e ledgerEntry) size() int64 { return int64(ledgerEntrySize + len(e.topic)) }

func (e ledgerEntry) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(e.topic)))
	b = append(b, e.topic...)
	b = binary.BigEndian.AppendUint32(b, uint32(e.id))
	b = binary.BigEndian.AppendUint64(b, uint64(e.first))
	return binary.BigEndian.AppendUint64(b, uint64(e.max))
}

// ledger is what the last point that was written covers; the zero value is that
// of no point. Its methods return the next one, which counts once the point that
// names it is on disk.
type ledger struct {
	file string
	size int64
	live int64 // bytes of the entries that count
	sum  xxhash.Digest
}

func (l *ledger) mark() ledgerMark {
	if l.file == "" {
		return ledgerMark{}
	}
	return ledgerMark{l.file, l.size, l.sum.Sum64()}
}

// outgrown reports whether the ledger, with so many bytes more, should be written
// anew.
func (l *ledger) outgrown(more int64) bool {
	return l.file == "" || l.size+more > 2*l.live+ledgerSlack
}

// add appends entries, durably; added is how many bytes of them are of queues that
// have none yet.
func (l ledger) add(fsys segment.FS, dir string, entries []ledgerEntry, added int64) (ledger, error) {
	b := encodeEntries(entries)
	if len(b) == 0 {
		return l, nil
	}
	h, err := fsys.Open(filepath.Join(dir, ownDir, l.file))
	if err != nil {
		return l, err
	}
	_, err = h.WriteAt(b, l.size)
	if err == nil {
		err = h.Sync()
	}
	if err := errors.Join(err, h.Close()); err != nil {
		return l, err
	}
	_, _ = l.sum.Write(b) // never fails
	l.size += int64(len(b))
	l.live += added
	return l, nil
}

// rewrite makes a ledger of nothing but entries, one for each queue, durably.
func (l ledger) rewrite(fsys segment.FS, dir string, entries []ledgerEntry, mode fs.FileMode) (ledger, error) {
	b := encodeEntries(entries)
	next := ledger{file: ledgerFiles[0], size: int64(len(b)), live: int64(len(b))}
	if l.file == next.file {
		next.file = ledgerFiles[1]
	}
	next.sum.Reset()
	_, _ = next.sum.Write(b)
	return next, segment.WriteFileAtomic(fsys, filepath.Join(dir, ownDir, next.file), b, mode, false)
}

func encodeEntries(entries []ledgerEntry) []byte {
	var b []byte
	for _, e := range entries {
		b = e.append(b)
	}
	return b
}

var errLedger = errors.New("ledger does not match the recovery point")

// readLedger returns the ledger that a point names, and its entries in order.
func readLedger(fsys segment.FS, dir string, m ledgerMark) (ledger, []ledgerEntry, error) {
	l := ledger{file: m.File, size: m.Bytes}
	if m.File != ledgerFiles[0] && m.File != ledgerFiles[1] {
		return l, nil, errLedger
	}
	b, err := segment.ReadFile(fsys, filepath.Join(dir, ownDir, m.File))
	if err != nil {
		return l, nil, err
	}
	if m.Bytes < 0 || m.Bytes > int64(len(b)) { // more than that is from a point that was not completed
		return l, nil, errLedger
	}
	b = b[:m.Bytes]
	l.sum.Reset()
	_, _ = l.sum.Write(b)
	if l.sum.Sum64() != m.Sum {
		return l, nil, errLedger
	}
	var entries []ledgerEntry
	for len(b) > 0 {
		n := 0
		if len(b) >= 2 {
			n = int(binary.BigEndian.Uint16(b))
		}
		if len(b) < ledgerEntrySize+n {
			return l, nil, errLedger
		}
		e := ledgerEntry{topic: string(b[2 : 2+n])}
		b = b[2+n:]
		e.id = int32(binary.BigEndian.Uint32(b))
		e.first = message.QueueOffset(binary.BigEndian.Uint64(b[4:]))
		e.max = message.QueueOffset(binary.BigEndian.Uint64(b[12:]))
		b = b[20:]
		entries = append(entries, e)
	}
	return l, entries, nil
}
