package inspect

import (
	"cmp"
	"fmt"

	"github.com/pocketmq/pocketmq/message"
)

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	Note  Severity = "note"  // unusual, and loses nothing by itself
	Error Severity = "error" // not what was written, or two places disagree
)

// FindingKind says what sort of thing was found: what a program branches on.
type FindingKind string

// The kinds of findings.
const (
	FileForeign FindingKind = "file-foreign" // does not belong in its directory
	FileSize    FindingKind = "file-size"    // not of the size that its neighbours have
	FileMissing FindingKind = "file-missing" // a gap between two files, or an overlap

	LogDamage  FindingKind = "log-damage"  // a range of the log can not be read
	LogBlank   FindingKind = "log-blank"   // the blank that ends a file is wrong about its length
	LogTail    FindingKind = "log-tail"    // something lies behind the end of the log
	RecordBody FindingKind = "record-body" // the body does not match its checksum
	RecordSum  FindingKind = "record-sum"  // the record does not match its property __CRC32#
	RecordTime FindingKind = "record-time" // stored before the record in front of it
	Numbering  FindingKind = "numbering"   // the messages of a queue are not numbered without a gap

	UnitMissing FindingKind = "unit-missing" // messages have no unit in their queue
	UnitWrong   FindingKind = "unit-wrong"   // the unit's record is another one, or none
	UnitZero    FindingKind = "unit-zero"    // zeros among units
	UnitBlank   FindingKind = "unit-blank"   // holds the place of a message that is not there
	UnitLost    FindingKind = "unit-lost"    // points at no file of the log
	UnitDue     FindingKind = "unit-due"     // due at another time than RocketMQ's default delays give

	IndexFile    FindingKind = "index-file"    // header or geometry make no sense
	IndexSlot    FindingKind = "index-slot"    // slots and chains are not those of the entries
	IndexEntry   FindingKind = "index-entry"   // the entry's record does not have its key or time, or there is none
	IndexMissing FindingKind = "index-missing" // keys of messages are not in the index
	IndexUnused  FindingKind = "index-unused"  // what no entry has used is not zero

	CheckpointWrong FindingKind = "checkpoint" // too short, or later than the log
	ConfigWrong     FindingKind = "config"     // a file in config/ does not parse
	OwnFileWrong    FindingKind = "own-file"   // a file in pocketmq/ does not match its checksum, or another file
	FormatNewer     FindingKind = "format"     // what is in pocketmq/ was written by a later version
	LockWrong       FindingKind = "lock"       // lock does not hold what RocketMQ writes
)

// What to run. DIR is the store, and NEW a directory that does not exist.
const (
	runRepair = "pocketmq repair --output NEW DIR"
	runOpen   = "pocketmq topics DIR"
)

// advice is what to run for each kind; the rest is for repair.
var advice = map[FindingKind]string{
	FileForeign:  "mv FILE elsewhere",
	LogTail:      runOpen,
	UnitBlank:    "nothing",
	UnitDue:      "nothing",
	RecordTime:   "nothing",
	IndexFile:    "rm -r DIR/index, while nobody has the store open",
	IndexSlot:    "rm -r DIR/index, while nobody has the store open",
	IndexEntry:   "rm -r DIR/index, while nobody has the store open",
	IndexMissing: "rm -r DIR/index, while nobody has the store open",
	IndexUnused:  "rm -r DIR/index, while nobody has the store open",
	OwnFileWrong: "rm FILE, while nobody has the store open",
	FormatNewer:  "pocketmq of a later version",
	LockWrong:    runOpen,
}

// Finding is one thing that Verify noticed. It is a value.
type Finding struct {
	Severity Severity    `json:"severity"`
	Kind     FindingKind `json:"kind"`
	File     string      `json:"file"`
	Offset   int64       `json:"offset"` // bytes from the start of the file
	Text     string      `json:"text"`   // what is wrong
	Run      string      `json:"run"`    // what to run: a command, in which DIR is the store and NEW a new directory
}

// String is the finding on one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s at byte %d: %s (%s; run: %s)", f.Severity, f.File, f.Offset, f.Text, f.Kind, f.Run)
}

func newFinding(s Severity, k FindingKind, file string, offset int64, format string, args ...any) Finding {
	return Finding{s, k, file, offset, fmt.Sprintf(format, args...), cmp.Or(advice[k], runRepair)}
}

// Summary is what Verify read, and how much it found. It is a value.
type Summary struct {
	Marked       bool              `json:"marked"` // see Store
	Owner        string            `json:"owner,omitempty"`
	LogStart     message.LogOffset `json:"logStart"`
	LogEnd       message.LogOffset `json:"logEnd"`
	LogFiles     int               `json:"logFiles"`
	Records      int64             `json:"records"`
	Fillers      int64             `json:"fillers"` // records that hold the place of what was lost: see IsFiller
	Queues       int               `json:"queues"`
	Units        int64             `json:"units"`
	IndexFiles   int               `json:"indexFiles"`
	IndexEntries int64             `json:"indexEntries"`
	Bytes        int64             `json:"bytes"` // of the log that were read
	Errors       int64             `json:"errors"`
	Notes        int64             `json:"notes"`
}

// Clean reports whether there was no error; there may be notes.
func (s Summary) Clean() bool { return s.Errors == 0 }
