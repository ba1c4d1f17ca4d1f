package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/pocketmq/pocketmq/indexfile"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// KeyQuery says which messages a QueryMessage wants.
type KeyQuery struct {
	Topic string
	Key   string // a unique key, or a word of the property KEYS

	// MaxNum is the most messages wanted: the newest that many. 0 means
	// Config.MaxQueryResults, which also bounds it.
	MaxNum int
	// Begin and End bound the store time, in ms since the Unix epoch, both
	// included. End 0 means no bound.
	Begin, End int64
}

// QueryMessageResult is the answer to a KeyQuery. Messages lie in mapped memory,
// as those of a GetMessageResult do.
type QueryMessageResult struct {
	Messages []message.View // in the order of the log
	Bytes    int            // of all Messages

	// IndexedTimestamp and IndexedOffset are store time (ms) and log offset of
	// the last record that has an entry, 0 when there is none.
	IndexedTimestamp int64
	IndexedOffset    message.LogOffset

	pins    []*segment.File
	offsets []message.LogOffset // of Messages

	// Room for one message, which is what a unique key leads to.
	view   [1]message.View
	pin    [1]*segment.File
	offset [1]message.LogOffset
}

// Release gives the memory back. It is idempotent.
func (r *QueryMessageResult) Release() {
	for _, f := range r.pins {
		f.Unpin()
	}
	r.pins, r.Messages, r.offsets = nil, nil, nil
}

// ErrNoIndex is the answer to a query of a store with Config.NoIndex.
var ErrNoIndex = errors.New("the store has no index")

// QueryMessage finds messages by key: those that really have topic and key, and
// a store time within the bounds. What was put is found after it was indexed;
// see WaitIndexed. The result needs Release.
//
// Errors: ErrNoIndex, message.ErrClosed, ctx's error. One matching
// message.ErrCorrupt, for an index file that can not be read, comes with what
// the others gave.
//
// Source: RocketMQ store/DefaultMessageStore.java, queryMessage; there every
// message with a key of the same hash is an answer.
func (s *DefaultMessageStore) QueryMessage(ctx context.Context, q KeyQuery) (*QueryMessageResult, error) {
	if err := s.checkOpen(); err != nil {
		return nil, err
	}
	if s.index == nil {
		return nil, fmt.Errorf("query: %w", ErrNoIndex)
	}
	if q.MaxNum <= 0 {
		q.MaxNum = s.cfg.MaxQueryResults
	}
	if q.End == 0 {
		q.End = math.MaxInt64
	}
	r := newQueryResult()
	if h, ok := s.index.files.Newest(); ok {
		r.IndexedTimestamp, r.IndexedOffset = h.EndTimestamp, h.EndLogOffset
	}
	err := s.index.files.Query(q.Topic, q.Key, q.MaxNum, q.Begin, q.End, func(off message.LogOffset) bool {
		return ctx.Err() == nil && s.answers(off, &q, r)
	})
	if ctx.Err() != nil || s.closed.Load() {
		r.Release()
		return nil, errors.Join(ctx.Err(), s.checkOpen())
	}
	return r, typed(err)
}

func newQueryResult() *QueryMessageResult {
	r := &QueryMessageResult{}
	r.Messages, r.pins, r.offsets = r.view[:0], r.pin[:0], r.offset[:0]
	return r
}

// answers adds the record at off to r if it is one that q asks for.
func (s *DefaultMessageStore) answers(off message.LogOffset, q *KeyQuery, r *QueryMessageResult) bool {
	at, there := slices.BinarySearch(r.offsets, off)
	if there || off >= s.log.Visible() {
		return false
	}
	f := s.log.Acquire(off)
	if f == nil {
		return false
	}
	wanted := false
	err := s.log.View(f, off, func(v message.View) {
		stored := v.StoreTimestamp()
		if wanted = q.Begin <= stored && stored <= q.End && string(v.Topic()) == q.Topic && indexfile.HasKey(v, q.Key); wanted {
			r.add(at, off, v, f)
		}
	})
	if err != nil || !wanted {
		f.Unpin()
		return false
	}
	return true
}

// add makes v message at, and takes over a pin.
func (r *QueryMessageResult) add(at int, off message.LogOffset, v message.View, f *segment.File) {
	r.offsets = slices.Insert(r.offsets, at, off)
	r.Messages = slices.Insert(r.Messages, at, v)
	r.pins = append(r.pins, f)
	r.Bytes += v.Size()
}
