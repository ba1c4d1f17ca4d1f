package broker

import (
	"container/heap"
	"container/list"
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// transactions knows the half messages whose transaction is open: it ends them
// when a client says so, and asks clients about those of which nobody speaks. One
// goroutine, with one timer, reads the half topic, asks, gives up, rolls forward
// and saves. While no transaction is open, it sleeps.
//
// Four kinds of records are made from a half message, each of which ends what it
// is made from: the real message, its copy in the topic of those given up, a newer
// half message (rolled forward), and the op message that says so. All but the last
// have the log offset of the half message as PreparedTransactionOffset. So when
// the op message is missing after a crash, the log tells.
//
// Source: RocketMQ broker/transaction/queue/TransactionalMessageServiceImpl.java.
type transactions struct {
	store      *store.DefaultMessageStore
	put        func(context.Context, *message.MessageExtBrokerInner) (store.PutMessageResult, error) // the store's
	clients    *clientTable
	offsets    *offsetTable
	rules      checkRules
	broker     string // its name
	host       message.Host
	now        func() time.Time
	interval   time.Duration     // how long progress may stay unsaved
	tail       message.LogOffset // how far the mark may lie behind while transactions are open
	rollLeast  message.LogOffset
	log        *slog.Logger
	giveUpInto func(context.Context) error // makes the topic of those given up
	real       func(context.Context, *message.MessageExt) error

	kick     chan struct{} // a token when there is something for the goroutine
	ready    chan struct{} // closed when it is known what is open
	closing  <-chan struct{}
	rollAt   atomic.Int64 // end of the log at which the first open half message is to be rolled forward
	readMu   sync.Mutex   // held while the half topic is read
	saved    atomic.Int64 // as on disk: the queue offset of the first half message that may be open,
	savedOps atomic.Int64 // and of the first op message that may count
	started  int64        // in ms

	mu      sync.Mutex
	open    map[message.QueueOffset]*half  // also by offsets that they had before they were rolled forward
	order   *list.List                     // of *half, those that were read, by offset
	due     halfHeap                       // the same, by when to look at them
	seen    message.QueueOffset            // half messages before it were read
	ending  map[*half]struct{}             // that somebody is about to end, or that lack their op message
	noOp    []*half                        // that have ended and lack their op message
	absent  map[string]bool                // groups without a client that could be asked
	placed  message.LogOffset              // end of the last half message that was put
	readAt  int64                          // when to read the half topic, in ms; never when there is nothing new
	dirty   bool                           // progress is not saved
	saveAt  int64                          // then: when it is to be, in ms
	senders map[message.QueueOffset]string // the client of half messages that were not read yet

	// The rest is the goroutine's.
	mark message.LogOffset // on disk: see markField; less than 0 when there is none
	// The rest is the goroutine's.
	quota   checkQuota
	backoff time.Duration // the pause after the last round, if it failed
}

// half is a half message whose transaction is open.
type half struct {
	offset message.QueueOffset
	log    message.LogOffset
	old    []message.QueueOffset // its offsets before it was rolled forward

	group  string
	client string // that sent it, if known
	since  int64  // when it was sent, in ms
	checks int    // how often a client was asked
	alone  bool   // when it was looked at, there was no client of the group
	next   int64  // when to look at it, in ms

	place  *list.Element // nil until it was read
	index  int           // in the heap; less than 0 when it is not there
	ending chan struct{} // while somebody is about to end it; closed then
	began  message.LogOffset
	done   bool // it has ended: the record that says so is in the log, if perhaps not the op message
}

func openTransactions(b *Broker, cfg Config) (*transactions, error) {
	t := &transactions{
		store: cfg.Store, put: cfg.Store.PutMessage, clients: &b.clients, offsets: b.offsets,
		rules: rulesOf(cfg), broker: cfg.Name, host: cfg.Store.StoreHost(), now: cfg.Now,
		interval: cfg.OffsetPersistInterval, tail: delayTail, rollLeast: rollLeast, log: cfg.Logger, closing: b.closing,
		giveUpInto: b.ensureGivenUp, real: b.putReal,
		kick: make(chan struct{}, 1), ready: make(chan struct{}), started: cfg.Now().UnixMilli(),
		open: map[message.QueueOffset]*half{}, order: list.New(), ending: map[*half]struct{}{}, absent: map[string]bool{},
		readAt: never, saveAt: never, senders: map[message.QueueOffset]string{},
	}
	t.rollAt.Store(math.MaxInt64)
	return t, t.readProgress()
}

// finish implements deliverer.
func (t *transactions) finish() error {
	t.passEnded()
	return t.saveChanges(context.Background())
}

// wake has the goroutine look again.
func (t *transactions) wake() {
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// await waits until it is known which transactions are open.
func (t *transactions) await(ctx context.Context) error {
	select {
	case <-t.ready:
		return nil
	case <-t.closing:
		return message.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sent says that a message was put. Half messages are read from their topic, soon;
// what is in it alone counts.
func (t *transactions) sent(m *message.MessageExtBrokerInner, res *store.PutMessageResult, client string) {
	end := int64(res.LogOffset) + int64(res.Bytes)
	if at := t.rollAt.Load(); end > at && t.rollAt.CompareAndSwap(at, math.MaxInt64) {
		t.wake()
	}
	if m.Topic != message.HalfTopic {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.placed = max(t.placed, message.LogOffset(end))
	switch h := t.open[res.QueueOffset]; {
	case client == "":
	case h != nil:
		h.client = client
	case res.QueueOffset >= t.seen:
		t.senders[res.QueueOffset] = client
	}
	t.readSoon()
}

// readSoon has the half topic read in a while, so that most transactions have
// ended by then. It needs mu, as all that follows.
func (t *transactions) readSoon() {
	if t.readAt == never {
		t.readAt = t.now().Add(t.rules.readAfter()).UnixMilli()
		t.wake()
	}
}

// changed notes that progress is not saved.
func (t *transactions) changed() {
	if !t.dirty {
		t.dirty, t.saveAt = true, t.now().Add(t.interval).UnixMilli()
		t.wake()
	}
}

// claim returns a half message that is the caller's to end, until release; nil
// when it has ended. Where another caller is about to end it, claim waits for what
// becomes of that.
func (t *transactions) claim(ctx context.Context, off message.QueueOffset) (*half, error) {
	for {
		h, other := t.tryClaim(off)
		if other == nil {
			return h, nil
		}
		select {
		case <-other:
		case <-t.closing:
			return nil, message.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryClaim is claim, with a channel to wait for where claim would wait.
func (t *transactions) tryClaim(off message.QueueOffset) (h *half, other <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h = t.open[off]
	switch {
	case h == nil && off < t.seen, h != nil && h.done:
		return nil, nil
	case h == nil: // not read yet
		h = &half{offset: off, log: -1, index: -1}
		t.open[off] = h
	case h.ending != nil:
		return nil, h.ending
	}
	h.ending, h.began = make(chan struct{}), t.store.MaxOffset()
	t.ending[h] = struct{}{}
	return h, nil
}

// release says what became of a claim.
func (t *transactions) release(h *half, outcome outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(h.ending)
	h.ending = nil
	switch outcome {
	case stillOpen:
		if h.log < 0 { // nothing is known of it
			delete(t.open, h.offset)
		}
		delete(t.ending, h)
		return
	case ended:
		delete(t.ending, h)
	case endedWithoutOp: // stays in ending
		t.noOp = append(t.noOp, h)
		t.wake()
	}
	t.drop(h)
}

// outcome is what became of a claim.
type outcome uint8

const (
	stillOpen outcome = iota
	ended
	endedWithoutOp
)

// drop forgets a half message that has ended. One that was not read yet stays, so
// that it is not taken for an open one then.
func (t *transactions) drop(h *half) {
	h.done = true
	for _, off := range h.old {
		delete(t.open, off)
	}
	h.old = nil
	t.unlist(h)
	if h.index >= 0 {
		heap.Remove(&t.due, h.index)
	}
	if h.offset < t.seen {
		delete(t.open, h.offset)
	}
	t.changed()
}

// unlist takes a half message out of the order.
func (t *transactions) unlist(h *half) {
	if h.place == nil {
		return
	}
	first := h.place == t.order.Front()
	t.order.Remove(h.place)
	h.place = nil
	if first {
		t.watchFirst()
	}
}

// list adds a half message that was read, behind the others.
func (t *transactions) list(h *half) {
	h.place = t.order.PushBack(h)
	if h.place == t.order.Front() {
		t.watchFirst()
	}
	if h.index < 0 {
		heap.Push(&t.due, h)
	} else {
		heap.Fix(&t.due, h.index)
	}
}

// first is the oldest half message that was read and is open, nil for none.
func (t *transactions) first() *half {
	if e := t.order.Front(); e != nil {
		return e.Value.(*half)
	}
	return nil
}

// halfHeap has what is to be looked at first on top.
type halfHeap []*half

func (q halfHeap) Len() int { return len(q) }
func (q halfHeap) Less(i, j int) bool {
	return q[i].next < q[j].next || q[i].next == q[j].next && q[i].offset < q[j].offset
}
func (q halfHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push is heap.Interface's.
func (q *halfHeap) Push(x any) {
	h := x.(*half)
	h.index = len(*q)
	*q = append(*q, h)
}

// Pop is heap.Interface's.
func (q *halfHeap) Pop() any {
	old := *q
	h := old[len(old)-1]
	old[len(old)-1] = nil
	*q, h.index = old[:len(old)-1], -1
	return h
}
