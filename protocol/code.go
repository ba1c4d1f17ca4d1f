package protocol

import "strconv"

// ResponseCode is RocketMQ's code of an answer. It is an error as well, so
// that errors.Is(err, protocol.TopicNotExist) finds it in any wrapped *Error.
type ResponseCode int32

// The codes that PocketMQ gives or understands.
const (
	Success                   ResponseCode = 0
	SystemError               ResponseCode = 1
	SystemBusy                ResponseCode = 2
	RequestCodeNotSupported   ResponseCode = 3
	FlushDiskTimeout          ResponseCode = 10 // stored, not confirmed on disk
	SlaveNotAvailable         ResponseCode = 11 // stored, not replicated
	FlushSlaveTimeout         ResponseCode = 12 // stored, replication not confirmed
	MessageIllegal            ResponseCode = 13
	ServiceNotAvailable       ResponseCode = 14
	NoPermission              ResponseCode = 16
	TopicNotExist             ResponseCode = 17
	PullNotFound              ResponseCode = 19 // nothing new yet
	PullRetryImmediately      ResponseCode = 20 // nothing for this filter; go on at NextBeginOffset
	PullOffsetMoved           ResponseCode = 21 // the offset is outside the queue; go on at NextBeginOffset
	QueryNotFound             ResponseCode = 22 // no offset is stored
	SubscriptionParseFailed   ResponseCode = 23
	SubscriptionGroupNotExist ResponseCode = 26
)

// String gives RocketMQ's name of the code.
func (c ResponseCode) String() string {
	switch c {
	case Success:
		return "SUCCESS"
	case SystemError:
		return "SYSTEM_ERROR"
	case SystemBusy:
		return "SYSTEM_BUSY"
	case RequestCodeNotSupported:
		return "REQUEST_CODE_NOT_SUPPORTED"
	case FlushDiskTimeout:
		return "FLUSH_DISK_TIMEOUT"
	case SlaveNotAvailable:
		return "SLAVE_NOT_AVAILABLE"
	case FlushSlaveTimeout:
		return "FLUSH_SLAVE_TIMEOUT"
	case MessageIllegal:
		return "MESSAGE_ILLEGAL"
	case ServiceNotAvailable:
		return "SERVICE_NOT_AVAILABLE"
	case NoPermission:
		return "NO_PERMISSION"
	case TopicNotExist:
		return "TOPIC_NOT_EXIST"
	case PullNotFound:
		return "PULL_NOT_FOUND"
	case PullRetryImmediately:
		return "PULL_RETRY_IMMEDIATELY"
	case PullOffsetMoved:
		return "PULL_OFFSET_MOVED"
	case QueryNotFound:
		return "QUERY_NOT_FOUND"
	case SubscriptionParseFailed:
		return "SUBSCRIPTION_PARSE_FAILED"
	case SubscriptionGroupNotExist:
		return "SUBSCRIPTION_GROUP_NOT_EXIST"
	}
	return "response code " + strconv.Itoa(int(c))
}

// Error is the code's name.
func (c ResponseCode) Error() string { return c.String() }

// Stored reports whether a message that was answered with this code is in the
// log and may be delivered, its promise kept or not. ServiceNotAvailable is not
// among them, though after a failed sync the message may be there when the
// store is opened again.
func (c ResponseCode) Stored() bool {
	return c == Success || c == FlushDiskTimeout || c == FlushSlaveTimeout || c == SlaveNotAvailable
}
