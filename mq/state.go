package mq

import (
	"fmt"

	"github.com/pocketmq/pocketmq/message"
)

// ServiceState is where a producer is in its life. Its text is RocketMQ's name.
//
// Source: RocketMQ common/ServiceState.java.
type ServiceState uint8

// The states. NewProducer starts what it makes, so nobody sees a producer of its
// own in the first two; the first is also that of the zero Producer.
const (
	StateCreateJust      ServiceState = iota // not started
	StateStartFailed                         // being started, or that failed
	StateRunning                             // may be used
	StateShutdownAlready                     // closed, for good
)

func (s ServiceState) String() string {
	if names := []string{"CREATE_JUST", "START_FAILED", "RUNNING", "SHUTDOWN_ALREADY"}; int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("ServiceState(%d)", uint8(s))
}

// StateError is the error of whatever is asked of a producer that is not
// running. Nothing was done. It matches message.ErrClosed after Close. Like
// RocketMQ's it has no code: CodeOf is protocol.NoCode.
type StateError struct {
	State ServiceState
}

func (e *StateError) Error() string {
	if e.State == StateShutdownAlready {
		return fmt.Sprintf("the producer is %v: %v", e.State, message.ErrClosed)
	}
	return fmt.Sprintf("the producer is %v, not %v: it was not made by NewProducer", e.State, StateRunning)
}

// Is makes errors.Is(err, message.ErrClosed) true after Close.
func (e *StateError) Is(target error) bool {
	return target == message.ErrClosed && e.State == StateShutdownAlready
}

// State is where the producer is in its life.
func (p *Producer) State() ServiceState { return ServiceState(p.state.Load()) }

// running returns nil when the producer may be used.
func (p *Producer) running() error {
	if s := p.State(); s != StateRunning {
		return &StateError{State: s}
	}
	return nil
}
