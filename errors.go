package pocketmq

import (
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/protocol"
)

// What a program branches on with errors.Is. Each is documented where it comes
// from.
var (
	ErrClosed         = message.ErrClosed         // something was used after Close
	ErrLocked         = message.ErrLocked         // another process has the directory
	ErrCorrupt        = message.ErrCorrupt        // bytes are not what was written
	ErrDiskFull       = message.ErrDiskFull       // nothing was stored; a later send may succeed
	ErrFlush          = message.ErrFlush          // a sync failed: open again before writing
	ErrFlushTimeout   = message.ErrFlushTimeout   // stored, but not confirmed on disk in time
	ErrOffsetNotFound = message.ErrOffsetNotFound // no message at this place
	ErrLimit          = message.ErrLimit          // too large or too long; see LimitError
	ErrIllegal        = message.ErrIllegal        // a value that can not be used; see IllegalError

	ErrNoRoute     = mq.ErrNoRoute     // no queue to send to
	ErrGone        = mq.ErrGone        // messages that are no longer there
	ErrGroupExists = mq.ErrGroupExists // the client has a producer of this group

	ErrNotPending = protocol.ErrNotPending // no timed message waits under this handle or id

	ErrTopicNotExist = error(protocol.TopicNotExist) // no broker has the topic
	ErrNoPermission  = error(protocol.NoPermission)  // the topic must not be read, or written

	ErrRequestTimeout = error(protocol.RequestTimeout) // no reply to a request in time
)

// What a program looks into with errors.As, as a pointer.
type (
	// LimitError says what is too large or too long.
	LimitError = message.LimitError
	// IllegalError says which value can not be used.
	IllegalError = message.IllegalError
	// CorruptionError says where damaged bytes lie.
	CorruptionError = message.CorruptionError
	// SendError says which attempt to send failed, and why.
	SendError = mq.SendError
	// RequestError says why a request got no reply.
	RequestError = mq.RequestError
	// StateError says that a producer is not running.
	StateError = mq.StateError
	// SkippedError says which messages a consumer can not be given.
	SkippedError = mq.SkippedError
)
