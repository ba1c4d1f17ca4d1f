package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// EntryKind says what an Entry is.
type EntryKind string

// The kinds of entries. Which fields each has is told beside; they come in this
// order, and those in brackets are left out where they mean nothing.
const (
	EntryFile       EntryKind = "file"        // is, size: begins every file; the entries that follow are in it
	EntryRecord     EntryKind = "record"      // logOffset, size, topic, queueId, queueOffset, storeTime, bornTime, bornHost, storeHost, sysFlag, flag, reconsumeTimes, preparedOffset, bodyCrc, bodySize, properties, body, [filler], [damage]
	EntryBlank      EntryKind = "blank"       // logOffset, left: the rest of the log file is not used
	EntryDamage     EntryKind = "damage"      // size, why: bytes that can not be read
	EntryUnused     EntryKind = "unused"      // size: zeros
	EntryUnit       EntryKind = "unit"        // queueOffset, logOffset, size, tagsCode
	EntryBlanks     EntryKind = "blanks"      // queueOffset, count: units of messages that are not there
	EntryExtUnit    EntryKind = "ext-unit"    // size, tagsCode, storeTime, bitmap
	EntryHeader     EntryKind = "index-head"  // beginTime, endTime, beginLogOffset, endLogOffset, usedSlots, nextEntry
	EntrySlots      EntryKind = "index-slots" // slots, used, places: for entries, of which the first is never used
	EntryIndex      EntryKind = "index-entry" // entry, slot, hash, logOffset, storeTime, previous
	EntryCheckpoint EntryKind = "checkpoint"  // log, queues, index: store times
	EntryText       EntryKind = "text"        // text: what is in abort, lock and owner
	EntryQueue      EntryKind = "queue"       // topic, queueId, first, max: of a ledger in pocketmq/, where the last one of a queue counts
	EntryTimers     EntryKind = "timers"      // generation, next, last, mark, count: begins pocketmq/timers; broker/timerfile.go says what they are
	EntryTimer      EntryKind = "timer"       // queueOffset, due, idHash: a message that waits in rmq_sys_wheel_timer
	EntryJSON       EntryKind = "json"        // [checksum], text: a file of config/ or pocketmq/
)

// Entry is one thing in a file of a store, as Dump finds it.
type Entry struct {
	File   string
	Offset int64 // bytes from the start of the file
	Kind   EntryKind
	Fields []Field
}

// Field is one value of an Entry: a string, []byte, int64, bool, time.Time or
// json.RawMessage.
type Field struct {
	Name  string
	Value any
}

// shownBytes is how many bytes of a body the text of an entry shows.
const shownBytes = 64

// String is the entry on one line: kind, byte offset, name=value for each field. A
// text that is passed through follows on lines of its own.
func (e Entry) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s @%d", e.Kind, e.Offset)
	if e.Kind == EntryFile {
		b.WriteString(" " + word(e.File))
	}
	through := ""
	for _, f := range e.Fields {
		if f.Name == "text" {
			through = "\n" + strings.TrimSuffix(fmt.Sprintf("%s", f.Value), "\n")
			continue
		}
		b.WriteString(" " + f.Name + "=" + f.text())
	}
	return b.String() + through
}

func (f Field) text() string {
	switch v := f.Value.(type) {
	case string:
		return word(v)
	case []byte:
		if f.Name == "body" && len(v) > shownBytes {
			return strconv.Quote(string(v[:shownBytes])) + "…"
		}
		return strconv.Quote(string(v))
	case time.Time:
		return timeText(v)
	}
	return fmt.Sprint(f.Value)
}

func timeText(t time.Time) string {
	if t.UnixMilli() == 0 {
		return "0"
	}
	if year := t.UTC().Year(); year < 1970 || year > 9999 {
		return strconv.FormatInt(t.UnixMilli(), 10) // ms, of damaged bytes
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// word is text as one word.
func word(text string) string {
	plain := text != "" && utf8.ValidString(text)
	for _, r := range text {
		plain = plain && r != ' ' && r != '"' && r != '=' && unicode.IsPrint(r)
	}
	if plain {
		return text
	}
	return strconv.Quote(text)
}

// MarshalJSON writes the entry as one object: kind, file, offset, and its fields.
// Bytes are a string where they are UTF-8, else base64 under the name with Base64
// behind it; times are strings as in the text.
func (e Entry) MarshalJSON() ([]byte, error) {
	fields := append([]Field{{"kind", string(e.Kind)}, {"file", e.File}, {"offset", e.Offset}}, e.Fields...)
	b := []byte{'{'}
	for i, f := range fields {
		name, value := f.Name, f.Value
		switch v := value.(type) {
		case []byte:
			if utf8.Valid(v) {
				value = string(v)
			} else {
				name += "Base64"
			}
		case time.Time:
			value = timeText(v)
		}
		var text bytes.Buffer
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(value); err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, name), ':')
		b = append(b, bytes.TrimSpace(text.Bytes())...)
	}
	return append(b, '}'), nil
}
