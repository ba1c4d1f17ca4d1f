package broker

import (
	"context"
	"maps"
	"strconv"

	"github.com/pocketmq/pocketmq/message"
)

// catchUp makes the progress what it was when the last process ended: the file
// may be older. Offsets outside of their queues are moved to the nearest end.
// Then the copies of parked messages are looked for in the log, from where the
// file says, and at the earliest from when the first message was due. As each
// level is delivered in order, the next copy can only be that of the next message.
func (d *delays) catchUp(ctx context.Context) error {
	if err := d.store.WaitDispatched(ctx, d.store.MaxOffset()); err != nil {
		return err
	}
	d.findLevels()
	if d.progress.mark > d.store.MaxOffset() { // a part of the log is gone
		d.progress.marked = false
	}
	r := resume{d: d, waiting: map[int]*parkedMessage{}, from: d.progress.mark}
	if !d.progress.marked {
		r.from = d.store.MaxOffset()
	}
	earliest := int64(never)
	for _, l := range d.levels {
		lowest, highest := d.store.MinOffsetInQueue(message.ScheduleTopic, l.queueID()), d.store.MaxOffsetInQueue(message.ScheduleTopic, l.queueID())
		if next := max(min(l.next, highest), lowest); next != l.next {
			d.log.Warn("progress of delayed messages was outside of the queue", "level", l.level, "from", l.next, "to", next)
			l.next = next
			d.changed(l)
		}
		p, err := r.peek(ctx, l)
		if err != nil {
			return err
		}
		if p == nil {
			continue
		}
		earliest = min(earliest, d.table.DeliveryTime(l.level, p.inner.StoreTimestamp))
		if !d.progress.marked {
			r.from = min(r.from, p.logOffset)
		}
	}
	if earliest < never {
		if err := r.scan(ctx, max(r.from, d.store.OffsetByTime(earliest))); err != nil {
			return err
		}
	}
	if d.dirty {
		return d.save(ctx)
	}
	return nil
}

// resume looks for what was delivered and is not in the file.
type resume struct {
	d       *delays
	waiting map[int]*parkedMessage // the next one of each level that has one
	from    message.LogOffset
}

// peek finds the level's next message that can be delivered, nil for none, and
// keeps it. Of what was dropped the log has no copy.
func (r *resume) peek(ctx context.Context, l *delayLevel) (*parkedMessage, error) {
	delete(r.waiting, l.level)
	for at := l.next; ; {
		if at >= r.d.store.MaxOffsetInQueue(message.ScheduleTopic, l.queueID()) {
			return nil, nil
		}
		res, err := r.d.read(ctx, l, at, 1)
		if res == nil {
			return nil, err
		}
		next := res.NextBeginOffset
		if next <= at { // the queue can not be read: the others need not wait for it
			res.Release()
			return nil, nil
		}
		for _, v := range res.Messages {
			var p parkedMessage
			if p.inner, err = copyParked(v); err == nil && !r.d.dropped.isGone(p.inner.Topic, v.LogOffset()) {
				p.offset, p.logOffset = v.QueueOffset(), v.LogOffset()
				r.waiting[l.level] = &p
			}
		}
		res.Release()
		if p := r.waiting[l.level]; p != nil {
			return p, nil
		}
		at = next
	}
}

// scan goes through the log from an offset.
func (r *resume) scan(ctx context.Context, from message.LogOffset) error {
	found := 0
	for v, err := range r.d.store.Records(ctx, from) {
		if err != nil {
			return err
		}
		l := r.levelOf(v)
		if l == nil || !r.isCopy(v, r.waiting[l.level]) {
			continue
		}
		l.next = r.waiting[l.level].offset + 1
		r.d.changed(l)
		found++
		if _, err := r.peek(ctx, l); err != nil {
			return err
		}
		if len(r.waiting) == 0 {
			break
		}
	}
	if found > 0 {
		r.d.log.Info("delayed messages had been delivered before the last stop", "messages", found)
	}
	return nil
}

// levelOf is the level of which the record may be a copy, nil for none.
func (r *resume) levelOf(v message.View) *delayLevel {
	topic, ok := v.Property(message.PropertyRealTopic)
	if !ok || string(topic) != string(v.Topic()) {
		return nil
	}
	delay, _ := v.Property(message.PropertyDelayLevel)
	level, err := strconv.Atoi(string(delay))
	if err != nil || r.waiting[level] == nil {
		return nil
	}
	for _, l := range r.d.levels {
		if l.level == level {
			return l
		}
	}
	return nil
}

// isCopy reports whether the record is what delivering p has made. RocketMQ may
// have done it, which writes properties in another order. Without a mark the
// copy may be one that the file counts, of another message with the same content;
// only those with a unique key are told apart.
func (r *resume) isCopy(v message.View, p *parkedMessage) bool {
	m, want := v.Message(), &p.inner.MessageExt
	if !r.d.progress.marked && m.UniqueKey() == "" {
		return false
	}
	return v.LogOffset() > p.logOffset &&
		m.QueueID == want.QueueID && m.Flag == want.Flag && m.BodyCRC == want.BodyCRC && len(m.Body) == len(want.Body) &&
		m.BornTimestamp == want.BornTimestamp && m.BornHost == want.BornHost && m.ReconsumeTimes == want.ReconsumeTimes &&
		maps.Equal(propertyMap(m.Properties), propertyMap(want.Properties))
}

func propertyMap(p message.Properties) map[string]string {
	m := maps.Collect(p.All())
	delete(m, message.PropertyCRC32)
	return m
}
