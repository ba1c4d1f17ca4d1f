package golden

import (
	"encoding/json"
	"fmt"
)

// Manifest is what was recorded about a store.
type Manifest struct {
	Case                 string
	Description          string
	Writer               string
	Config               Config
	DelayDeliveryRunning bool

	Puts  []Put     // in order
	Live  *Snapshot // after the last put
	Reads []Read    // made then, in reopening cases after reopening

	Reopened         *Reopened
	Edits            []Edit // what was done to a reopening case's directory
	SecondReopen     map[string]Snapshot
	SecondReopenPuts []Put
	Groups           []Group // results of other stores

	Files                        []File // of StoreArchive
	FilesAfter                   []File // of AfterArchive
	ConsumeQueueFileTimesAtReads []FileTime

	// Of single cases.
	Notes                 []string
	SegmentStarts         []int64
	MinValueHashKey       string
	BeforeClean           *Snapshot
	DeletedCommitLogFiles []string
	AfterNextMessage      *Snapshot
	AfterTopic129Bytes    *Snapshot
	AfterLastMessage      *Snapshot
	AfterTopic257Bytes    *Snapshot
}

// Config holds the fields of RocketMQ's MessageStoreConfig that were set.
type Config struct {
	FlushDiskType                     string
	MappedFileSizeCommitLog           int64
	MappedFileSizeConsumeQueue        int64
	MaxMessageSize                    int
	MaxHashSlotNum                    int
	MaxIndexNum                       int
	MessageIndexEnable                bool
	FlushIntervalCommitLog            int
	FlushCommitLogThoroughInterval    int
	FlushIntervalConsumeQueue         int
	FlushConsumeQueueThoroughInterval int
	FileReservedTime                  int
	BrokerRole                        string
	SlaveTimeout                      int
	SyncFlushTimeout                  *int
	EnableMultiDispatch               bool
}

// Put is one message or batch that was given to the store.
type Put struct {
	N  int
	Op string // "put" or "putBatch"

	Topic                     string
	QueueID                   int32
	Tags                      *string
	Keys                      *string
	DelayLevel                int
	Flag                      int32
	SysFlag                   int32
	BornTimestamp             int64
	BornHost                  string
	StoreHost                 string
	ReconsumeTimes            int32
	PreparedTransactionOffset int64
	WaitStoreMsgOK            bool
	Payload

	Elements           []Element // of a batch
	EncodedBatchBase64 *[]byte   // of a small batch

	Result PutResult
	Stored Stored
}

// Payload is what a message and the element of a batch have in common.
type Payload struct {
	Properties       [][2]string // in the order of Java's map; the map decides about DELAY and WAIT
	PropertiesString string      // what is stored; rarely differs from the map
	BodyBase64       *[]byte
	BodyZeros        int // length of a body of zeros, with BodyBase64 null
}

// Element is one message of a batch.
type Element struct {
	Flag int32
	Tags *string
	Keys *string
	Payload
}

// PutResult is RocketMQ's answer to a put.
type PutResult struct {
	PutStatus      string
	AppendStatus   *string // null: the log was not reached
	WroteOffset    int64
	WroteBytes     int
	MsgID          *string
	MsgIDException string
	LogicsOffset   int64
	StoreTimestamp int64
	MsgNum         int
	Exception      string // instead of a status
	Message        string
}

// Stored is the message as the store left it.
type Stored struct {
	Topic            string
	QueueID          int32
	SysFlag          int32
	PropertiesString string
	BodyCRC          uint32
}

// Read is one question to the store; which fields are set depends on Op.
type Read struct {
	Op        string
	Group     string
	Topic     string
	QueueID   int32
	Offset    int64
	MaxNum    int
	Sub       *string
	Timestamp int64
	Key       string
	Begin     int64
	End       int64

	Result json.RawMessage
}

// GetResult is RocketMQ's answer to getMessage.
type GetResult struct {
	Status          string
	NextBeginOffset int64
	MinOffset       int64
	MaxOffset       int64
	BufferTotalSize int
	Messages        [][3]int64 // log offset, size, queue offset in the record
}

// LookResult is RocketMQ's answer to lookMessageByOffset.
type LookResult struct {
	Topic                     string
	QueueID                   int32
	QueueOffset               int64
	CommitLogOffset           int64
	StoreSize                 int32
	BodyCRC                   uint32
	Flag                      int32
	SysFlag                   int32
	BornTimestamp             int64
	BornHost                  string
	StoreTimestamp            int64
	StoreHost                 string
	ReconsumeTimes            int32
	PreparedTransactionOffset int64
	BodyLen                   int
	Properties                map[string]string
	MsgID                     string
}

