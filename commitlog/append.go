package commitlog

import (
	"context"
	"runtime/debug"
	"time"

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
// *message.LimitError for a record that fits in no file and for properties that
// leave no room for message.PropertyCRC32, a *message.IllegalError for properties
// with a sector of zeros, message.ErrClosed, the
// failed sync, an error matching segment.ErrNoSpace (a full disk) or
// segment.ErrFault (the mapped file was damaged from outside), or ctx's. ctx
// bounds the wait for room, nothing else. It allocates nothing once room is there.
func (l *Log) Append(ctx context.Context, m *message.MessageExt, c *Counter) (Placement, error) {
	return l.append(ctx, m, c, nil)
}

// AppendThen is Append for a log with staging that calls then when it is known
// how the sync ended; see Completion. After an error then is not called.
func (l *Log) AppendThen(ctx context.Context, m *message.MessageExt, c *Counter, then Completion) (Placement, error) {
	return l.append(ctx, m, c, then)
}

func (l *Log) append(ctx context.Context, m *message.MessageExt, c *Counter, then Completion) (Placement, error) {
	r := *m
	r.BodyCRC = message.BodyCRC(m.Body)
	if r.StoreHost == (message.Host{}) {
		r.StoreHost = l.cfg.StoreHost
	}
	var err error
	trailer := message.Trailer{CRC: l.cfg.AppendCRC}
	if r.Properties, err = legible(r.Properties.WithoutCRC32(trailer.CRC)); err != nil {
		return Placement{}, err
	}
	if err := r.CheckTrailer(trailer); err != nil {
		return Placement{}, err
	}
	size := r.RecordSizeWith(trailer)
	if err := l.lock(ctx, int64(size), then != nil); err != nil {
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
		record := l.staged.extend(l.end, size)
		r.PutRecordWith(record, trailer)
		l.remember(record)
	} else if err := l.putRecord(&r, size, trailer); err != nil {
		return Placement{}, err
	}
	if queued {
		c.next++
	}
	l.messages++
	return l.placed(r.QueueOffset, r.StoreTimestamp, size, then), nil
}

// AppendBatch places all records of b, which stand one after the other in one
// file and become visible together. c numbers the queue that they name. It
// returns like Append.
func (l *Log) AppendBatch(ctx context.Context, b *Batch, c *Counter) (Placement, error) {
	return l.appendBatch(ctx, b, c, nil)
}

// AppendBatchThen is to AppendBatch what AppendThen is to Append.
func (l *Log) AppendBatchThen(ctx context.Context, b *Batch, c *Counter, then Completion) (Placement, error) {
	return l.appendBatch(ctx, b, c, then)
}

func (l *Log) appendBatch(ctx context.Context, b *Batch, c *Counter, then Completion) (Placement, error) {
	size := len(b.records)
	if err := l.lock(ctx, int64(size), then != nil); err != nil {
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
	for i := range b.starts {
		l.remember(b.record(i))
	}
	c.next += message.QueueOffset(len(b.starts))
	if len(b.starts) > 1 {
		l.batches.add(l.end, l.end+int64(size))
	}
	l.messages += int64(len(b.starts))
	return l.placed(first, now, size, then), nil
}

// placed moves the end past size bytes that are in place, and tells where they
// lie. then, if not nil, is called after their sync.
func (l *Log) placed(queueOffset message.QueueOffset, now int64, size int, then Completion) Placement {
	p := Placement{LogOffset: message.LogOffset(l.end), QueueOffset: queueOffset, StoreTimestamp: now, Bytes: size, group: l.staged}
	l.end += int64(size)
	l.bytes += int64(size)
	if l.staged != nil {
		l.staged.end = l.end
		if then != nil {
			l.completions.add(then, p, time.Now())
		}
		l.ahead.Move(l.end) // see write
	} else {
		l.visible.Store(l.end)
		l.ahead.Advance(l.end)
	}
	return p
}

// putRecord, putBytes and putBlank write into a mapped file whose blocks are
// allocated. A fault, which means that the file was changed from outside, is an
// error; what was half written is behind the end and will be overwritten.

func (l *Log) putRecord(r *message.MessageExt, size int, t message.Trailer) (err error) {
	f := l.current
	defer f.Catch(debug.SetPanicOnFault(true), &err)
	record := f.Bytes()[l.end-f.Base():][:size]
	r.PutRecordWith(record, t)
	l.remember(record)
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
