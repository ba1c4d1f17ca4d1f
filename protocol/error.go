package protocol

import (
	"errors"
	"slices"
	"strings"
)

// Error is an answer that is not a success: RocketMQ's code, a text for people,
// and in one process the cause itself, so that errors.Is and errors.As reach
// the store's errors through it.
type Error struct {
	Code   ResponseCode
	Remark string
	Err    error // may be nil; over a network it is
}

func (e *Error) Error() string {
	s := e.Code.String()
	if e.Remark != "" {
		s += ": " + e.Remark
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, code) true for the error's ResponseCode.
func (e *Error) Is(target error) bool {
	code, ok := target.(ResponseCode)
	return ok && code == e.Code
}

// CodeOf finds the response code in err: Success for nil, SystemError where
// err carries none.
func CodeOf(err error) ResponseCode {
	if err == nil {
		return Success
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	var code ResponseCode
	if errors.As(err, &code) {
		return code
	}
	return SystemError
}

// flowControlMarks begin the remark of a SystemError by which a broker says
// that it is overloaded.
var flowControlMarks = []string{
	"[REJECTREQUEST]", "[OVERLOAD]", "[TIMEOUT_CLEAN_QUEUE]", "[PCBUSY_CLEAN_QUEUE]", "[PC_SYNCHRONIZED]",
}

// Overloaded reports whether err is a broker's answer that it has too much to
// do at the moment: the same request may succeed a little later.
func Overloaded(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case SystemBusy, FlowControl:
		return true
	case SystemError:
		return slices.ContainsFunc(flowControlMarks, func(mark string) bool { return strings.HasPrefix(e.Remark, mark) })
	}
	return false
}
