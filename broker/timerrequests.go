package broker

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// CancelTimer puts a record into the log that ends the waiting of a timed message.
func (b *Broker) CancelTimer(ctx context.Context, req protocol.CancelTimerRequest) error {
	return b.endTimers(ctx, req, func(e timer, m *message.MessageExt) (message.MessageExtBrokerInner, error) {
		return b.timers.cancellation(e, m), nil
	})
}

// RescheduleTimer puts a record into the log that waits in the stead of a timed
// message.
func (b *Broker) RescheduleTimer(ctx context.Context, req protocol.RescheduleTimerRequest) error {
	if err := b.timers.checkHorizon(req.DeliverAt, b.timers.now().UnixMilli()); err != nil {
		return refuse(protocol.MessageIllegal, "", err)
	}
	return b.endTimers(ctx, req.CancelTimerRequest, func(e timer, m *message.MessageExt) (message.MessageExtBrokerInner, error) {
		return replacement(e, *m, req.DeliverAt)
	})
}

// claimed is a timer that nobody else ends, and its message.
type claimed struct {
	timer

	message message.MessageExt
}

// endTimers puts a record for each timed message of the request that ends it.
func (b *Broker) endTimers(ctx context.Context, req protocol.CancelTimerRequest, by func(timer, *message.MessageExt) (message.MessageExtBrokerInner, error)) error {
	if err := b.timersReady(ctx); err != nil {
		return err
	}
	found, err := b.timers.claimByID(ctx, req)
	if err != nil {
		return refuse(protocol.SystemError, "timed message "+req.ID, err)
	}
	if len(found) == 0 {
		return refuse(protocol.QueryNotFound, "timed message "+req.ID, protocol.ErrNotPending)
	}
	var errs []error
	for i := range found {
		inner, err := by(found[i].timer, &found[i].message)
		if err != nil {
			b.timers.unclaim(found[i].timer)
			errs = append(errs, refuse(protocol.MessageIllegal, "timed message "+req.ID, err))
			continue
		}
		errs = append(errs, b.endTimer(ctx, found[i].timer, &inner))
	}
	return errors.Join(errs...)
}

// endTimer puts the record that ends a timer which was claimed.
func (b *Broker) endTimer(ctx context.Context, e timer, inner *message.MessageExtBrokerInner) error {
	res, err := b.timers.put(ctx, inner)
	code, err := answerPut(&res, err)
	if !code.Stored() {
		b.timers.unclaim(e)
		b.timers.wake()
		return err
	}
	if _, ok := inner.Properties.Get(message.PropertyRealTopic); ok {
		b.timers.replaced(e)
	} else {
		b.timers.ended(e)
	}
	b.timers.parkedAt(inner, &res)
	return err
}

// timersReady waits until it is known what waits, up to now.
func (b *Broker) timersReady(ctx context.Context) error {
	if err := b.open(); err != nil {
		return err
	}
	select {
	case <-b.timers.ready:
	case <-b.closing:
		return b.open()
	case <-ctx.Done():
		return refuse(protocol.SystemError, "timed messages are being looked for", ctx.Err())
	}
	if err := b.timers.follow(ctx); err != nil {
		return refuse(protocol.SystemError, "timed messages", err)
	}
	return nil
}

// claimByID claims those that the request names.
func (t *timers) claimByID(ctx context.Context, req protocol.CancelTimerRequest) (found []claimed, err error) {
	t.mu.Lock()
	candidates := t.state.index.withKey(keyOf(req.ID))
	t.mu.Unlock()
	for _, e := range candidates {
		m, err := t.read(ctx, e.offset)
		if errors.Is(err, errLost) { // it was delivered and removed meanwhile, or can not be delivered
			continue
		}
		if err != nil {
			for _, c := range found {
				t.unclaim(c.timer)
			}
			return nil, err
		}
		if m.ID() != req.ID || req.Topic != "" && realTopic(&m) != req.Topic || t.isGone(&m) {
			continue
		}
		t.mu.Lock()
		if t.state.index.claim(e) {
			found = append(found, claimed{e, m})
		}
		t.mu.Unlock()
	}
	return found, nil
}

