package mq

import (
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
