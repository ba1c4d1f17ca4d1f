package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
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
	k := keyQuery{store: s, result: r}
	err := s.index.files.Query(indexfile.Query{
		Topic: q.Topic, Key: q.Key, MaxNum: q.MaxNum, Begin: q.Begin, End: q.End,
		Touch: k.touch,
		Take:  func(off message.LogOffset) bool { return ctx.Err() == nil && k.take(off, &q) },
		Now:   &k.clock,
	})
	k.unpin()
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

// keyQuery is one QueryMessage under way. The query is not in it: compilers would take
// its strings for something that stays with the result.
type keyQuery struct {
	store   *DefaultMessageStore
	result  *QueryMessageResult
	file    *segment.File // last one pinned
	kept    bool          // that pin is the result's
	clock   segment.Clock
	touched byte // see touch
}

// touchedRecord is how much of a candidate is touched, in bytes: all of most records
// with a small body, and what tells the rest of others where it is.
const touchedRecord = 512

// touch loads a byte of each of a record's first lines, and waits for none of them:
// the processor fetches them while the index is searched for more.
func (k *keyQuery) touch(off message.LogOffset) {
	visible := k.store.log.Visible()
	if off >= visible || !k.pin(off) {
		return
	}
	var fault error // take meets it
	defer k.file.Catch(debug.SetPanicOnFault(true), &fault)
	k.store.log.MakeResident(k.file, off, touchedRecord, &k.clock)
	base := message.LogOffset(k.file.Base())
	sum := byte(0)
	record := k.file.Bytes()[off-base : min(off+touchedRecord, visible, message.LogOffset(k.file.End()))-base]
	for p := 0; p < len(record); p += cacheLine {
		sum += record[p]
	}
	k.touched = sum // so that nothing is left out
}

// take adds the record at off to the result if it is one that q asks for.
func (k *keyQuery) take(off message.LogOffset, q *KeyQuery) bool {
	at, there := slices.BinarySearch(k.result.offsets, off)
	if there || off >= k.store.log.Visible() || !k.pin(off) {
		return false
	}
	v, wanted := k.read(off, q)
	if wanted {
		k.add(at, off, v)
	}
	return wanted
}

// read reads the record at off, which is not wanted if there is no sound one.
func (k *keyQuery) read(off message.LogOffset, q *KeyQuery) (v message.View, wanted bool) {
	var err error
	defer k.file.Catch(debug.SetPanicOnFault(true), &err)
	k.store.log.Warm(k.file, off, &k.clock)
	v, err = k.store.log.ReadGuarded(k.file, off, false)
	if err != nil {
		return v, false
	}
	stored := v.StoreTimestamp()
	return v, q.Begin <= stored && stored <= q.End && string(v.Topic()) == q.Topic && indexfile.HasKey(v, q.Key)
}

// add makes v message at.
func (k *keyQuery) add(at int, off message.LogOffset, v message.View) {
	r := k.result
	r.offsets = slices.Insert(r.offsets, at, off)
	r.Messages = slices.Insert(r.Messages, at, v)
	r.Bytes += v.Size()
	if !k.kept {
		r.pins, k.kept = append(r.pins, k.file), true
	}
}

// pin makes k.file the log file that holds off, false if it is gone.
func (k *keyQuery) pin(off message.LogOffset) bool {
	if k.file != nil && int64(off) >= k.file.Base() && int64(off) < k.file.End() {
		return true
	}
	f := k.store.log.Acquire(off)
	if f == nil {
		return false
	}
	k.unpin()
	k.file, k.kept = f, false
	return true
}

// unpin lets go of k.file, if the result has nothing in it.
func (k *keyQuery) unpin() {
	if k.file != nil && !k.kept {
		k.file.Unpin()
	}
	k.file = nil
}
