package broker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

const (
	// timerChunk bounds what is delivered, or put further on, before arrivals and
	// the rest have a turn.
	timerChunk = 256
	// timerTail is how many bytes of the log may lie behind the mark in the file
	// when a message was delivered there: what is looked through after a crash. It
	// is four times the file where that is more.
	timerTail = 16 << 20
	// timerChanges is how many changes the file may be behind, or half of what
	// waits where that is more: what is read again from the topic after a crash.
	timerChanges = 16_384
	// timerFileRate: a file of so many bytes is written once in an interval, larger
	// ones as much less often.
	timerFileRate = 64 << 10
)

// timers delivers messages with a time of their own: one goroutine, with one
// timer, for all of them. Nothing but their index is kept in memory.
//
// The log is the truth. A record of the timer topic waits, if it has TIMER_OUT_MS
// and REAL_TOPIC, and a record that bears endOf of it in its field
// preparedTransactionOffset has ended that: the copy that was delivered, which is a
// record of the real topic; one that cancels, which waits for nothing; or one that
// waits in its stead, because it got another time or was put further on. As each of
// these is one record, a crash leaves nothing half done.
//
// Source: RocketMQ 5 store/timer/TimerMessageStore.java, which has a wheel.
type timers struct {
	store    *store.DefaultMessageStore
	put      func(context.Context, *message.MessageExtBrokerInner) (store.PutMessageResult, error) // the store's
	now      func() time.Time
	horizon  time.Duration
	interval time.Duration // how long what was delivered may hold the log
	log      *slog.Logger
	dropped  *dropped
	arrivals

	ready  chan struct{} // closed when the index is complete
	held   atomic.Int64  // queue offset of the first one that waits, or may after a loss of power
	heldTo atomic.Int64  // log offset before which nothing should wait: see store.SetHeldBack

	mu      sync.Mutex // guards these
	state   timerState // state.mark is the file's
	changes int64      // of state, since the file was written
	dirty   bool       // something ended since held was set
	tail    int64      // timerTail

	// The rest is the goroutine's.
	delivered int64             // since the file was written
	end       message.LogOffset // of the copy that was delivered last
	releaseAt int64             // when held is to be set, in ms; 0: not dirty, as far as known
	saveAt    int64             // when the file is to be written, in ms; 0: no changes, as far as known
	pause     time.Duration     // after the last failure
	resumeAt  int64             // when it is over, in ms
	rolled    int64             // bytes put further on
	began     message.LogOffset // end of the log when the goroutine began

	// What catchUp has read.
	records int64 // of the log
	parks   int64 // of the topic
}

func openTimers(cfg Config, gone *dropped) *timers {
	return &timers{
		store: cfg.Store, put: cfg.Store.PutMessage, now: cfg.Now, horizon: cfg.TimerHorizon, interval: cfg.OffsetPersistInterval,
		tail: timerTail, log: cfg.Logger, dropped: gone, arrivals: newArrivals(), ready: make(chan struct{}),
	}
}

// endOf is what the record that ends the waiting of record offset has in
// preparedTransactionOffset. Nobody else writes negative numbers there.
func endOf(offset message.QueueOffset) message.LogOffset { return -1 - message.LogOffset(offset) }

// endedBy is the inverse of endOf.
func endedBy(prepared message.LogOffset) (offset message.QueueOffset, ok bool) {
	return message.QueueOffset(-1 - prepared), prepared < 0
}

// consumed is a store.Consumed for the queue of timed messages.
func (t *timers) consumed() message.QueueOffset { return message.QueueOffset(t.held.Load()) }

// heldBack is for store.SetHeldBack.
func (t *timers) heldBack(to message.LogOffset) {
	t.heldTo.Store(int64(to))
	t.wake()
}

// firstWaiting is the queue offset before which nothing waits. t.mu is held.
func (t *timers) firstWaiting() message.QueueOffset {
	if first, ok := t.state.index.byOffset.first(); ok {
		return first.offset
	}
	return t.state.next
}

