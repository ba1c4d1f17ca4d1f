package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCodes has every code of RocketMQ's brokers and clients, with its number and
// name. Exactly four say that a message is in the log.
func TestCodes(t *testing.T) {
	rows := []struct {
		number int32
		name   string
		code   ResponseCode
		stored bool
	}{
		{0, "SUCCESS", Success, true},
		{1, "SYSTEM_ERROR", SystemError, false},
		{2, "SYSTEM_BUSY", SystemBusy, false},
		{3, "REQUEST_CODE_NOT_SUPPORTED", RequestCodeNotSupported, false},
		{4, "TRANSACTION_FAILED", TransactionFailed, false},
		{10, "FLUSH_DISK_TIMEOUT", FlushDiskTimeout, true},
		{11, "SLAVE_NOT_AVAILABLE", SlaveNotAvailable, true},
		{12, "FLUSH_SLAVE_TIMEOUT", FlushSlaveTimeout, true},
		{13, "MESSAGE_ILLEGAL", MessageIllegal, false},
		{14, "SERVICE_NOT_AVAILABLE", ServiceNotAvailable, false},
		{15, "VERSION_NOT_SUPPORTED", VersionNotSupported, false},
		{16, "NO_PERMISSION", NoPermission, false},
		{17, "TOPIC_NOT_EXIST", TopicNotExist, false},
		{18, "TOPIC_EXIST_ALREADY", TopicExistAlready, false},
		{19, "PULL_NOT_FOUND", PullNotFound, false},
		{20, "PULL_RETRY_IMMEDIATELY", PullRetryImmediately, false},
		{21, "PULL_OFFSET_MOVED", PullOffsetMoved, false},
		{22, "QUERY_NOT_FOUND", QueryNotFound, false},
		{23, "SUBSCRIPTION_PARSE_FAILED", SubscriptionParseFailed, false},
		{24, "SUBSCRIPTION_NOT_EXIST", SubscriptionNotExist, false},
		{25, "SUBSCRIPTION_NOT_LATEST", SubscriptionNotLatest, false},
		{26, "SUBSCRIPTION_GROUP_NOT_EXIST", SubscriptionGroupNotExist, false},
		{27, "FILTER_DATA_NOT_EXIST", FilterDataNotExist, false},
		{28, "FILTER_DATA_NOT_LATEST", FilterDataNotLatest, false},
		{29, "INVALID_PARAMETER", InvalidParameter, false},
		{200, "TRANSACTION_SHOULD_COMMIT", TransactionShouldCommit, false},
		{201, "TRANSACTION_SHOULD_ROLLBACK", TransactionShouldRollback, false},
		{202, "TRANSACTION_STATE_UNKNOW", TransactionStateUnknown, false},
		{203, "TRANSACTION_STATE_GROUP_WRONG", TransactionGroupWrong, false},
		{204, "NO_BUYER_ID", NoBuyerID, false},
		{205, "NOT_IN_CURRENT_UNIT", NotInCurrentUnit, false},
		{206, "CONSUMER_NOT_ONLINE", ConsumerNotOnline, false},
		{207, "CONSUME_MSG_TIMEOUT", ConsumeMessageTimeout, false},
		{208, "NO_MESSAGE", NoMessage, false},
		{209, "POLLING_FULL", PollingFull, false},
		{210, "POLLING_TIMEOUT", PollingTimeout, false},
		{215, "FLOW_CONTROL", FlowControl, false},
		{604, "ILLEGAL_OPERATION", IllegalOperation, false},
		{1500, "GO_AWAY", GoAway, false},
		{10001, "CONNECT_BROKER_EXCEPTION", ConnectBroker, false},
		{10002, "ACCESS_BROKER_TIMEOUT", AccessBrokerTimeout, false},
		{10003, "BROKER_NOT_EXIST_EXCEPTION", BrokerNotExist, false},
		{10004, "NO_NAME_SERVER_EXCEPTION", NoNameServer, false},
		{10005, "NOT_FOUND_TOPIC_EXCEPTION", NotFoundTopic, false},
		{10006, "REQUEST_TIMEOUT_EXCEPTION", RequestTimeout, false},
		{10007, "CREATE_REPLY_MESSAGE_EXCEPTION", CreateReplyMessage, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			require.EqualValues(t, row.number, row.code)
			require.Equal(t, row.name, row.code.String())
			require.EqualError(t, row.code, row.name)
			require.Equal(t, row.stored, row.code.Stored())
		})
	}
	require.Len(t, codeNames, len(rows), "every name is in the table")
}
