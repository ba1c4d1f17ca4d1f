package protocol

import "strconv"

// ResponseCode is RocketMQ's code of an answer. It is an error as well, so
// that errors.Is(err, protocol.TopicNotExist) finds it in any wrapped *Error.
type ResponseCode int32

// The codes of brokers. PocketMQ's does not give all of them; another broker may.
//
// Source: RocketMQ common/protocol/ResponseCode.java.
const (
	Success                   ResponseCode = 0
	SystemError               ResponseCode = 1
	SystemBusy                ResponseCode = 2
	RequestCodeNotSupported   ResponseCode = 3
	TransactionFailed         ResponseCode = 4
	FlushDiskTimeout          ResponseCode = 10 // stored, not confirmed on disk
	SlaveNotAvailable         ResponseCode = 11 // stored, not replicated
	FlushSlaveTimeout         ResponseCode = 12 // stored, replication not confirmed
	MessageIllegal            ResponseCode = 13
	ServiceNotAvailable       ResponseCode = 14
	VersionNotSupported       ResponseCode = 15
	NoPermission              ResponseCode = 16
	TopicNotExist             ResponseCode = 17
	TopicExistAlready         ResponseCode = 18
	PullNotFound              ResponseCode = 19 // nothing new yet
	PullRetryImmediately      ResponseCode = 20 // nothing for this filter; go on at NextBeginOffset
	PullOffsetMoved           ResponseCode = 21 // the offset is outside the queue; go on at NextBeginOffset
	QueryNotFound             ResponseCode = 22 // no offset is stored
	SubscriptionParseFailed   ResponseCode = 23
	SubscriptionNotExist      ResponseCode = 24
	SubscriptionNotLatest     ResponseCode = 25
	SubscriptionGroupNotExist ResponseCode = 26
	FilterDataNotExist        ResponseCode = 27
	FilterDataNotLatest       ResponseCode = 28
	InvalidParameter          ResponseCode = 29 // from later versions
	TransactionShouldCommit   ResponseCode = 200
	TransactionShouldRollback ResponseCode = 201
	TransactionStateUnknown   ResponseCode = 202
	TransactionGroupWrong     ResponseCode = 203
	NoBuyerID                 ResponseCode = 204
	NotInCurrentUnit          ResponseCode = 205
	ConsumerNotOnline         ResponseCode = 206
	ConsumeMessageTimeout     ResponseCode = 207
	NoMessage                 ResponseCode = 208  // a client's: an id that leads to no message
	PollingFull               ResponseCode = 209  // from later versions
	PollingTimeout            ResponseCode = 210  // from later versions
	FlowControl               ResponseCode = 215  // as SystemBusy, from later versions
	IllegalOperation          ResponseCode = 604  // from later versions
	GoAway                    ResponseCode = 1500 // the broker is about to leave
)

// The codes of what went wrong on the client's side. No broker answers with
// them; a Broker that lives behind a network puts the first two into the *Error
// of a call that did not get through.
//
// Source: RocketMQ client/common/ClientErrorCode.java.
const (
	ConnectBroker       ResponseCode = 10001 // no connection, or it was lost
	AccessBrokerTimeout ResponseCode = 10002 // no answer in time
	BrokerNotExist      ResponseCode = 10003 // a queue's broker is in no route
	NoNameServer        ResponseCode = 10004 // the name service can not be asked
	NotFoundTopic       ResponseCode = 10005 // the topic has no route
	RequestTimeout      ResponseCode = 10006 // no reply to a request in time
	CreateReplyMessage  ResponseCode = 10007 // a reply can not be made

	// NoCode is the code of errors that have none.
	NoCode ResponseCode = -1
)

var codeNames = map[ResponseCode]string{
	Success:                   "SUCCESS",
	SystemError:               "SYSTEM_ERROR",
	SystemBusy:                "SYSTEM_BUSY",
	RequestCodeNotSupported:   "REQUEST_CODE_NOT_SUPPORTED",
	TransactionFailed:         "TRANSACTION_FAILED",
	FlushDiskTimeout:          "FLUSH_DISK_TIMEOUT",
	SlaveNotAvailable:         "SLAVE_NOT_AVAILABLE",
	FlushSlaveTimeout:         "FLUSH_SLAVE_TIMEOUT",
	MessageIllegal:            "MESSAGE_ILLEGAL",
	ServiceNotAvailable:       "SERVICE_NOT_AVAILABLE",
	VersionNotSupported:       "VERSION_NOT_SUPPORTED",
	NoPermission:              "NO_PERMISSION",
	TopicNotExist:             "TOPIC_NOT_EXIST",
	TopicExistAlready:         "TOPIC_EXIST_ALREADY",
	PullNotFound:              "PULL_NOT_FOUND",
	PullRetryImmediately:      "PULL_RETRY_IMMEDIATELY",
	PullOffsetMoved:           "PULL_OFFSET_MOVED",
	QueryNotFound:             "QUERY_NOT_FOUND",
	SubscriptionParseFailed:   "SUBSCRIPTION_PARSE_FAILED",
	SubscriptionNotExist:      "SUBSCRIPTION_NOT_EXIST",
	SubscriptionNotLatest:     "SUBSCRIPTION_NOT_LATEST",
	SubscriptionGroupNotExist: "SUBSCRIPTION_GROUP_NOT_EXIST",
	FilterDataNotExist:        "FILTER_DATA_NOT_EXIST",
	FilterDataNotLatest:       "FILTER_DATA_NOT_LATEST",
	InvalidParameter:          "INVALID_PARAMETER",
	TransactionShouldCommit:   "TRANSACTION_SHOULD_COMMIT",
	TransactionShouldRollback: "TRANSACTION_SHOULD_ROLLBACK",
	TransactionStateUnknown:   "TRANSACTION_STATE_UNKNOW", // spelled so
	TransactionGroupWrong:     "TRANSACTION_STATE_GROUP_WRONG",
	NoBuyerID:                 "NO_BUYER_ID",
	NotInCurrentUnit:          "NOT_IN_CURRENT_UNIT",
	ConsumerNotOnline:         "CONSUMER_NOT_ONLINE",
	ConsumeMessageTimeout:     "CONSUME_MSG_TIMEOUT",
	NoMessage:                 "NO_MESSAGE",
	PollingFull:               "POLLING_FULL",
	PollingTimeout:            "POLLING_TIMEOUT",
	FlowControl:               "FLOW_CONTROL",
	IllegalOperation:          "ILLEGAL_OPERATION",
	GoAway:                    "GO_AWAY",
	ConnectBroker:             "CONNECT_BROKER_EXCEPTION",
	AccessBrokerTimeout:       "ACCESS_BROKER_TIMEOUT",
	BrokerNotExist:            "BROKER_NOT_EXIST_EXCEPTION",
	NoNameServer:              "NO_NAME_SERVER_EXCEPTION",
	NotFoundTopic:             "NOT_FOUND_TOPIC_EXCEPTION",
	RequestTimeout:            "REQUEST_TIMEOUT_EXCEPTION",
	CreateReplyMessage:        "CREATE_REPLY_MESSAGE_EXCEPTION",
}

// String gives RocketMQ's name of the code.
func (c ResponseCode) String() string {
	if name, ok := codeNames[c]; ok {
		return name
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
