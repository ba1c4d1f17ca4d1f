package commitlog

import (
	"context"
	"runtime/debug"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// Placement says where an append went. It is a value.
type Placement struct {
	LogOffset      message.LogOffset   // of the (first) record
	QueueOffset    message.QueueOffset // of the (first) message; 0 for records that take none
	StoreTimestamp int64               // ms, the same for all of a batch
	Bytes          int                 // of all records

	group *group // whose sync covers it; nil without staging
}

// End is the log offset after the last byte.
func (p Placement) End() message.LogOffset { return p.LogOffset + message.LogOffset(p.Bytes) }

// Append places m as one record. m must have passed Check; it is not changed,
// and what it says about its place, time and checksum is ignored. c numbers the
// queue that m names.
//
// Without staging the record is in the page cache, and visible, on return; with
// staging Wait says when it is on disk. On an error nothing was placed: a
// *message.LimitError for a record that fits in no file, message.ErrClosed, the
// failed sync, an error matching segment.ErrNoSpace (a full disk) or
// segment.ErrFault (the mapped file was damaged from outside), or ctx's. ctx
// bounds the wait for room, nothing else. It allocates nothing once room is there.
func (l *Log) Append(ctx context.Context, m *message.MessageExt, c *Counter) (Placement, error) {
	r := *m
	r.BodyCRC = message.BodyCRC(m.Body)
	if r.StoreHost == (message.Host{}) {
		r.StoreHost = l.cfg.StoreHost
	}
	size := r.RecordSize()
	if err := l.lock(ctx, int64(size)); err != nil {
		return Placement{}, err
	}
	defer l.mu.Unlock()
	queued := r.SysFlag.Queued()
	r.QueueOffset = 0
	if queued {
		r.QueueOffset = c.next
	}
	r.LogOffset = message.LogOffset(l.end)
	r.StoreTimestamp = l.now()
	if l.staged != nil {
		r.PutRecord(l.staged.extend(l.end, size))
	} else if err := putRecord(l.current, l.end-l.current.Base(), &r); err != nil {
		return Placement{}, err
	}
	if queued {
		c.next++
	}
	l.messages++
	return l.placed(r.QueueOffset, r.StoreTimestamp, size), nil
}

// AppendBatch places all records of b, which stand one after the other in one
// file and become visible together. c numbers the queue that they name. It
// returns like Append.
func (l *Log) AppendBatch(ctx context.Context, b *Batch, c *Counter) (Placement, error) {
	size := len(b.records)
	if err := l.lock(ctx, int64(size)); err != nil {
		return Placement{}, err
	}
	defer l.mu.Unlock()
	first, now := c.next, l.now()
	b.place(first, message.LogOffset(l.end), now)
	if l.staged != nil {
		copy(l.staged.extend(l.end, size), b.records)
	} else if err := putBytes(l.current, l.end-l.current.Base(), b.records); err != nil {
		return Placement{}, err
	}
	c.next += message.QueueOffset(len(b.starts))
	l.messages += int64(len(b.starts))
	return l.placed(first, now, size), nil
}

// placed moves the end past size bytes that are in place, and tells where they
// lie.
func (l *Log) placed(queueOffset message.QueueOffset, now int64, size int) Placement {
	p := Placement{LogOffset: message.LogOffset(l.end), QueueOffset: queueOffset, StoreTimestamp: now, Bytes: size, group: l.staged}
	l.end += int64(size)
	if l.staged != nil {
		l.staged.end = l.end
	} else {
		l.visible.Store(l.end)
	}
	l.ahead.Advance(l.end)
	return p
}

// putRecord, putBytes and putBlank write into a mapped file whose blocks are
// allocated. A fault, which means that the file was changed from outside, is an
// error; what was half written is behind the end and will be overwritten.

func putRecord(f *segment.File, at int64, r *message.MessageExt) (err error) {
	defer f.Catch(debug.SetPanicOnFault(true), &err)
	r.PutRecord(f.Bytes()[at:])
	return nil
}

func putBytes(f *segment.File, at int64, b []byte) (err error) {
	defer f.Catch(debug.SetPanicOnFault(true), &err)
	copy(f.Bytes()[at:], b)
	return nil
}

func putBlank(f *segment.File, at int64) (err error) {
	defer f.Catch(debug.SetPanicOnFault(true), &err)
	b := f.Bytes()[at:]
	message.PutBlank(b, len(b))
	return nil
}
