package commitlog

import (
	"context"
	"fmt"
	"time"

	"github.com/pocketmq/pocketmq/message"
)

// Wait blocks until the placement is on disk. It returns nil then, an error
// matching message.ErrFlush when the sync failed, message.ErrFlushTimeout after
// timeout, or ctx's error; in the last two cases the sync may still happen.
// Without staging it returns nil at once.
func (l *Log) Wait(ctx context.Context, p Placement, timeout time.Duration) error {
	if p.group == nil {
		return nil
	}
	select {
	case <-p.group.done:
		return p.group.err
	default:
	}
	l.waiting.sync.Add(1)
	defer l.waiting.sync.Add(-1)
	began := time.Now()
	select {
	case <-p.group.done:
		return p.group.err
	case <-p.group.overdue(timeout):
		return p.group.waitOn(ctx, timeout-time.Since(began))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitOn waits for what is left of a timeout.
func (g *group) waitOn(ctx context.Context, left time.Duration) error {
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-g.done:
		return g.err
	case <-t.C:
		return message.ErrFlushTimeout
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Flush puts on disk everything that was placed before the call, and returns
// nil when it is. The first failure is final: this and every later call returns
// an error that matches message.ErrFlush and has the cause. What Close found
// unsynced stays so: then it returns message.ErrClosed.
func (l *Log) Flush() error {
	done, err := l.flush()
	if done.To > done.From && l.cfg.Synced != nil {
		l.cfg.Synced(done)
	}
	return err
}

func (l *Log) flushMapped() error {
	l.take()
	end := l.visible.Load() // before the sync: it covers this much and no more
	from := l.durable.Load()
	if err := l.failure(); err != nil || from == end {
		return err
	}
	for at := from; at < end; at = l.fileEnd(at) {
		to := min(end, l.fileEnd(at))
		l.drop(at)
		if err := l.files.Sync(at, to); err != nil {
			return l.fail(err)
		}
		l.durable.Store(to) // who waits because too much is dirty goes on after each file
		l.mu.Lock()
		l.wake()
		l.mu.Unlock()
	}
	l.ahead.Renew()
	return nil
}

// tooDirty reports whether an append that ends at end has to wait for a Flush.
func (l *Log) tooDirty(end int64) bool {
	durable := l.durable.Load()
	return l.cfg.MaxDirty > 0 && l.visible.Load() > durable && end-durable > l.cfg.MaxDirty
}

// waitForFlush returns how to wait for the next Flush. The caller holds mu.
func (l *Log) waitForFlush() func(context.Context) error {
	if l.flushed == nil {
		l.flushed = make(chan struct{})
	}
	flushed := l.flushed
	return func(ctx context.Context) error {
		l.cfg.WantFlush()
		select {
		case <-flushed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wake ends the wait for a Flush. The caller holds mu.
func (l *Log) wake() {
	if l.flushed != nil {
		close(l.flushed)
		l.flushed = nil
	}
}

// drop takes the pages of the file of from that are written by now, from there on, out
// of the page tables. Else the sync that follows write-protects them one by one and
// interrupts every processor for each. It is only advice: errors do not matter.
func (l *Log) drop(from int64) {
	if f := l.files.Acquire(from); f != nil {
		_ = f.Drop(from-f.Base(), min(l.visible.Load(), f.End())-from)
		f.Unpin()
	}
}

func (l *Log) flushStaged() error {
	l.mu.Lock()
	g := l.staged
	if l.failed != nil || len(g.buf) == 0 {
		defer l.mu.Unlock()
		return l.failed
	}
	l.staged, l.spare = newGroup(l.size, l.spare), nil
	l.taken = l.messages
	l.mu.Unlock()

	if err := l.write(g); err != nil {
		err = l.fail(err)
		g.finish(err)
		return err
	}
	l.durable.Store(g.end)
	l.visible.Store(g.end)
	l.mu.Lock()
	l.spare = g.buf
	l.mu.Unlock()
	if l.cfg.Visible != nil {
		l.cfg.Visible()
	}
	l.completions.synced()
	g.finish(nil) // last: the goroutine that was woken last is the next to run on this processor
	return nil
}

// write puts the parts of g into their files and syncs them.
func (l *Log) write(g *group) error {
	buf := g.buf
	for _, p := range g.parts {
		if err := l.writeAt(buf[:p.size], p.offset); err != nil {
			return err
		}
		buf = buf[p.size:]
	}
	l.ahead.Look() // zeros that are written now do not hold up this write, and go with the next sync
	return l.files.Sync(g.parts[0].offset, g.end)
}

// writeAt puts b, which lies in one file, at the log offset.
func (l *Log) writeAt(b []byte, offset int64) error {
	f := l.files.Acquire(offset)
	if f == nil {
		return fmt.Errorf("the file for offset %d is gone", offset)
	}
	defer f.Unpin()
	_, err := f.WriteAt(b, offset-f.Base())
	return err
}

func (l *Log) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// fail records the failed sync and wakes all whose appends it takes along. The
// first failure stays, and is what it returns.
func (l *Log) fail(cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.give(fmt.Errorf("commit log: %w: %w", message.ErrFlush, cause))
	}
	return l.failed
}

// give makes err the answer to all whose appends are not synced, and to later
// ones. The caller holds mu.
func (l *Log) give(err error) {
	l.failed = err
	l.wake()
	if l.staged != nil {
		l.staged.finish(err)
		l.staged = newGroup(l.size, nil)
	}
	if l.completions != nil {
		l.completions.fail(err)
	}
}