// listTimers is how many messages a page has at most, and if nobody says how many.
const listTimers = 1000

// ListTimers returns a page of what waits.
func (b *Broker) ListTimers(ctx context.Context, req protocol.ListTimersRequest) (protocol.ListTimersResponse, error) {
	resp := protocol.ListTimersResponse{Next: req.From, More: true}
	if err := b.timersReady(ctx); err != nil {
		return protocol.ListTimersResponse{}, err
	}
	most := req.Max
	if most <= 0 || most > listTimers {
		most = listTimers
	}
	var err error
	for err == nil && resp.More && len(resp.Timers) < most {
		if resp.Next.Level == 0 {
			err = b.timers.list(ctx, &resp, most)
		} else {
			err = b.delays.list(ctx, &resp, most)
		}
	}
	if err != nil {
		return protocol.ListTimersResponse{}, refuse(protocol.SystemError, "waiting messages", err)
	}
	return resp, nil
}

// list adds timed messages to a page of at most so many. What is put further on
// meanwhile keeps its time and gets a higher offset, so that it is not missed, but
// may come again if it shares its millisecond with the end of a page.
func (t *timers) list(ctx context.Context, page *protocol.ListTimersResponse, most int) error {
	t.mu.Lock()
	found := t.state.index.listFrom(dueTimer{page.Next.Due, page.Next.Offset}, most-len(page.Timers))
	t.mu.Unlock()
	for _, d := range found {
		page.Next = protocol.TimerPosition{Due: d.due, Offset: d.offset + 1}
		m, err := t.read(ctx, d.offset)
		if errors.Is(err, errLost) {
			continue
		}
		if err != nil {
			return err
		}
		if !t.isGone(&m) {
			page.Timers = append(page.Timers, timerInfo(&m, 0, d.due))
		}
	}
	if len(found) == 0 {
		page.Next = protocol.TimerPosition{Level: 1}
	}
	return nil
}

// timerInfo is what is told of a record that waits.
func timerInfo(m *message.MessageExt, level int, due int64) protocol.TimerInfo {
	info := protocol.TimerInfo{ID: m.ID(), Level: level, DeliverAt: due, Bytes: int(m.StoreSize)}
	if inner, err := delivery(*m); err == nil {
		info.Topic, info.QueueID = inner.Topic, inner.QueueID
	}
	return info
}

// list adds messages of one delay level to a page of at most so many.
func (d *delays) list(ctx context.Context, page *protocol.ListTimersResponse, most int) error {
	level := page.Next.Level
	levels := d.levelsWithQueue()
	if i, _ := slices.BinarySearch(levels, level); i == len(levels) {
		page.More = false
		return nil
	} else if levels[i] != level {
		page.Next = protocol.TimerPosition{Level: levels[i]}
		return nil
	}
	l := &delayLevel{level: level}
	d.mu.Lock()
	l.next = max(d.live[int32(level)], page.Next.Offset)
	d.mu.Unlock()
	res, err := d.read(ctx, l, l.next, most-len(page.Timers))
	if res == nil {
		return err
	}
	defer res.Release()
	if len(res.Messages) == 0 && res.NextBeginOffset <= l.next || l.next >= res.MaxOffset {
		page.Next = protocol.TimerPosition{Level: min(level, math.MaxInt-1) + 1}
		return nil
	}
	page.Next.Offset = res.NextBeginOffset
	for _, v := range res.Messages {
		m, err := copyOut(v)
		if err != nil {
			return err
		}
		if !d.dropped.isGone(realTopic(&m), m.LogOffset) {
			page.Timers = append(page.Timers, timerInfo(&m, level, d.table.DeliveryTime(level, m.StoreTimestamp)))
		}
	}
	return nil
}

// levelsWithQueue lists the levels that have a queue.
func (d *delays) levelsWithQueue() (levels []int) {
	for topic, id := range d.store.QueueIDs() {
		if topic == message.ScheduleTopic && id >= 0 {
			levels = append(levels, int(id)+1)
		}
	}
	slices.Sort(levels)
	return levels
}
