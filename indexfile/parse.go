package indexfile

import "github.com/pocketmq/pocketmq/message"

// What tools need that read the files on their own. Positions in a file follow
// from FileSize: slot s lies at HeaderSize + SlotSize·s, entry e at
// FileSize(slots, e).

// Sizes in bytes of the parts of a file.
const (
	HeaderSize = headerSize
	SlotSize   = slotSize
	EntrySize  = entrySize
)

// ParseHeader reads the header in the first HeaderSize bytes of b. It may make no
// sense.
func ParseHeader(b []byte) Header { return headerAt(b) }

// Entry is one key of one record.
type Entry struct {
	Hash      int32             // of the key: see KeyHash
	LogOffset message.LogOffset // of the record
	Seconds   int32             // its store time, from the header's BeginTimestamp
	Prev      int32             // number of the entry before it in its slot, 0 for none
}

// ParseEntry reads the entry in the first EntrySize bytes of b.
func ParseEntry(b []byte) Entry {
	e := entryAt(b)
	return Entry{Hash: e.hash, LogOffset: e.offset, Seconds: e.diff, Prev: e.prev}
}

// AppendKeyHashes appends the hashes under which Put enters a record, one for
// each entry, in their order. A record that was rolled back has none.
func AppendKeyHashes(dst []int32, v message.View) []int32 {
	if v.SysFlag().Transaction() == message.TransactionRollback {
		return dst
	}
	var buf [256]byte // a longer text is moved to the heap
	text := append(append(buf[:0], v.Topic()...), keySeparator)
	prefix := len(text)
	for k, key := keysOf(v), []byte(nil); ; {
		if key = k.next(); key == nil {
			return dst
		}
		text = append(text[:prefix], key...)
		dst = append(dst, textHash(text))
	}
}
