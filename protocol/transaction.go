package protocol

import (
	"context"
	"fmt"

	"github.com/pocketmq/pocketmq/message"
)

// Transactions is what clients ask of a broker about messages that belong to a
// transaction of the sender. Such a message, with the property TRAN_MSG=true, is
// sent like any other, and is a half message then: nobody sees it until its
// transaction is committed. It is a part of Broker.
type Transactions interface {
	// EndTransaction commits or rolls back. The error is nil when that is kept as
	// the broker's flush promise says, or when the transaction has ended before,
	// whichever way. It is the answer to CheckTransactionState as well.
	EndTransaction(ctx context.Context, req EndTransactionRequest) error
	// OpenTransactions returns the half messages whose end the broker does not
	// know, the oldest first.
	OpenTransactions(ctx context.Context) ([]OpenTransaction, error)
	// ResumeTransaction makes a half message of one that was given up, so that its
	// sender is asked about it again. off is that of its record in
	// TransactionCheckMaxTopic.
	ResumeTransaction(ctx context.Context, off message.LogOffset) error
}

// TransactionState is what became of a local transaction, by RocketMQ's numbers.
// Its text is RocketMQ's name.
//
// Source: RocketMQ client/producer/LocalTransactionState.java and
// common/sysflag/MessageSysFlag.java.
type TransactionState int32

// The states.
const (
	TransactionUnknown  TransactionState = TransactionState(message.TransactionNone) // the broker asks again
	TransactionCommit   TransactionState = TransactionState(message.TransactionCommit)
	TransactionRollback TransactionState = TransactionState(message.TransactionRollback)
)

func (s TransactionState) String() string {
	switch s {
	case TransactionUnknown:
		return "UNKNOW" // as RocketMQ spells it
	case TransactionCommit:
		return "COMMIT_MESSAGE"
	case TransactionRollback:
		return "ROLLBACK_MESSAGE"
	}
	return fmt.Sprintf("TransactionState(%d)", int32(s))
}

// EndTransactionRequest says what became of the transaction of a half message.
//
// Source: RocketMQ common/protocol/header/EndTransactionRequestHeader.java.
type EndTransactionRequest struct {
	Group       string              // the producer group that sent the message
	LogOffset   message.LogOffset   // of the half message: that in the id which the send gave
	QueueOffset message.QueueOffset // of the half message: that which the send gave
	State       TransactionState    // TransactionUnknown changes nothing
	FromCheck   bool                // the answer to a question of the broker
	UniqueKey   string              // of the message; empty to not have it compared
	Remark      string              // the error of the local transaction, for the log
}

// OpenTransaction is a half message whose end the broker does not know.
type OpenTransaction struct {
	Topic     string // that it was sent to
	Group     string // the producer group that sent it
	UniqueKey string

	LogOffset      message.LogOffset // of the half message now: see EndTransactionRequest
	QueueOffset    message.QueueOffset
	BornTimestamp  int64 // ms since the Unix epoch
	StoreTimestamp int64 // of the half message: later than the send when it was rolled forward
	Checks         int   // how often a client was asked about it, as far as the broker knows
	NextCheck      int64 // when a client is asked next, ms since the Unix epoch
}

// Topics of transactions, beside message.HalfTopic.
const (
	// TransactionOpTopic says which half messages have ended: each message has the
	// half message's queue offset as decimal number.
	TransactionOpTopic = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
	// TransactionCheckMaxTopic has the half messages that were given up, because
	// nobody knew what became of their transaction.
	TransactionCheckMaxTopic = "TRANS_CHECK_MAX_TIME_TOPIC"
	// TransactionGroup is the group whose offsets in the half topic and the op topic
	// say how far transactions have ended.
	TransactionGroup = "CID_RMQ_SYS_TRANS"
)

// Properties of half messages.
const (
	PropertyTransaction   = "TRAN_MSG" // "true" makes a message a half message
	PropertyProducerGroup = "PGROUP"   // the group whose producers are asked what became of the transaction
	// PropertyCheckImmunity is for applications: how many seconds after its birth the
	// broker may ask about the message at the earliest. After that only an answer
	// to such a question ends the transaction.
	PropertyCheckImmunity = "CHECK_IMMUNITY_TIME_IN_SECONDS"
	PropertyCheckTimes    = "TRANSACTION_CHECK_TIMES"    // how often a client was asked, when the record was written
	PropertyFirstHalf     = "TRAN_PREPARED_QUEUE_OFFSET" // queue offset of the first record of a half message that was rolled forward
)
