package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/pocketmq/pocketmq/message"
)

// pocketmq/timers is what waits in the timer topic, as of one moment: it spares
// Open to read the records again. Log and topic tell the same. All integers are
// big-endian; 16 bytes of the store, with a checksum, come before.
//
//	 0   8  "PMQTIMER"
//	 8   4  version, 1
//	12   4  0
//	16   8  next: records of the topic before this queue offset are counted
//	24   8  last: log offset of the one before next, −1 if there is none
//	32   8  mark: what was delivered before this log offset is counted
//	40   8  n
//	48 24n  what waits, by rising queue offset:
//	          0 8  queue offset, below next
//	          8 8  when it is due, in ms since the Unix epoch
//	         16 8  xxhash64 of its id
const (
	timerFile        = "timers"
	timerMagic       = "PMQTIMER"
	timerFileVersion = 1
	timerFileHeader  = 48
	timerFileEntry   = 24
)

// timerState is what the file says.
type timerState struct {
	index timerIndex
	next  message.QueueOffset
	last  message.LogOffset
	mark  message.LogOffset
}

// encode makes the file's content.
func (s *timerState) encode() []byte {
	b := make([]byte, 0, timerFileHeader+timerFileEntry*s.index.len())
	b = append(b, timerMagic...)
	b = binary.BigEndian.AppendUint32(b, timerFileVersion)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(s.next))
	b = binary.BigEndian.AppendUint64(b, uint64(s.last))
	b = binary.BigEndian.AppendUint64(b, uint64(s.mark))
	b = binary.BigEndian.AppendUint64(b, uint64(s.index.len()))
	for _, chunk := range s.index.byOffset.chunks {
		for _, t := range chunk {
			b = binary.BigEndian.AppendUint64(b, uint64(t.offset))
			b = binary.BigEndian.AppendUint64(b, uint64(t.due))
			b = binary.BigEndian.AppendUint64(b, t.key)
		}
	}
	return b
}

// decodeTimers reads it. An error says what is wrong, and at which byte.
func decodeTimers(b []byte) (s timerState, err error) {
	if len(b) < timerFileHeader || string(b[:8]) != timerMagic {
		return s, errors.New("does not begin as a file of timers")
	}
	if v := binary.BigEndian.Uint32(b[8:]); v != timerFileVersion {
		return s, fmt.Errorf("version %d, this program reads %d", v, timerFileVersion)
	}
	i64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	s = timerState{newTimerIndex(), message.QueueOffset(i64(16)), message.LogOffset(i64(24)), message.LogOffset(i64(32))}
	entries := b[timerFileHeader:]
	if n := i64(40); n < 0 || n != int64(len(entries)/timerFileEntry) || len(entries)%timerFileEntry != 0 {
		return s, fmt.Errorf("%d timers in %d bytes", n, len(entries))
	}
	if s.next < 0 || s.last < -1 || s.mark < 0 {
		return s, fmt.Errorf("next %d, last %d, mark %d", s.next, s.last, s.mark)
	}
	before := message.QueueOffset(-1)
	for at := timerFileHeader; at < len(b); at += timerFileEntry {
		t := timer{message.QueueOffset(i64(at)), i64(at + 8), uint64(i64(at + 16))}
		if t.offset <= before || t.offset >= s.next {
			return s, errors.New("queue offset " + strconv.FormatInt(int64(t.offset), 10) + " at byte " + strconv.Itoa(at) + " is not in order")
		}
		before = t.offset
		s.index.add(t)
	}
	return s, nil
}
