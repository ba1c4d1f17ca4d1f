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

// TopicHash is what the hashes of a topic's keys begin with, for AppendKeyHashes.
func TopicHash(topic []byte) int32 { return topicHash(topic) }

// AppendKeyHashes appends the hashes under which Put enters a record, one for
// each entry, in their order; topic is the TopicHash of its topic, and m are its
// marks. A record that was rolled back has none.
func AppendKeyHashes(dst []int32, topic int32, v message.View, m *message.Marks) []int32 {
	if v.SysFlag().Transaction() == message.TransactionRollback {
		return dst
	}
	var ks keys // keysOf would copy the marks
	ks.unique, ks.rest = m.UniqueKey, m.Keys
	for key := ks.next(); key != nil; key = ks.next() {
		dst = append(dst, keyHash(topic, key))
	}
	return dst
}
