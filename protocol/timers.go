package protocol

import (
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"github.com/pocketmq/pocketmq/message"
)

// ErrNotPending is wrapped by the error, whose code is QueryNotFound, of who asks
// for a timed message that does not wait: it was delivered or is just about to be,
// was cancelled, or never was.
var ErrNotPending = errors.New("no timed message waits under this id")

// Timers is what clients ask about messages that wait for their time. It is a part
// of Broker. A message's id is that of message.MessageExt.ID: its unique key, or,
// for one without, the offset message id that the send returned.
type Timers interface {
	// CancelTimer ends the waiting of a timed message: when it returns nil, the
	// message is never delivered, which is as durable as a send. An error that
	// matches ErrNotPending says that there was nothing to cancel. One whose code
	// is Stored() says that it is cancelled, but that a loss of power may bring
	// the message back. After any other error it still waits.
	//
	// Source: RocketMQ 5, RequestCode RECALL_MESSAGE.
	CancelTimer(ctx context.Context, req CancelTimerRequest) error
	// RescheduleTimer gives a timed message another time, in one step: it is
	// delivered once, at the old time or at the new one, also after a crash. Errors
	// are those of CancelTimer; a time beyond the broker's horizon is refused with
	// MessageIllegal and a *message.LimitError.
	RescheduleTimer(ctx context.Context, req RescheduleTimerRequest) error
	// ListTimers returns a page of what waits: first timed messages in the order of
	// their times, then those of each delay level in theirs. What begins to wait, gets
	// another time or is delivered between two pages may be missed. What the broker
	// itself puts further on in the log is not; it may come twice where others have
	// the same time.
	ListTimers(ctx context.Context, req ListTimersRequest) (ListTimersResponse, error)
}

// CancelTimerRequest names a timed message. Where several wait with one id, as a
// send that was repeated leaves them, all are meant.
type CancelTimerRequest struct {
	Topic string // where it is to be delivered; "" for any
	ID    string
}

// RescheduleTimerRequest names a timed message and when it is to be delivered.
type RescheduleTimerRequest struct {
	CancelTimerRequest

	DeliverAt int64 // ms since the Unix epoch; at once when it is over
}

// ListTimersRequest asks for a page.
type ListTimersRequest struct {
	From TimerPosition // Next of the page before; the zero value begins
	Max  int           // 0: the broker's choice
}

// ListTimersResponse is a page. It is the receiver's.
type ListTimersResponse struct {
	Timers []TimerInfo
	Next   TimerPosition
	More   bool // there may be more, from Next on
}

// TimerPosition is a place in the list.
type TimerPosition struct {
	Level  int   // 0: timed messages
	Due    int64 // of timed messages
	Offset message.QueueOffset
}

// TimerInfo is a message that waits.
type TimerInfo struct {
	ID        string
	Topic     string // where it is to be delivered
	QueueID   int32
	Level     int   // its delay level; 0: it has a time of its own, and can be cancelled
	DeliverAt int64 // ms since the Unix epoch
	Bytes     int   // of its record
}

// RecallHandle tells all that is needed to find a timed message again.
//
// Source: RocketMQ 5 common/producer/RecallMessageHandle.java.
type RecallHandle struct {
	Topic     string
	Broker    string // its name
	DeliverAt int64  // ms since the Unix epoch
	ID        string
}

const recallVersion = "v1"

// String is the handle as RocketMQ writes it: base64, as for URLs, of
// "v1 topic broker time id".
func (h RecallHandle) String() string {
	text := strings.Join([]string{recallVersion, h.Topic, h.Broker, strconv.FormatInt(h.DeliverAt, 10), h.ID}, " ")
	return base64.URLEncoding.EncodeToString([]byte(text))
}

// ParseRecallHandle reads what String wrote; else the error is a
// *message.IllegalError.
func ParseRecallHandle(s string) (RecallHandle, error) {
	text, err := base64.URLEncoding.DecodeString(s)
	parts := strings.SplitN(string(text), " ", 5)
	if err != nil || len(parts) < 5 || parts[0] != recallVersion || parts[4] == "" {
		return RecallHandle{}, &message.IllegalError{Field: "recall handle", Value: s, Reason: "is none of version " + recallVersion}
	}
	at, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil {
		return RecallHandle{}, &message.IllegalError{Field: "recall handle", Value: s, Reason: "has the time " + strconv.Quote(parts[3])}
	}
	return RecallHandle{Topic: parts[1], Broker: parts[2], DeliverAt: at, ID: parts[4]}, nil
}
