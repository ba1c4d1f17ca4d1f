package broker

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

const (
	// delayChunk bounds what one level delivers before the others have a turn.
	delayChunk      = 32
	delayChunkBytes = 1 << 20
	// delayTail is how many bytes of the log may lie behind the mark in the file
	// when a message is delivered: what is looked through after a crash.
	delayTail = 16 << 20
)

// delays delivers delayed messages when they are due: one goroutine, with one
// timer, for all levels. While no message waits, it sleeps.
//
// What is delivered has the bytes that RocketMQ gives it: the properties as they
// were parked, with DELAY, REAL_TOPIC and REAL_QID.
//
// Source: RocketMQ store/schedule/ScheduleMessageService.java.
type delays struct {
	store    *store.DefaultMessageStore
	put      func(context.Context, *message.MessageExtBrokerInner) (store.PutMessageResult, error) // the store's
	table    message.DelayLevels
	now      func() time.Time
	tail     message.LogOffset // delayTail
	interval time.Duration     // how long what was delivered may stay unsaved
	log      *slog.Logger
	dropped  *dropped

	arrivals

	// The rest, but for saved, is the goroutine's.
	levels   []*delayLevel // by level
	progress delayProgress
	end      message.LogOffset // of the copy that was delivered last
	dirty    bool              // something is not saved
	saveAt   int64             // then: when it is to be, in ms

	mu    sync.Mutex   // guards these two, for who only reads them
	saved queueOffsets // next by level, as on disk
	live  queueOffsets // next by level
}

// delayLevel is one level and its queue.
type delayLevel struct {
	level   int
	next    message.QueueOffset // first message that was not delivered
	due     int64               // when it is, in ms; never when there is none
	skew    int64               // see dueAt
	backoff time.Duration       // the last pause after a failure
}

func (l *delayLevel) queueID() int32 { return int32(l.level - 1) }

// openDelays reads the progress. A file and a backup that are both damaged are an
// error.
func openDelays(cfg Config, gone *dropped) (*delays, error) {
	p, _, err := readDelayProgress(cfg.Store)
	if err != nil {
		return nil, err
	}
	d := &delays{
		store: cfg.Store, put: cfg.Store.PutMessage, table: cfg.Store.DelayLevels(), now: cfg.Now, tail: delayTail, interval: cfg.OffsetPersistInterval, log: cfg.Logger, dropped: gone,
		arrivals: newArrivals(), progress: p, saved: maps.Clone(p.next), live: maps.Clone(p.next),
	}
	return d, nil
}

// findLevels lists the levels of the table, and others that have a queue or an
// offset: the table may have had more.
func (d *delays) findLevels() {
	levels := map[int]bool{}
	for i := range d.table {
		levels[i+1] = true
	}
	for level := range d.progress.next {
		levels[int(level)] = level > 0
	}
	for topic, id := range d.store.QueueIDs() {
		if topic == message.ScheduleTopic && id >= 0 {
			levels[int(id)+1] = true
		}
	}
	d.levels = nil
	for _, level := range slices.Sorted(maps.Keys(levels)) {
		if levels[level] {
			d.levels = append(d.levels, &delayLevel{level: level, next: max(d.progress.next[int32(level)], 0)})
		}
	}
}

// parkedAt is parked for a message that was put, if it is a delayed one.
func (d *delays) parkedAt(m *message.MessageExtBrokerInner, res *store.PutMessageResult) {
	if m.Topic == message.ScheduleTopic {
		d.parked(res.LogOffset + message.LogOffset(res.Bytes))
	}
}

// consumed is a store.Consumed for the queues of delayed messages: what is not
// known to be delivered is held.
func (d *delays) consumed(queueID int32) message.QueueOffset {
	d.mu.Lock()
	defer d.mu.Unlock()
	return max(d.saved[queueID+1], 0)
}

// finish saves.
func (d *delays) finish() error {
	if !d.dirty {
		return nil
	}
	return d.save(context.Background())
}

// round delivers all that is due and returns how long there is nothing to do.
func (d *delays) round(ctx context.Context) time.Duration {
	var failed error
	if placed := message.LogOffset(d.placed.Load()); placed > 0 {
		failed = d.store.WaitDispatched(ctx, placed)
	}
	for _, l := range d.levels {
		if l.due == never {
			l.due = 0 // there may be one by now
		}
	}
	for more := true; more && ctx.Err() == nil; {
		more = false
		for _, l := range d.levels {
			more = d.turn(ctx, l) || more
		}
	}
	now := d.now().UnixMilli()
	if d.dirty && d.saveAt <= now && ctx.Err() == nil {
		if err := d.save(ctx); err != nil {
			d.log.Error("progress of delayed messages not saved", "err", err)
			d.saveAt = now + d.interval.Milliseconds()
		}
	}
	return d.rest(now, failed)
}

