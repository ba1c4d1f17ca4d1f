package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// GetQuery says which messages a GetMessage wants.
type GetQuery struct {
	Group   string // who asks; for statistics only
	Topic   string
	QueueID int32
	Offset  message.QueueOffset // of the first message

	// MaxCount is the most messages wanted; 0 counts as 1. Config.MaxTransferCount
	// bounds it. MaxBytes bounds their records together, 0 means
	// Config.MaxTransferBytes. One message is always given, however large.
	// (RocketMQ has lower bounds, 8 and 64 KiB, for messages that it takes to be
	// on disk only; this store has one pair.)
	MaxCount int
	MaxBytes int

	TagFilter message.TagFilter       // looked at before the record is touched
	Match     func(message.View) bool // if not nil, looked at last; the View is valid during the call
	Verify    bool                    // compare each record with its checksums: see message.View.Check
}

// GetMessageResult is the answer to a GetQuery. Messages lie in mapped memory:
// they and everything taken from them without a copy are invalid after Release,
// which every result needs. View.Message copies. A mapped file that is damaged
// or cut from outside while a View is read raises a fault (SIGBUS) in the
// reader; GetMessage itself turns that into an error.
type GetMessageResult struct {
	Status          GetMessageStatus
	NextBeginOffset message.QueueOffset // where to go on
	MinOffset       message.QueueOffset
	MaxOffset       message.QueueOffset
	Messages        []message.View
	Bytes           int // of all Messages

	pins  []*segment.File
	units *[unitChunk]consumequeue.Unit // room for those that are looked at
}

// Release gives the memory back. The result and its Messages must not be used
// afterwards. It is not idempotent.
func (r *GetMessageResult) Release() {
	for i, f := range r.pins {
		f.Unpin()
		r.pins[i] = nil
	}
	clear(r.Messages)
	r.Status, r.NextBeginOffset, r.MinOffset, r.MaxOffset, r.Bytes = 0, 0, 0, 0, 0
	r.Messages, r.pins = r.Messages[:0], r.pins[:0]
	results.Put(r)
}

var results = sync.Pool{New: func() any { return &GetMessageResult{units: new([unitChunk]consumequeue.Unit)} }}

// Units of a consume queue that one GetMessage looks at: as many bytes as
// RocketMQ's, so that a filter that matches nothing gets an answer.
const (
	minUnitBytes = 16_000
	maxCount     = 1 << 20 // larger ones count as this
	unitChunk    = 32      // read at once
)

