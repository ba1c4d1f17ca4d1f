package mq

import (
	"context"
	"errors"
	"fmt"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// ErrNoRoute is returned for a topic without a queue that could be used: no
// broker has it, and none makes it on first use, or none lets it be written.
var ErrNoRoute = errors.New("no route")

// SendError says how a message got lost on its way, or, next to a result with
// a Status other than SendNotStored, that it was stored without its promise.
// What the broker said is wrapped: errors.Is finds protocol's response codes,
// and in one process the store's errors.
type SendError struct {
	Topic    string
	Queue    protocol.MessageQueue // of the last attempt; zero when there was none
	Attempts int                   // requests that were made to brokers
	Tried    []string              // the broker of each, in order; nil when there was at most one
	Err      error                 // of the last attempt
}

func (e *SendError) Error() string {
	if e.Attempts == 0 {
		return fmt.Sprintf("send to topic %s: %v", e.Topic, e.Err)
	}
	return fmt.Sprintf("send to %v, attempt %d: %v", e.Queue, e.Attempts, e.Err)
}

// Unwrap returns the cause.
func (e *SendError) Unwrap() error { return e.Err }

// Code is the code of the last answer; without one, or where the broker only
// answered that the time was over, that of RocketMQ's client:
// protocol.AccessBrokerTimeout, protocol.NotFoundTopic and so on, or
// protocol.NoCode.
func (e *SendError) Code() protocol.ResponseCode {
	code := codeIn(e.Err)
	switch {
	case code.Stored():
		return code
	case errors.Is(e.Err, context.Canceled):
		return protocol.NoCode
	case errors.Is(e.Err, context.DeadlineExceeded) && e.Attempts == 0:
		return protocol.NoCode
	case errors.Is(e.Err, context.DeadlineExceeded):
		return protocol.AccessBrokerTimeout
	}
	return code
}

// CodeOf is the code that RocketMQ's client gives the error of a send:
// protocol.Success for nil, MessageIllegal where message or body are not what
// can be sent, the code of a *SendError, and protocol.NoCode for the rest.
//
// Source: RocketMQ client/Validators.java and client/common/ClientErrorCode.java.
func CodeOf(err error) protocol.ResponseCode {
	var send *SendError
	var illegal *message.IllegalError
	var limit *message.LimitError
	switch {
	case err == nil:
		return protocol.Success
	case errors.As(err, &send):
		return send.Code()
	case errors.As(err, &illegal) && (illegal.Field == "message" || illegal.Field == "body"),
		errors.As(err, &limit) && limit.Field == "body":
		return protocol.MessageIllegal
	}
	return codeIn(err)
}

// codeIn is protocol.CodeOf, but NoCode where there is none.
func codeIn(err error) protocol.ResponseCode {
	var e *protocol.Error
	if errors.As(err, &e) {
		return e.Code
	}
	var code protocol.ResponseCode
	if errors.As(err, &code) {
		return code
	}
	return protocol.NoCode
}

// SkippedError says that the messages [From, To) of a queue can not be
// delivered: damaged, or gone from the store. Whoever got it may go on: the
// next message is one at To or later.
type SkippedError struct {
	Queue protocol.MessageQueue
	From  message.QueueOffset
	To    message.QueueOffset
	Err   error // matches message.ErrCorrupt for what is damaged, else ErrGone
}

func (e *SkippedError) Error() string {
	return fmt.Sprintf("messages [%d, %d) of %v skipped: %v", e.From, e.To, e.Queue, e.Err)
}

// Unwrap returns why.
func (e *SkippedError) Unwrap() error { return e.Err }

// ErrGone is wrapped by a *SkippedError for messages that a broker no longer
// has, or can not read.
var ErrGone = errors.New("removed from the store or unreadable")