func (t *timers) round(ctx context.Context) time.Duration {
	failed := t.follow(ctx)
	more := false
	if t.now().UnixMilli() >= t.resumeAt {
		var err error
		if more, err = t.deliverDue(ctx); err == nil {
			err = t.roll(ctx)
		}
		t.rateFailures(ctx, err)
	}
	if ctx.Err() != nil {
		return 0
	}
	now := t.now().UnixMilli()
	if err := t.persist(ctx, now); err != nil && ctx.Err() == nil {
		t.log.Error("progress of timed messages not saved", "err", err)
		t.releaseAt, t.saveAt = now+t.interval.Milliseconds(), now+t.interval.Milliseconds()
	}
	if more && t.now().UnixMilli() >= t.resumeAt {
		return 0
	}
	return t.rest(failed)
}

// rateFailures makes the goroutine pause after a failure, longer each time.
func (t *timers) rateFailures(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		t.pause = 0
		return
	}
	t.pause = backoff(t.pause)
	t.resumeAt = t.now().Add(t.pause).UnixMilli()
	t.log.Error("timed messages not delivered; will try again", "after", t.pause, "err", err)
}

// rest is how long there is nothing to do. While a message waits, the clock is
// looked at now and then.
func (t *timers) rest(failed error) time.Duration {
	t.mu.Lock()
	next, dirty, changed := max(t.state.index.earliest(), t.resumeAt), t.dirty, t.changes > 0
	t.mu.Unlock()
	longest := delayLookAgain
	if failed != nil {
		longest = time.Second // a message was parked and can not be seen yet
	}
	if dirty {
		next = min(next, t.releaseAt)
	}
	if changed {
		next = min(next, t.saveAt)
	}
	if next == never && failed == nil {
		return never
	}
	return min(max(time.UnixMilli(next).Sub(t.now()), 0), longest) // Sub saturates
}

// deliverDue delivers some of what is due, and reports whether there may be more.
func (t *timers) deliverDue(ctx context.Context) (more bool, err error) {
	for range timerChunk {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		t.mu.Lock()
		next, ok := t.state.index.claimDue(t.now().UnixMilli())
		t.mu.Unlock()
		if !ok {
			return false, nil
		}
		if err := t.deliver(ctx, next); err != nil {
			t.unclaim(next)
			return false, err
		}
	}
	return true, nil
}

// deliver puts a message where it was sent to. One that can not be delivered, now
// and later, is ended as if it were cancelled, so is one whose topic is gone, and one
// that can not be read is passed over.
func (t *timers) deliver(ctx context.Context, next timer) error {
	if err := t.limitTail(ctx); err != nil {
		return err
	}
	m, err := t.read(ctx, next.offset)
	if errors.Is(err, errLost) {
		t.log.Error("timed message passed over: not in the store or unreadable", "offset", next.offset, "due", next.due, "err", err)
		t.ended(next)
		return nil
	}
	if err != nil {
		return err
	}
	inner, err := delivery(m)
	if err == nil && t.isGone(&m) {
		return t.drop(ctx, next, &m)
	}
	if err == nil {
		err = t.putCopy(ctx, &inner, next)
	}
	if !errors.Is(err, errUndeliverable) {
		return err
	}
	t.log.Error("timed message can not be delivered: it is ended", "offset", next.offset, "id", m.ID(), "err", err)
	return t.putEnd(ctx, next, &m)
}

// drop ends a message whose topic is gone.
func (t *timers) drop(ctx context.Context, e timer, m *message.MessageExt) error {
	if err := t.putEnd(ctx, e, m); err != nil {
		return err
	}
	t.dropped.note(realTopic(m))
	return nil
}

// putEnd puts a record that ends a message, as if it were cancelled.
func (t *timers) putEnd(ctx context.Context, e timer, m *message.MessageExt) error {
	end := t.cancellation(e, m)
	end.NoWait = true
	res, err := t.put(ctx, &end)
	if !res.Status.Stored() {
		return err
	}
	t.ended(e)
	return nil
}

// isGone reports whether the topic of a message that waits is gone.
func (t *timers) isGone(m *message.MessageExt) bool {
	return t.dropped.isGone(realTopic(m), m.LogOffset)
}

func realTopic(m *message.MessageExt) string {
	topic, _ := m.Properties.Get(message.PropertyRealTopic)
	return topic
}

// putCopy puts what is to be delivered of next.
func (t *timers) putCopy(ctx context.Context, inner *message.MessageExtBrokerInner, next timer) error {
	inner.PreparedTransactionOffset = endOf(next.offset)
	res, err := t.put(ctx, inner)
	if !res.Status.Stored() || res.Count == 0 {
		return refused(err)
	}
	t.end = res.LogOffset + message.LogOffset(res.Bytes)
	t.delivered++
	t.ended(next)
	return nil
}

