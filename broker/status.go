package broker

import (
	"errors"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// putCode is the answer to a put's status.
//
// Source: RocketMQ broker/processor/SendMessageProcessor.java, handlePutMessageResult.
func putCode(s store.PutMessageStatus) protocol.ResponseCode {
	switch s {
	case store.PutOK:
		return protocol.Success
	case store.PutFlushDiskTimeout:
		return protocol.FlushDiskTimeout
	case store.PutMessageIllegal, store.PutPropertiesSizeExceeded:
		return protocol.MessageIllegal
	case store.PutServiceNotAvailable:
		return protocol.ServiceNotAvailable
	}
	return protocol.SystemError
}

// answerPut makes code and error of what the store says. A message that was
// stored but whose promise was not kept is both: a code that says stored, and
// an error with the cause.
func answerPut(res *store.PutMessageResult, err error) (protocol.ResponseCode, error) {
	code := putCode(res.Status)
	if err == nil && code == protocol.Success {
		return protocol.Success, nil
	}
	if code == protocol.Success {
		code = protocol.FlushDiskTimeout
		if res.Count == 0 { // nothing has a place: the put did not begin
			code = protocol.SystemError
		}
	}
	e := &protocol.Error{Code: code, Err: err}
	switch status := res.Status.String(); {
	case res.Status == store.PutOSPageCacheBusy:
		e.Remark = pageCacheBusy
	case status != code.String():
		e.Remark = status
	}
	return code, e
}

// pageCacheBusy is RocketMQ's remark for a store that has too much to do. It
// begins with a mark by which clients know that, see protocol.Overloaded.
const pageCacheBusy = "[PC_SYNCHRONIZED]broker busy, start flow control for a while"

// pullCode is the answer to a get's status. Other than RocketMQ, an offset at
// which no unit can be read is answered so that the client goes on.
//
// Source: RocketMQ broker/processor/PullMessageProcessor.java, processRequest.
func pullCode(res *store.GetMessageResult, offset message.QueueOffset) protocol.ResponseCode {
	switch res.Status {
	case store.GetFound:
		return protocol.Success
	case store.GetNoMatchedMessage, store.GetMessageWasRemoving:
		return protocol.PullRetryImmediately
	case store.GetOffsetFoundNull:
		if res.NextBeginOffset > offset {
			return protocol.PullRetryImmediately
		}
	case store.GetNoMessageInQueue:
		if offset != 0 {
			return protocol.PullOffsetMoved
		}
	case store.GetOffsetOverflowBadly, store.GetOffsetTooSmall:
		return protocol.PullOffsetMoved
	case store.GetOffsetOverflowOne:
	}
	return protocol.PullNotFound
}

// readError is the answer to a failed read.
func readError(err error) error {
	if errors.Is(err, message.ErrClosed) {
		return refuse(protocol.ServiceNotAvailable, "", err)
	}
	return refuse(protocol.SystemError, "", err)
}
