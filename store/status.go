package store

import (
	"fmt"
	"strings"

	"github.com/pocketmq/pocketmq/message"
)

// PutMessageStatus is RocketMQ's status of a put. Its text is RocketMQ's name.
type PutMessageStatus uint8

// The statuses that this store gives.
const (
	PutOK                  PutMessageStatus = iota // stored, and the flush mode's promise kept
	PutFlushDiskTimeout                            // stored, but not confirmed on disk
	PutServiceNotAvailable                         // closed, or refusing writes after a failed sync
	PutCreateMapedFileFailed
	PutMessageIllegal
	PutPropertiesSizeExceeded
	PutOSPageCacheBusy
	PutUnknownError
)

var putStatusNames = [...]string{"PUT_OK", "FLUSH_DISK_TIMEOUT", "SERVICE_NOT_AVAILABLE", "CREATE_MAPEDFILE_FAILED",
	"MESSAGE_ILLEGAL", "PROPERTIES_SIZE_EXCEEDED", "OS_PAGECACHE_BUSY", "UNKNOWN_ERROR"}

func (s PutMessageStatus) String() string { return nameOf(putStatusNames[:], uint8(s)) }

// Stored reports whether the message is in the log, confirmed or not.
func (s PutMessageStatus) Stored() bool { return s == PutOK || s == PutFlushDiskTimeout }

// GetMessageStatus is RocketMQ's status of a get. Its text is RocketMQ's name.
type GetMessageStatus uint8

// The statuses that this store gives. RocketMQ's NO_MATCHED_LOGIC_QUEUE is not
// among them, and RocketMQ does not give it either: there a queue comes into being
// when it is asked for, and answers NO_MESSAGE_IN_QUEUE.
const (
	GetFound               GetMessageStatus = iota
	GetNoMatchedMessage                     // the filter let nothing through; go on at NextBeginOffset
	GetMessageWasRemoving                   // the records are gone or unreadable; go on at NextBeginOffset
	GetOffsetFoundNull                      // no readable unit at the offset
	GetOffsetOverflowBadly                  // offset > max
	GetOffsetOverflowOne                    // offset = max: nothing new yet
	GetOffsetTooSmall                       // offset < min
	GetNoMessageInQueue                     // the queue is empty or unknown
)

var getStatusNames = [...]string{"FOUND", "NO_MATCHED_MESSAGE", "MESSAGE_WAS_REMOVING", "OFFSET_FOUND_NULL",
	"OFFSET_OVERFLOW_BADLY", "OFFSET_OVERFLOW_ONE", "OFFSET_TOO_SMALL", "NO_MESSAGE_IN_QUEUE"}

func (s GetMessageStatus) String() string { return nameOf(getStatusNames[:], uint8(s)) }

func nameOf(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("status %d", i)
}

// PutMessageResult says where a message, or a batch, was placed. It is a value.
type PutMessageResult struct {
	Status PutMessageStatus

	// The rest is set when Status.Stored().
	LogOffset      message.LogOffset   // of the (first) record
	QueueOffset    message.QueueOffset // of the (first) message
	Count          int                 // messages: 1, or the batch's number
	Bytes          int                 // of all records together
	StoreTimestamp int64               // ms since the Unix epoch
	StoreHost      message.Host

	// Offsets are the log offsets of a batch's records, in order; nil for a
	// single message.
	Offsets []message.LogOffset
}

// MessageID is the text of the offset message id; of a batch, the ids of its
// messages joined by commas, as RocketMQ gives them.
func (r PutMessageResult) MessageID() string {
	if !r.Status.Stored() {
		return ""
	}
	if r.Offsets == nil {
		return message.OffsetMessageID{Host: r.StoreHost, Offset: r.LogOffset}.String()
	}
	ids := make([]string, len(r.Offsets))
	for i, off := range r.Offsets {
		ids[i] = message.OffsetMessageID{Host: r.StoreHost, Offset: off}.String()
	}
	return strings.Join(ids, ",")
}
