package protocol

import "fmt"

// Perm says what may be done with a topic or a broker.
type Perm int32

// The bits of a Perm.
const (
	PermInherit Perm = 1 // new topics may be made after this one
	PermWrite   Perm = 2
	PermRead    Perm = 4

	PermReadWrite = PermRead | PermWrite
)

// Readable, Writable and Inheritable report the bits.
func (p Perm) Readable() bool    { return p&PermRead != 0 }
func (p Perm) Writable() bool    { return p&PermWrite != 0 }
func (p Perm) Inheritable() bool { return p&PermInherit != 0 }

// String gives RocketMQ's text: R, W and X, "-" for each that is missing.
func (p Perm) String() string {
	b := []byte("---")
	if p.Readable() {
		b[0] = 'R'
	}
	if p.Writable() {
		b[1] = 'W'
	}
	if p.Inheritable() {
		b[2] = 'X'
	}
	return string(b)
}

// FilterType says whether a message of a topic has one tag or several. Nothing
// depends on it but a bit in the records.
type FilterType uint8

// The filter types.
const (
	SingleTag FilterType = iota
	MultiTag
)

// String gives RocketMQ's name.
func (f FilterType) String() string {
	switch f {
	case SingleTag:
		return "SINGLE_TAG"
	case MultiTag:
		return "MULTI_TAG"
	}
	return fmt.Sprintf("FilterType(%d)", uint8(f))
}

// TopicConfig is what a broker knows about a topic. Queue ids are
// [0, ReadQueueNums) for consumers and [0, WriteQueueNums) for producers; to
// shrink a topic, lower WriteQueueNums first and ReadQueueNums when the queues
// are consumed.
type TopicConfig struct {
	Name           string
	ReadQueueNums  int32
	WriteQueueNums int32
	Perm           Perm
	FilterType     FilterType
	SysFlag        int32 // TopicUnit and TopicUnitSub; kept, not used
	Order          bool  // kept, not used

	// MaxDepth limits the messages of the topic on one broker that the slowest
	// group has still to read; those that are there, as long as no group has offsets
	// in it. 0 is no limit. Sends beyond it are refused with FlowControl. See
	// broker.Broker.SendMessage.
	MaxDepth int64
}

// The bits of TopicConfig.SysFlag, by which RocketMQ's tools tell which topics
// belong to a unit of several data centres.
//
// Source: RocketMQ common/sysflag/TopicSysFlag.java.
const (
	TopicUnit    int32 = 1 // its messages are sent by producers in unit mode
	TopicUnitSub int32 = 2 // a retry topic of theirs
)