// QueryResult is RocketMQ's answer to queryMessage.
type QueryResult struct {
	Offsets                  []int64 // log offsets, in the order of the answer
	IndexLastUpdateTimestamp int64   // store time of the newest record that has an entry
	IndexLastUpdatePhyoffset int64   // its log offset
}

// Answer decodes the result into the type that belongs to the question:
// *GetResult, *LookResult (both nil for null), *QueryResult, or int64. Results
// that are exceptions give an error.
func (r Read) Answer() (any, error) {
	switch r.Op {
	case "getMessage":
		var v *GetResult
		return v, r.decode(&v)
	case "lookMessageByOffset":
		var v *LookResult
		return v, r.decode(&v)
	case "queryMessage":
		var v *QueryResult
		return v, r.decode(&v)
	}
	var n int64
	err := r.decode(&n)
	return n, err
}

func (r Read) decode(v any) error {
	if err := json.Unmarshal(r.Result, v); err != nil {
		return fmt.Errorf("%s: %w", r.Op, err)
	}
	return nil
}

// Snapshot is the state of a store at one moment.
type Snapshot struct {
	LoadResult      *bool
	MinPhyOffset    int64
	MaxPhyOffset    int64
	FlushedWhere    int64
	ReputFromOffset int64
	TopicQueueTable map[string]int64
	Checkpoint      [3]int64 // physic, logics and index timestamp
	ConsumeQueues   []QueueState
	IndexFiles      []IndexState
}

// QueueState describes a consume queue: five values in the JSON array.
type QueueState struct {
	Topic           string
	QueueID         int32
	MinOffset       int64
	MaxOffset       int64
	MaxPhysicOffset int64
}

// UnmarshalJSON reads the array.
func (q *QueueState) UnmarshalJSON(b []byte) error {
	return unmarshalArray(b, &q.Topic, &q.QueueID, &q.MinOffset, &q.MaxOffset, &q.MaxPhysicOffset)
}

// IndexState describes an index file: seven values in the JSON array.
type IndexState struct {
	Name           string
	BeginTimestamp int64
	EndTimestamp   int64
	BeginPhyOffset int64
	EndPhyOffset   int64
	HashSlotCount  int
	IndexCount     int
}

// UnmarshalJSON reads the array.
func (i *IndexState) UnmarshalJSON(b []byte) error {
	return unmarshalArray(b, &i.Name, &i.BeginTimestamp, &i.EndTimestamp, &i.BeginPhyOffset, &i.EndPhyOffset,
		&i.HashSlotCount, &i.IndexCount)
}

// FileTime is the path of a file and its modification time in milliseconds.
type FileTime struct {
	Path    string
	MtimeMs int64
}

// UnmarshalJSON reads the array.
func (f *FileTime) UnmarshalJSON(b []byte) error { return unmarshalArray(b, &f.Path, &f.MtimeMs) }

func unmarshalArray(b []byte, fields ...any) error {
	var raw []json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	if len(raw) != len(fields) {
		return fmt.Errorf("%d values in an array of %d", len(raw), len(fields))
	}
	for i, field := range fields {
		if err := json.Unmarshal(raw[i], field); err != nil {
			return err
		}
	}
	return nil
}

// File is one file of an archive.
type File struct {
	Path    string
	Size    int64
	SHA256  string
	MtimeMs int64
}

// Edit is a change to the directory of a reopening case before it was packed.
type Edit struct {
	File   string
	What   string
	Offset int64
	Length int64
	Units  []int64
}

// Reopened is what came of opening StoreArchive.
type Reopened struct {
	LoadResult                   *bool
	AfterLoad                    *Snapshot
	AfterStart                   *Snapshot
	ConsumeQueueFileTimesAtReads []FileTime
	ReadsCompared                int
	ReadsDiffering               []ReadDiffering
}

// ReadDiffering is a read that RocketMQ answered otherwise after reopening.
type ReadDiffering struct {
	Index  int
	Result json.RawMessage
}

// Group holds results of another store than the case's.
type Group struct {
	Group       string
	Description string
	Config      Config
	Store       string // name of its archive; empty where there is none
	Puts        []Put
	Reads       []Read
	Live        *Snapshot
	AfterStart  *Snapshot
	AfterClean  *Snapshot
	Files       []File

	GetMessageAfterShutdown json.RawMessage
}