// GetMessage returns messages of a queue from an offset on. Status says what
// happened, NextBeginOffset where to go on. An unknown queue is an empty one.
//
// An unreadable record ends the answer before it; when it is the first, the
// error matches message.ErrCorrupt and the result, which is not nil, goes on
// behind it. Other errors come with a nil result: message.ErrClosed, ctx's
// error. Nothing is allocated once pools are warm.
//
// Source: RocketMQ store/DefaultMessageStore.java, getMessage.
func (s *DefaultMessageStore) GetMessage(ctx context.Context, query GetQuery) (*GetMessageResult, error) {
	defer s.measures.get.since(beginGet())
	if err := s.checkOpen(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b := s.building.Load() // before the queue is looked up, which may come meanwhile
	q, err := consumequeue.Find(s.queues, query.Topic, query.QueueID)
	if err != nil {
		return nil, cmp.Or(s.checkOpen(), typed(err))
	}
	r := results.Get().(*GetMessageResult)
	if q == nil && b == nil {
		r.Status = GetNoMessageInQueue
		return r, nil
	}
	r.MinOffset, r.MaxOffset = b.bounds(q)
	if b != nil && query.Offset >= r.MaxOffset { // it may come yet
		r.Status, r.NextBeginOffset = GetOffsetOverflowOne, query.Offset
		return r, nil
	}
	if status, next, ok := outside(query.Offset, r.MinOffset, r.MaxOffset); ok {
		r.Status, r.NextBeginOffset = status, next
		return r, nil
	}
	g := get{
		store: s, query: query, queue: q, result: r, at: query.Offset, building: b != nil,
		maxCount: max(1, min(query.MaxCount, s.cfg.MaxTransferCount)), maxBytes: query.MaxBytes,
	}
	if g.maxBytes <= 0 {
		g.maxBytes = s.cfg.MaxTransferBytes
	}
	err = g.run()
	if s.closed.Load() { // files that are closed meanwhile look like files that are gone
		r.Release()
		return nil, fmt.Errorf("store: %w", message.ErrClosed)
	}
	s.stats.getMessages.Add(int64(len(r.Messages)))
	s.stats.getBytes.Add(int64(r.Bytes))
	return r, typed(err)
}

// outside answers for offsets that the queue does not have.
func outside(off, lo, hi message.QueueOffset) (GetMessageStatus, message.QueueOffset, bool) {
	switch {
	case hi == 0:
		return GetNoMessageInQueue, 0, true
	case off < lo:
		return GetOffsetTooSmall, lo, true
	case off == hi:
		return GetOffsetOverflowOne, off, true
	case off > hi:
		return GetOffsetOverflowBadly, hi, true // RocketMQ 4.9.3 goes back to 0 when lo is 0
	}
	return 0, 0, false
}

// get is one GetMessage under way.
type get struct {
	store    *DefaultMessageStore
	query    GetQuery
	queue    *consumequeue.Queue
	result   *GetMessageResult
	at       message.QueueOffset // the unit that is next
	file     *segment.File       // last one pinned; in result.pins
	resident message.LogOffset   // what lies before it, from the record read last on, is in memory
	skipTo   message.LogOffset   // units before it are in a file that is gone
	filtered bool                // the last unit left out was left out by a filter
	building bool                // units behind result.MaxOffset are not built yet
	maxCount int                 // of messages
	maxBytes int                 // of their records together
	clock    segment.Clock
	touched  byte // see touch
}

// run goes through the units and collects what matches.
func (g *get) run() error {
	units := g.result.units
	budget := max(minUnitBytes, min(g.query.MaxCount, maxCount)*consumequeue.UnitSize) / consumequeue.UnitSize
	fileEnd := g.queue.NextFile(g.at) // an answer does not cross consume queue files
	if g.building {
		fileEnd = min(fileEnd, g.result.MaxOffset)
	}
	g.result.Status = GetOffsetFoundNull
	g.result.NextBeginOffset = fileEnd
	for more := true; more && budget > 0 && g.at < fileEnd; {
		n, err := g.queue.ReadAt(&g.clock, g.at, units[:min(budget, g.chunk(), int(fileEnd-g.at))])
		if err != nil && len(g.result.Messages) == 0 { // the log has the messages: the next Open makes the units again
			g.result.NextBeginOffset = g.at
			return err
		}
		if err != nil || n == 0 {
			break
		}
		budget -= n
		if more, err = g.read(units[:n]); err == nil {
			more = more && len(g.result.Messages) < g.maxCount // without a look at the next units
			continue
		}
		if len(g.result.Messages) > 0 {
			break // the next call meets it first
		}
		g.at++
		g.end()
		return err
	}
	if g.at > g.query.Offset { // else no unit could be read
		g.end()
	}
	return nil
}

// chunk is how many units are read next: where all up to here led to a message, those
// that follow are mostly the rest of the answer, so no more than are still wanted.
func (g *get) chunk() int {
	n := len(g.result.Messages)
	if g.query.TagFilter.MatchesAll() && int(g.at-g.query.Offset) == n {
		return min(g.maxCount-n, unitChunk)
	}
	return unitChunk
}

// end says what the answer is, and that it goes on at g.at.
func (g *get) end() {
	r := g.result
	r.NextBeginOffset = g.at
	switch {
	case len(r.Messages) > 0:
		r.Status = GetFound
	case g.filtered:
		r.Status = GetNoMatchedMessage
	default:
		r.Status = GetMessageWasRemoving
	}
}

// read looks at units, of which g.at is the first, and leaves g.at at the first
// that is not done. More is false when the answer is full without it.
func (g *get) read(units []consumequeue.Unit) (more bool, err error) {
	defer g.catch(debug.SetPanicOnFault(true), &err)
	g.resident = 0
	for i := range units {
		if more, err = g.unit(units[i:]); !more || err != nil {
			return more, err
		}
		g.at++
	}
	return true, nil
}

// catch turns a fault in the file that is read into an error.
func (g *get) catch(old bool, err *error) {
	debug.SetPanicOnFault(old)
	if r := recover(); r != nil {
		if g.file == nil {
			panic(r)
		}
		*err = g.failed(g.file.Caught(r))
	}
}

func (g *get) failed(err error) error {
	return fmt.Errorf("queue %s/%d: %w", g.query.Topic, g.query.QueueID, err)
}

// unit looks at message g.at, whose unit is the first of units; false when the
// answer is full without it. The caller guards what is read.
func (g *get) unit(units []consumequeue.Unit) (more bool, err error) {
	u := &units[0]
	switch {
	case u.LogOffset < 0:
		return false, g.damagedUnit(u)
	case u.LogOffset < g.skipTo:
		return true, nil
	case u.IsBlank():
		g.filtered = false // its record is gone
		return true, nil
	case g.full(int(u.Size)):
		return false, nil
	case !g.query.TagFilter.Match(u.TagsCode):
		g.filtered = true
		return true, nil
	}
	if !g.pin(u.LogOffset) {
		if u.LogOffset >= g.store.log.MinOffset() {
			return false, g.damagedUnit(u)
		}
		g.filtered = false
		g.skipTo = g.store.log.NextFile(u.LogOffset)
		return true, nil
	}
	if u.LogOffset+message.LogOffset(u.Size) > g.resident {
		size := min(int64(u.Size), int64(g.store.cfg.MaxBodySize)+message.MaxRecordOverhead) // a damaged unit may say anything
		g.resident = g.store.log.MakeResident(g.file, u.LogOffset, size, &g.clock)
		g.touch(units)
	}
	v, err := g.store.log.ReadGuarded(g.file, u.LogOffset, g.query.Verify)
	if errors.Is(err, message.ErrOffsetNotFound) || err == nil && !g.wanted(u, v) {
		return false, g.damagedUnit(u)
	}
	if err != nil {
		return false, g.failed(err)
	}
	if g.query.Match != nil && !g.query.Match(v) {
		g.filtered = true
		return true, nil
	}
	g.result.Messages = append(g.result.Messages, v)
	g.result.Bytes += v.Size()
	g.skipTo = 0
	return true, nil
}

// touch loads bytes of both ends of each record that is about to be read and is known
// to be in memory; of a single one of usual size all lines, because who asks for one
// message wants its body. None of the loads waits for another one, as they do when
// records are read: where one begins says where it goes on. So the processor fetches
// what it does not have in its caches all at once.
func (g *get) touch(units []consumequeue.Unit) {
	b, base := g.file.Bytes(), message.LogOffset(g.file.Base())
	end := min(g.resident, base+message.LogOffset(len(b)))
	left := g.maxCount - len(g.result.Messages)
	sum := byte(0)
	for i := 0; i < len(units) && left > 0; i++ {
		u := &units[i]
		if !g.query.TagFilter.Match(u.TagsCode) {
			continue
		}
		if u.Size <= 0 || u.LogOffset < base || u.LogOffset > end-message.LogOffset(u.Size) {
			break
		}
		at := u.LogOffset - base
		record := b[at : at+message.LogOffset(u.Size)]
		last := len(record) - 1
		sum += record[0] + record[min(cacheLine, last)] + record[max(0, last-cacheLine)] + record[last]
		for p := 2 * cacheLine; g.maxCount == 1 && p < min(last, touchedWhole); p += cacheLine {
			sum += record[p]
		}
		left--
	}
	g.touched = sum // so that nothing is left out
}

// cacheLine is that of most processors, in bytes, and touchedWhole what a record of
// usual size has.
const cacheLine, touchedWhole = 64, 2 << 10

// wanted reports whether the unit's record is the message that was asked for.
func (g *get) wanted(u *consumequeue.Unit, v message.View) bool {
	return v.QueueOffset() == g.at && v.QueueID() == g.query.QueueID && v.Size() == int(u.Size) && string(v.Topic()) == g.query.Topic
}

// damagedUnit says that a unit does not lead to its message. What is in the log
// is not lost: without the consume queue, Open makes it again.
func (g *get) damagedUnit(u *consumequeue.Unit) error {
	return fmt.Errorf("queue %s/%d: %w: unit %d does not lead to its message (log offset %d, %d bytes)",
		g.query.Topic, g.query.QueueID, message.ErrCorrupt, g.at, u.LogOffset, u.Size)
}

// full reports whether a record of size more bytes is too much.
//
// Source: RocketMQ store/DefaultMessageStore.java, isTheBatchFull.
func (g *get) full(size int) bool {
	n := len(g.result.Messages)
	return n > 0 && (n >= g.maxCount || g.result.Bytes+size > g.maxBytes)
}

// pin makes g.file the log file that holds off, false if it is gone.
func (g *get) pin(off message.LogOffset) bool {
	if g.file != nil && int64(off) >= g.file.Base() && int64(off) < g.file.End() {
		return true
	}
	f := g.store.log.Acquire(off)
	if f == nil {
		return false
	}
	g.file = f
	g.result.pins = append(g.result.pins, f)
	return true
}

// LookMessageByOffset copies out the message whose record begins at off, after
// comparing the record with its checksums. The error matches
// message.ErrOffsetNotFound when no record begins there, message.ErrCorrupt when
// one does and is damaged. The body is as it was stored: compressed,
// if its SysFlag says so.
func (s *DefaultMessageStore) LookMessageByOffset(ctx context.Context, off message.LogOffset) (message.MessageExt, error) {
	if err := s.checkOpen(); err != nil {
		return message.MessageExt{}, err
	}
	if err := ctx.Err(); err != nil {
		return message.MessageExt{}, err
	}
	f := s.log.Acquire(off)
	if f == nil && s.closed.Load() {
		return message.MessageExt{}, s.checkOpen()
	}
	if f == nil {
		return message.MessageExt{}, fmt.Errorf("look at offset %d: %w", off, message.ErrOffsetNotFound)
	}
	defer f.Unpin()
	m, err := s.log.Copy(f, off)
	return m, typed(err)
}

// MinOffset is the log offset of the first message that is still there.
func (s *DefaultMessageStore) MinOffset() message.LogOffset { return s.log.MinOffset() }

// MaxOffset is the end of the log as readers see it.
func (s *DefaultMessageStore) MaxOffset() message.LogOffset { return s.log.Visible() }

// MinOffsetInQueue is the offset of the queue's first message that is still
// there; the maximum when there is none, 0 for an unknown queue.
func (s *DefaultMessageStore) MinOffsetInQueue(topic string, queueID int32) message.QueueOffset {
	return s.boundsOf(topic, queueID).MinOffset
}

// MaxOffsetInQueue is the offset that the queue's next message will get, as
// readers see it: what was placed and is not yet visible does not count.
func (s *DefaultMessageStore) MaxOffsetInQueue(topic string, queueID int32) message.QueueOffset {
	return s.boundsOf(topic, queueID).MaxOffset
}

// boundsOf finds a queue and tells its bounds, both 0 for an unknown one. Of a
// queue whose files can not be opened it tells what is known without them.
func (s *DefaultMessageStore) boundsOf(topic string, queueID int32) QueueInfo {
	b := s.building.Load()
	q, err := consumequeue.Find(s.queues, topic, queueID)
	switch {
	case q == nil:
		return QueueInfo{Topic: topic, QueueID: queueID}
	case err != nil:
		s.cfg.Logger.Error("consume queue can not be opened", "dir", s.dir, "topic", topic, "queue", queueID, "err", err)
		return QueueInfo{topic, queueID, q.First(), max(q.First(), q.Known)}
	}
	first, end := b.bounds(q)
	return QueueInfo{topic, queueID, first, end}
}

// CommitLogOffsetInQueue is the log offset of the queue's message, false if the
// queue does not have it.
func (s *DefaultMessageStore) CommitLogOffsetInQueue(topic string, queueID int32, off message.QueueOffset) (message.LogOffset, bool) {
	b := s.building.Load()
	q, err := consumequeue.Find(s.queues, topic, queueID)
	if q == nil || err != nil || !b.has(q, off) {
		return 0, false
	}
	u, ok := q.At(off)
	if !ok || u.IsBlank() {
		return 0, false
	}
	return u.LogOffset, true
}

// QueueInfo is one queue of the store.
type QueueInfo struct {
	Topic     string
	QueueID   int32
	MinOffset message.QueueOffset
	MaxOffset message.QueueOffset
}

// Queues lists the queues that have or had messages, by topic and id. It opens
// each of them: where there are many, QueueIDs is cheaper.
func (s *DefaultMessageStore) Queues() []QueueInfo {
	infos := make([]QueueInfo, 0, s.queues.Len())
	for topic, id := range s.QueueIDs() {
		infos = append(infos, s.boundsOf(topic, id))
	}
	slices.SortFunc(infos, func(a, b QueueInfo) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.QueueID, b.QueueID))
	})
	return infos
}

// QueueIDs gives topic and queue id of each queue that has or had messages, in no
// order.
func (s *DefaultMessageStore) QueueIDs() iter.Seq2[string, int32] {
	return func(yield func(string, int32) bool) {
		for _, q := range s.queues.All() {
			if !yield(q.Topic, q.ID) {
				return
			}
		}
	}
}
