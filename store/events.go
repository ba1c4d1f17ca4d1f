package store

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/message"
)

// Events are functions that a store calls when something happens. Each may be
// nil; then nothing is called.
//
// They are called by the goroutine to which it happened, which is named at each,
// with no lock of the store held. One may be called by several goroutines at
// once. That goroutine waits for the function: it must return soon, and must not
// call Close, Shutdown, Flush or a put, which may wait for that same goroutine.
// Stats, Health and gets are allowed, but not before Open has returned. A panic
// is caught, logged and otherwise ignored.
type Events struct {
	// Recovered is called by Open's goroutine when it has recovered the
	// directory, before messages can be put. Only Damaged may come before.
	Recovered func(Recovery)

	// Flushed is called after each sync of the log that put something on disk, by
	// the goroutine that syncs: the flusher, the one that saves progress, or that
	// of a Flush. Those who wait for the sync have their answer already.
	Flushed func(FlushEvent)

	// SegmentCreated is called when the log has gone on to another file, and
	// SegmentRemoved when a file of the log is gone, in the order of the log.
	// They come with the next sync, or when progress is saved, from that
	// goroutine.
	SegmentCreated func(SegmentEvent)
	SegmentRemoved func(SegmentEvent)

	// DispatchFailed is called when messages can not be given to the consume
	// queues, or the index, by their dispatcher's goroutine: once, while it tries
	// again and again. DispatchResumed follows when it has succeeded.
	DispatchFailed  func(DispatchEvent)
	DispatchResumed func(DispatchEvent)

	// Damaged is called for each range of the log that is found unreadable, by
	// the goroutine that finds it: a dispatcher's, or Open's.
	Damaged func(commitlog.Damage)

	// DiskFull is called by the goroutine of a put that was refused because there
	// is no space; not again before a message was stored.
	DiskFull func(DiskFullEvent)

	// WritesRefused is called once, when a sync failed (message.ErrFlush) or a file
	// of the log was replaced (ErrMoved): from then on every put is refused with
	// that error, until the store is opened again. The goroutine is that of the
	// sync, or the one that saves progress.
	WritesRefused func(error)
}

// FlushEvent is one sync of the log, which put [From, To) on disk.
type FlushEvent struct {
	From, To message.LogOffset
	Messages int64         // placed since the sync before, and on disk now
	Took     time.Duration // writing what was collected, and the sync
}

// SegmentEvent names a file of the log and the offsets it has room for.
type SegmentEvent struct {
	Path     string
	From, To message.LogOffset
}

// DispatchEvent says where dispatching stands.
type DispatchEvent struct {
	Sink   Sink
	Offset message.LogOffset // of the first message that is not dispatched
	Err    error             // of the last attempt that failed
	Since  time.Time         // when the first one failed
}

// DiskFullEvent says what had no room.
type DiskFullEvent struct {
	Err  error // matches message.ErrDiskFull
	Free int64 // bytes that the disk has for this user, -1 if unknown
}

// Sink is what a dispatcher feeds.
type Sink uint8

// The sinks.
const (
	SinkQueues Sink = iota // the consume queues, and those who wait for messages
	SinkIndex              // the index by key
)

func (s Sink) String() string { return nameOf([]string{"queues", "index"}, uint8(s)) }

// fire calls f, if there is one, and survives it.
func fire[E any](s *DefaultMessageStore, name string, f func(E), event E) {
	if f == nil {
		return
	}
	defer s.survive(name)
	f(event)
}

// survive logs the panic of a function, if there is one. It is to be deferred.
func (s *DefaultMessageStore) survive(event string) {
	if p := recover(); p != nil {
		s.cfg.Logger.Error("a function of Config.Events panicked", "dir", s.dir, "event", event,
			"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
}
