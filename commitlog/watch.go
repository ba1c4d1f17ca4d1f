package commitlog

import (
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/message"
)

// Sync is one sync of the log, which put [From, To) on disk. It is a value.
type Sync struct {
	From, To message.LogOffset
	Messages int64         // that began in it; without staging one placed in that moment may count for the next
	Took     time.Duration // writing what was collected, and the sync
}

// flush does the work of Flush, and says what it did.
func (l *Log) flush() (s Sync, err error) {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	began := time.Now()
	l.syncing.Store(&began)
	defer l.syncing.Store(nil)
	s.From = l.Durable()
	if l.cfg.Staged {
		err = l.flushStaged()
	} else {
		err = l.flushMapped()
	}
	if err != nil { // of several files some may be synced, but there is no later Sync to tell of the rest
		s.To = s.From
		return s, err
	}
	if s.To = l.Durable(); s.To == s.From {
		return s, nil
	}
	s.Took = time.Since(began)
	l.mu.Lock()
	s.Messages, l.counted = l.taken-l.counted, l.taken
	l.mu.Unlock()
	return s, nil
}

// take counts the messages that a sync takes along which begins now.
func (l *Log) take() {
	l.mu.Lock()
	l.taken = l.messages
	l.mu.Unlock()
}

// waiting counts the calls that wait at the moment.
type waiting struct{ room, sync atomic.Int64 }

// Waiting is how many appends wait for room, which is space on disk or the end
// of a sync that holds memory, and how many calls of Wait for their sync.
func (l *Log) Waiting() (room, sync int64) { return l.waiting.room.Load(), l.waiting.sync.Load() }

// Failure is the failed sync, or what Fail was given, which refuses all appends;
// nil if there is none. Closing the log with something unsynced counts as one,
// with message.ErrClosed.
func (l *Log) Failure() error { return l.failure() }

// StoreTimestamp is when the first readable record at or behind off was stored, in
// ms, as far as that can be told without a search: the end of a file and damage
// that is known are passed over. False if there is none below the visible end.
func (l *Log) StoreTimestamp(off message.LogOffset) (stored int64, ok bool) {
	for off < l.Visible() {
		f := l.Acquire(off)
		if f == nil {
			return 0, false
		}
		err := l.View(f, off, func(v message.View) { stored = v.StoreTimestamp() })
		f.Unpin()
		if err == nil {
			return stored, true
		}
		if end, ok := l.knownDamage(int64(off)); ok {
			off = message.LogOffset(end)
		} else {
			off = l.NextFile(off)
		}
	}
	return 0, false
}

// SyncAge is how long the Flush that is under way has taken so far, zero when
// none is.
func (l *Log) SyncAge() time.Duration {
	began := l.syncing.Load()
	if began == nil {
		return 0
	}
	return time.Since(*began)
}