// errLost: the record is not in the store, or is damaged.
var errLost = errors.New("lost")

// read copies a record of the timer topic.
func (t *timers) read(ctx context.Context, offset message.QueueOffset) (message.MessageExt, error) {
	res, err := t.store.GetMessage(ctx, store.GetQuery{Topic: message.TimerTopic, Offset: offset, MaxCount: 1, Verify: true})
	if res == nil {
		return message.MessageExt{}, err
	}
	defer res.Release()
	if res.NextBeginOffset == offset && err != nil {
		return message.MessageExt{}, err // the queue can not be read
	}
	for _, v := range res.Messages {
		m, err := copyOut(v)
		if err != nil || m.QueueOffset == offset {
			return m, err
		}
	}
	return message.MessageExt{}, errors.Join(errLost, err)
}

// ended takes from the index what a record in the log has ended.
func (t *timers) ended(e timer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.index.end(e.offset) {
		t.changes++
	}
	t.dirty = true
}

// replaced is ended for what waits on in another record: lists have the one until
// follow has read the other.
func (t *timers) replaced(e timer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.index.replaced(e) {
		t.changes++
	}
	t.dirty = true
}

func (t *timers) unclaim(e timer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state.index.unclaim(e)
}

// cancellation is a record that ends the waiting of e, and nothing else.
func (t *timers) cancellation(e timer, m *message.MessageExt) message.MessageExtBrokerInner {
	inner := message.MessageExtBrokerInner{}
	inner.Topic = message.TimerTopic
	inner.Properties, _ = message.NewProperties(message.PropertyTimerDeleteKey, m.ID()) // an id that can not be one is left out
	inner.BornTimestamp, inner.BornHost = t.now().UnixMilli(), t.store.StoreHost()
	inner.PreparedTransactionOffset = endOf(e.offset)
	return inner
}

// replacement is a record that waits until due in the stead of m, the record of e.
func replacement(e timer, m message.MessageExt, due int64) (message.MessageExtBrokerInner, error) {
	inner, err := delivery(m)
	if err == nil && due != e.due {
		inner.Properties = inner.Properties.DeliverAt(time.UnixMilli(due))
	}
	if err == nil {
		inner, err = message.ParkTimer(inner, due)
	}
	inner.PreparedTransactionOffset = endOf(e.offset)
	inner.NoWait = false
	return inner, err
}

// due says when a message with these properties is to be delivered, if not at once.
func (t *timers) due(p message.Properties) (due int64, timed bool, err error) {
	now := t.now().UnixMilli()
	due, timed, err = p.TimerDue(now)
	if err != nil || !timed {
		return 0, false, err
	}
	if _, ok := p.Get(message.PropertyTimerDeleteKey); ok {
		return 0, false, &message.IllegalError{Field: "property " + message.PropertyTimerDeleteKey, Reason: "is not for messages: use CancelTimer"}
	}
	return due, due > now, t.checkHorizon(due, now)
}

func (t *timers) checkHorizon(due, now int64) error {
	if most := t.horizon.Milliseconds(); due > now && due-now > most {
		return &message.LimitError{Field: "delay until the time of delivery (Config.TimerHorizon)", Limit: most, Value: due - now, Unit: "ms"}
	}
	return nil
}

// parkedAt is parked for a message that was put, if it waits here.
func (t *timers) parkedAt(m *message.MessageExtBrokerInner, res *store.PutMessageResult) {
	if m.Topic == message.TimerTopic {
		t.parked(res.LogOffset + message.LogOffset(res.Bytes))
	}
}

// recallHandle is the handle of a message that waits.
func recallHandle(broker string, m *message.MessageExtBrokerInner, id message.OffsetMessageID) string {
	h := protocol.RecallHandle{Broker: broker, ID: m.UniqueKey()}
	h.Topic, _ = m.Properties.Get(message.PropertyRealTopic)
	if h.ID == "" {
		h.ID = id.String()
	}
	var err error
	if h.DeliverAt, err = outMillis(m.Properties); err != nil {
		return ""
	}
	return h.String()
}
