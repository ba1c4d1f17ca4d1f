package message

import (
	"errors"
	"fmt"
)

// Sentinels that a program branches on with errors.Is. The root package
// re-exports them.
var (
	// ErrClosed is returned by every call on something that was closed.
	ErrClosed = errors.New("closed")
	// ErrCorrupt marks bytes on disk that are not what was written. The error
	// is a *CorruptionError where file and position are known.
	ErrCorrupt = errors.New("corrupt data")
	// ErrLocked is returned by Open when another store owns the directory.
	ErrLocked = errors.New("directory is in use")
	// ErrDiskFull is returned when the file system has no room for a message.
	// Nothing was written; reads go on, and a later put may succeed.
	ErrDiskFull = errors.New("disk full")
	// ErrFlush is returned by the put that waited for a failed sync, and by
	// every later put until the store is opened again.
	ErrFlush = errors.New("sync to disk failed")
	// ErrFlushTimeout is returned when a message was stored but its sync was
	// not confirmed in time. The message is in the log and may be delivered.
	ErrFlushTimeout = errors.New("sync to disk not confirmed in time")
	// ErrOffsetNotFound is returned for a log offset at which no readable
	// record begins, or which is outside the log.
	ErrOffsetNotFound = errors.New("no message at this offset")

	// ErrLimit is matched by every *LimitError.
	ErrLimit = errors.New("limit exceeded")
	// ErrIllegal is matched by every *IllegalError.
	ErrIllegal = errors.New("illegal value")
)

// LimitError says which field of a message, batch or request is too long or
// too large. Nothing was written. It matches ErrLimit.
type LimitError struct {
	Field string // for example "topic", "body", "properties", "record"
	Limit int64  // the largest value allowed, or the smallest; bytes unless Unit says otherwise
	Value int64  // the value that was given
	Unit  string // "bytes" when empty

	AtLeast bool // Limit is the smallest value allowed
}

func (e *LimitError) Error() string {
	unit := e.Unit
	if unit == "" {
		unit = "bytes"
	}
	if e.AtLeast {
		return fmt.Sprintf("%s: %d %s, at least %d are needed", e.Field, e.Value, unit, e.Limit)
	}
	return fmt.Sprintf("%s: %d %s, limit is %d", e.Field, e.Value, unit, e.Limit)
}

// Is makes errors.Is(err, ErrLimit) true.
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// IllegalError says which field has a value that can not be stored or used.
// Nothing was written. It matches ErrIllegal.
type IllegalError struct {
	Field  string // for example "topic", "property name", "queue id"
	Value  string // the value, shortened for display
	Reason string // what is wrong with it, and what is allowed
}

func (e *IllegalError) Error() string {
	return fmt.Sprintf("%s %q: %s", e.Field, e.Value, e.Reason)
}

// Is makes errors.Is(err, ErrIllegal) true.
func (e *IllegalError) Is(target error) bool { return target == ErrIllegal }

// CorruptionError says where damaged bytes lie. It matches ErrCorrupt.
type CorruptionError struct {
	File   string    // path of the file, or "" where only the offset is known
	Offset LogOffset // position in the address space that File belongs to
	Err    error     // what is wrong there
}

func (e *CorruptionError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("corrupt data at offset %d: %v", e.Offset, e.Err)
	}
	return fmt.Sprintf("corrupt data in %s at offset %d: %v", e.File, e.Offset, e.Err)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptionError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap returns what is wrong at the position.
func (e *CorruptionError) Unwrap() error { return e.Err }

// shorten keeps error texts readable when a value is huge.
func shorten(s string) string {
	const keep = 60
	if len(s) <= keep {
		return s
	}
	return s[:keep] + "…"
}
