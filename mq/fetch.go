package mq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

const (
	// suspend is how long one pull waits at a broker.
	suspend = 15 * time.Second
	// prefetched is how many batches of a queue may wait to be handed out.
	prefetched = 2
	// First and longest pause after a failed pull.
	minBackoff = 100 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// fetcher reads all queues of a topic, each with a goroutine that is ahead of
// whoever takes the messages by a bounded number of batches. One more goroutine
// follows the topic's route, so that queues which appear later are read too.
type fetcher struct {
	ns            namespace
	topic, group  string // like all names in here, as brokers know them
	retryTopic    string // is read as well, if not empty, without a filter
	tagExpression string
	queueIDs      map[int32]bool // nil for all
	maxMessages   int
	maxBytes      int
	names         protocol.NameService
	connect       Connect
	start         Position // of queues that are there at first
	later         Position // of queues that appear afterwards
	follow        bool     // go on at the end of a queue
	interval      time.Duration
	log           *slog.Logger
	copier        copier

	ctx     context.Context // ends with close; goroutines live on it, calls do not
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	arrived chan struct{} // a token when there is something to take
	changed chan struct{} // a token when routes are to be looked at

	mu      sync.Mutex
	queues  map[protocol.MessageQueue]*queueState
	ready   []*batch // in the order of their arrival
	reading int      // goroutines that read a queue
	closed  bool
}

// queueState is one queue that is read.
type queueState struct {
	protocol.MessageQueue

	stop  context.CancelFunc
	space chan struct{} // a token when a batch was handed out

	// The rest is guarded by the fetcher's mutex.
	broker   protocol.Broker
	position message.QueueOffset // after what was handed out
	fetched  message.QueueOffset // after what was read
	pending  int                 // batches not handed out
	dead     bool                // the goroutine ended because the broker did

	committed   message.QueueOffset // guarded by the consumer's commit mutex
	isCommitted bool
}

// batch is what one pull gave: messages, and errors in their places.
type batch struct {
	queue *queueState
	items []item              // not handed out
	begun bool                // one was
	next  message.QueueOffset // position when all are handed out
}

type item struct {
	m    *message.MessageExt
	err  error
	next message.QueueOffset
}

// run starts reading. An error leaves no goroutine behind.
func (f *fetcher) run(ctx context.Context) error {
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.arrived = make(chan struct{}, 1)
	f.queues = map[protocol.MessageQueue]*queueState{}
	f.changed = make(chan struct{}, 1)
	unwatch := f.names.WatchRoutes(f.changed)
	if err := f.refresh(ctx, f.start); err != nil {
		unwatch()
		f.close()
		return err
	}
	if !f.follow {
		unwatch()
		return nil
	}
	f.wg.Go(func() {
		defer unwatch()
		f.watch()
	})
	return nil
}

// close ends all goroutines and waits for them. What was fetched is dropped.
func (f *fetcher) close() {
	f.mu.Lock()
	f.closed = true
	f.ready = nil
	f.mu.Unlock()
	f.cancel()
	f.wg.Wait()
}

// watch looks for new queues after each change that is announced, and at every
// interval for name services that announce none.
func (f *fetcher) watch() {
	ticker := time.NewTicker(f.interval)
	defer ticker.Stop()
	for {
		select {
		case <-f.changed:
		case <-ticker.C:
		case <-f.ctx.Done():
			return
		}
		if err := f.refresh(f.ctx, f.later); err != nil && f.ctx.Err() == nil {
			f.log.Warn("route not refreshed", "topic", f.topic, "err", err)
		}
	}
}

// refresh makes the queues that are read those of the routes.
func (f *fetcher) refresh(ctx context.Context, start Position) error {
	err := f.refreshTopic(ctx, f.topic, start)
	if f.retryTopic == "" {
		return err
	}
	return errors.Join(err, f.refreshTopic(ctx, f.retryTopic, f.later))
}

// refreshTopic makes the queues of a topic that are read those of its route. A
// topic that does not exist has none.
func (f *fetcher) refreshTopic(ctx context.Context, topic string, start Position) error {
	route, err := f.names.RouteOfTopic(ctx, topic)
	if err != nil && !errors.Is(err, protocol.TopicNotExist) {
		return err
	}
	var errs []error
	current := map[protocol.MessageQueue]bool{}
	for _, q := range route.ReadQueues(topic) {
		if f.queueIDs != nil && !f.queueIDs[q.QueueID] {
			continue
		}
		current[q] = true
		data, _ := route.Broker(q.BrokerName)
		if err := f.add(ctx, q, data, start); err != nil {
			errs = append(errs, fmt.Errorf("queue %v: %w", q, err))
		}
	}
	if err == nil {
		f.removeExcept(topic, current)
	}
	return errors.Join(errs...)
}

// add begins to read a queue, or goes on when its broker was gone.
func (f *fetcher) add(ctx context.Context, q protocol.MessageQueue, data protocol.BrokerData, start Position) error {
	f.mu.Lock()
	s := f.queues[q]
	known := s != nil && !s.dead
	f.mu.Unlock()
	if known {
		return nil
	}
	broker, err := f.connect(ctx, data)
	if err != nil {
		return err
	}
	if s == nil {
		s = &queueState{MessageQueue: q, space: make(chan struct{}, 1)}
		if s.position, err = start(ctx, broker, q); err != nil {
			return err
		}
		s.fetched = s.position
	}
	end := message.QueueOffset(-1)
	if !f.follow {
		if end, err = broker.GetMaxOffset(ctx, q.Topic, q.QueueID); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return message.ErrClosed
	}
	if now := f.queues[q]; now != nil {
		if !now.dead {
			return nil
		}
		s = now // that of a seek, perhaps
	}
	f.startReading(s, broker, end)
	return nil
}

// startReading begins to read a queue at where it is. f.mu is held.
func (f *fetcher) startReading(s *queueState, broker protocol.Broker, end message.QueueOffset) {
	s.broker, s.dead = broker, false
	f.queues[s.MessageQueue] = s
	f.reading++
	reading, stop := context.WithCancel(f.ctx)
	s.stop = stop
	offset := s.fetched
	f.wg.Go(func() {
		defer stop()
		f.read(reading, s, broker, offset, end)
		f.mu.Lock()
		f.reading--
		f.mu.Unlock()
		f.wake()
	})
}

// removeExcept stops reading queues that the topic no longer has.
func (f *fetcher) removeExcept(topic string, current map[protocol.MessageQueue]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for q, s := range f.queues {
		if q.Topic == topic && !current[q] && !s.dead {
			s.stop()
			delete(f.queues, q)
		}
	}
}

// read fetches a queue from offset on, to end unless that is negative.
func (f *fetcher) read(ctx context.Context, s *queueState, broker protocol.Broker, offset, end message.QueueOffset) {
	req := protocol.PullMessageRequest{
		Group: f.group, Topic: s.Topic, QueueID: s.QueueID, TagExpression: f.tagExpression,
		MaxMessages: f.maxMessages, MaxBytes: f.maxBytes,
	}
	if s.Topic != f.topic {
		req.TagExpression = "" // its messages have been selected before
	}
	if f.follow {
		req.Suspend = suspend
	}
	backoff := minBackoff
	for end < 0 || offset < end {
		if !f.hasSpace(ctx, s) {
			return
		}
		req.Offset = offset
		began := time.Now()
		resp, err := broker.PullMessage(ctx, req)
		if ctx.Err() != nil {
			release(&resp)
			return
		}
		if err != nil {
			f.push(ctx, &batch{queue: s, items: []item{{err: fmt.Errorf("pull from %v: %w", s.MessageQueue, err), next: offset}}, next: offset})
			if errors.Is(err, message.ErrClosed) {
				f.brokerGone(s)
				return
			}
			if !pause(ctx, backoff) {
				return
			}
			backoff = min(2*backoff, maxBackoff)
			continue
		}
		backoff = minBackoff
		b := f.collect(s, offset, end, &resp)
		release(&resp)
		if len(b.items) == 0 && b.next == offset {
			if !f.follow {
				return // the broker has less than it said
			}
			if time.Since(began) < minBackoff && !pause(ctx, minBackoff) {
				return // it did not wait, and must not be asked all the time
			}
			continue
		}
		offset = b.next
		f.push(ctx, b)
	}
}

func release(resp *protocol.PullMessageResponse) {
	if resp.Release != nil {
		resp.Release()
	}
}

// pause waits about d, or returns false when ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d + rand.N(d/4))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// collect makes a batch of an answer to a pull at offset.
func (f *fetcher) collect(s *queueState, offset, end message.QueueOffset, resp *protocol.PullMessageResponse) *batch {
	b := &batch{queue: s, next: offset}
	skip := func(to message.QueueOffset, err error) {
		b.items = append(b.items, item{err: &SkippedError{f.ns.queue(s.MessageQueue), b.next, to, err}, next: to})
		b.next = to
	}
	switch resp.Code {
	case protocol.Success:
		f.copyAll(b, end, resp.Messages, skip)
		if end < 0 || resp.NextBeginOffset < end {
			b.next = max(b.next, resp.NextBeginOffset)
		} else {
			b.next = end
		}
	case protocol.PullRetryImmediately, protocol.PullOffsetMoved:
		switch {
		case resp.NextBeginOffset <= offset:
			// Back into the queue: what is there is new, whatever the offset was.
			b.next = resp.NextBeginOffset
		case resp.Lost != nil:
			skip(resp.NextBeginOffset, fmt.Errorf("%w: %w", ErrGone, resp.Lost))
		case resp.Code == protocol.PullOffsetMoved:
			skip(resp.NextBeginOffset, fmt.Errorf("%w (%s)", ErrGone, resp.Status))
		default:
			b.next = resp.NextBeginOffset
		}
	default:
	}
	return b
}

// copyAll appends the messages below end to b. Without a filter every message
// is expected, so one that is missing was lost.
func (f *fetcher) copyAll(b *batch, end message.QueueOffset, views []message.View, skip func(message.QueueOffset, error)) {
	b.items = make([]item, 0, len(views))
	c := f.copier
	if b.queue.Topic != f.topic {
		c.tags = nil
	}
	for _, v := range views {
		off, m, err := c.copyOut(v, b.next)
		if end >= 0 && off >= end {
			return
		}
		if off > b.next && c.tags == nil {
			skip(off, ErrGone)
		}
		b.next = off
		switch {
		case err != nil:
			skip(off+1, err)
			continue
		case m != nil:
			m.BrokerName = b.queue.BrokerName
			if topic, ok := m.Properties.Get(protocol.PropertyRetryTopic); ok && m.Topic == f.retryTopic {
				m.Topic = topic
			}
			m.Topic = f.ns.unwrap(m.Topic)
			b.items = append(b.items, item{m: m, next: off + 1})
		}
		b.next = off + 1
	}
}

// hasSpace waits until another batch of the queue may be fetched.
func (f *fetcher) hasSpace(ctx context.Context, s *queueState) bool {
	for {
		f.mu.Lock()
		room := s.pending < prefetched
		f.mu.Unlock()
		if room {
			return true
		}
		select {
		case <-s.space:
		case <-ctx.Done():
			return false
		}
	}
}

// push has a batch handed out, unless the queue is not read any more, or from
// elsewhere.
func (f *fetcher) push(ctx context.Context, b *batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || ctx.Err() != nil {
		return
	}
	b.queue.pending++
	b.queue.fetched = b.next
	f.ready = append(f.ready, b)
	f.wake()
}

// brokerGone has the route looked at again: there may be another broker of the
// same name by now.
func (f *fetcher) brokerGone(s *queueState) {
	f.mu.Lock()
	s.dead = true
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *fetcher) wake() {
	select {
	case f.arrived <- struct{}{}:
	default:
	}
}

// receive returns the next message, waiting for it if need be. The error is
// io.EOF when all queues were read to their ends, message.ErrClosed after
// close, that of ctx, or that of an item.
func (f *fetcher) receive(ctx context.Context) (*message.MessageExt, error) {
	for {
		if it, ok := f.take(false); ok {
			return it.m, it.err
		}
		select {
		case <-f.arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.ctx.Done():
			return nil, message.ErrClosed
		}
	}
}

// ended reports whether err is what receive returns from now on.
func (f *fetcher) ended(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	return ctx.Err() != nil && errors.Is(err, ctx.Err()) || f.ctx.Err() != nil && errors.Is(err, message.ErrClosed)
}

// take returns what receive would without waiting, or only if it is a message.
func (f *fetcher) take(onlyMessage bool) (item, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return item{err: message.ErrClosed}, !onlyMessage
	}
	for len(f.ready) > 0 {
		b := f.ready[0]
		if len(b.items) == 0 {
			f.finish(b)
			continue
		}
		it := b.items[0]
		if onlyMessage && it.m == nil {
			return item{}, false
		}
		b.items[0] = item{}
		b.items, b.begun = b.items[1:], true
		b.queue.position = it.next
		if len(b.items) == 0 {
			f.finish(b)
		}
		if len(f.ready) > 0 {
			f.wake() // for another one who waits
		}
		return it, true
	}
	if !f.follow && f.reading == 0 {
		f.wake()
		return item{err: io.EOF}, !onlyMessage
	}
	return item{}, false
}

// finish removes the first batch, which was handed out.
func (f *fetcher) finish(b *batch) {
	b.queue.position = b.next
	b.queue.pending--
	f.ready[0] = nil
	f.ready = f.ready[1:]
	select {
	case b.queue.space <- struct{}{}:
	default:
	}
}

// between reports whether the next take begins a batch, or has to wait.
func (f *fetcher) between() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ready) == 0 || !f.ready[0].begun
}