// rest is how long there is nothing to do.
func (d *delays) rest(now int64, failed error) time.Duration {
	next := int64(never)
	for _, l := range d.levels {
		next = min(next, l.due)
	}
	if d.dirty {
		next = min(next, d.saveAt)
	}
	longest := delayLookAgain
	switch {
	case failed != nil:
		longest = time.Second // a message was parked and can not be seen yet
	case next == never:
		return never
	}
	return time.Duration(max(0, min(next-now, longest.Milliseconds()))) * time.Millisecond
}

// turn delivers some of a level's messages that are due, and reports whether
// there may be more. After a failure the level pauses.
func (d *delays) turn(ctx context.Context, l *delayLevel) (more bool) {
	if l.due > d.now().UnixMilli() {
		return false
	}
	more, err := d.deliverSome(ctx, l)
	switch {
	case err == nil:
		l.backoff = 0
		return more
	case ctx.Err() != nil:
		return false
	}
	l.backoff = backoff(l.backoff)
	l.due = d.now().Add(l.backoff).UnixMilli()
	d.log.Error("delayed message not delivered; will try again", "level", l.level, "offset", l.next, "after", l.backoff, "err", err)
	return false
}

func (d *delays) deliverSome(ctx context.Context, l *delayLevel) (more bool, err error) {
	if d.store.MaxOffsetInQueue(message.ScheduleTopic, l.queueID()) <= l.next {
		l.due = never
		return false, nil
	}
	res, err := d.read(ctx, l, l.next, delayChunk)
	if res == nil {
		return false, err
	}
	defer res.Release()
	if len(res.Messages) == 0 {
		return true, d.passTo(l, res.NextBeginOffset, err)
	}
	for _, v := range res.Messages {
		p, err := d.unpark(l, v)
		if err == nil && p.due > d.now().UnixMilli() {
			l.due = p.due
			return false, nil
		}
		if err == nil {
			err = d.deliver(ctx, &p)
		}
		if err != nil && !errors.Is(err, errUndeliverable) {
			return false, err
		}
		if err != nil {
			d.log.Error("delayed message passed over", "level", l.level, "offset", p.offset, "err", err)
		}
		l.next = p.offset + 1
		d.changed(l)
		if err != nil {
			d.saveAt = 0 // nothing in the log tells that it was passed over
		}
	}
	return true, nil
}

// read returns messages of the level.
func (d *delays) read(ctx context.Context, l *delayLevel, at message.QueueOffset, count int) (*store.GetMessageResult, error) {
	return d.store.GetMessage(ctx, store.GetQuery{
		Topic: message.ScheduleTopic, QueueID: l.queueID(), Offset: at, MaxCount: count, MaxBytes: delayChunkBytes, Verify: true,
	})
}

// passTo goes on at an offset because nothing before it can be read.
func (d *delays) passTo(l *delayLevel, next message.QueueOffset, why error) error {
	if next == l.next {
		if why == nil {
			why = errors.New("the queue can not be read")
		}
		return why
	}
	d.log.Error("delayed messages passed over: not in the store or unreadable", "level", l.level, "from", l.next, "to", next, "err", why)
	l.next = next
	d.changed(l)
	return nil
}

// changed notes that l.next is not saved.
func (d *delays) changed(l *delayLevel) {
	d.progress.next[int32(l.level)] = l.next
	d.mu.Lock()
	d.live[int32(l.level)] = l.next
	d.mu.Unlock()
	if !d.dirty {
		d.dirty, d.saveAt = true, d.now().UnixMilli()+d.interval.Milliseconds()
	}
}

// deliver puts the message where it was sent to, unless that is gone.
func (d *delays) deliver(ctx context.Context, p *parkedMessage) error {
	if d.dropped.isGone(p.inner.Topic, p.logOffset) {
		d.dropped.note(p.inner.Topic)
		return nil
	}
	if !d.progress.marked || d.store.MaxOffset()-d.progress.mark > d.tail {
		if err := d.save(ctx); err != nil {
			return err
		}
	}
	res, err := d.put(ctx, &p.inner)
	if res.Status.Stored() && res.Count > 0 {
		d.end = res.LogOffset + message.LogOffset(res.Bytes)
		return nil
	}
	return refused(err)
}

// save writes the file. What it counts as delivered is on disk before, and so is
// the place in the log that it names.
func (d *delays) save(ctx context.Context) error {
	mark := max(d.end, d.store.MaxOffset())
	if err := d.store.Flush(ctx); err != nil {
		return err
	}
	p := d.progress
	p.marked, p.mark = true, mark
	if err := p.write(d.store); err != nil {
		return err
	}
	d.progress, d.dirty = p, false
	d.mu.Lock()
	d.saved = maps.Clone(p.next)
	d.mu.Unlock()
	d.store.NotifyConsumed()
	return nil
}

// dueAt is when a message is due, in ms. The clock may be behind the time in the
// record: it was set back, and times in the log do not decrease. Such messages
// wait from the moment in which the first of them was seen.
func (d *delays) dueAt(l *delayLevel, stored int64) int64 {
	if ahead := stored - d.now().UnixMilli(); ahead > 0 {
		l.skew = max(l.skew, ahead)
	} else {
		l.skew = 0
	}
	return d.table.DeliveryTime(l.level, stored) - l.skew
}
