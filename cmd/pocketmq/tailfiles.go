package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/mq"
)

const (
	// turn is how many messages of a queue are printed before those of the next.
	turn = 100
	// pollInterval is how often to look for messages of another process, which
	// announces them to nobody.
	pollInterval = 200 * time.Millisecond
)

// filesTail reads a topic from the files.
type filesTail struct {
	dir   string
	flags tailFlags
	start message.QueueOffset
	out   *output

	before  message.LogOffset // what lies before it in the log was deleted with its topic
	readers map[int32]*inspect.Reader
	order   []int32
	ends    map[int32]message.QueueOffset // where to stop when not following
}

func tailFiles(ctx context.Context, dir string, f tailFlags, start message.QueueOffset, out *output) (err error) {
	t := &filesTail{dir: dir, flags: f, start: start, out: out, readers: map[int32]*inspect.Reader{}, ends: map[int32]message.QueueOffset{}}
	defer func() { err = errors.Join(err, t.close()) }()
	settings, err := inspect.ReadSettings(dir)
	if errors.Is(err, message.ErrCorrupt) { // its messages can be read all the same
		out.skipped(err)
	} else if err != nil {
		return err
	}
	t.before = settings.DeletedBefore(f.topic)
	if err := t.open(); err != nil {
		return err
	}
	if len(t.order) == 0 && !f.follow {
		return t.nothing()
	}
	t.start = fromBegin // of queues that appear later
	for {
		printed, err := t.round(ctx)
		if err != nil || t.out.left <= 0 {
			return err
		}
		if printed {
			continue
		}
		if !f.follow {
			return nil
		}
		if err := t.wait(ctx); err != nil {
			return err
		}
	}
}

// nothing says why there is nothing to read.
func (t *filesTail) nothing() error {
	if t.flags.queue >= 0 {
		return fmt.Errorf("queue %d of topic %s has no messages in %s", t.flags.queue, t.flags.topic, t.dir)
	}
	return fmt.Errorf("topic %s has no messages in %s", t.flags.topic, t.dir)
}

// open begins to read queues that are not read yet.
func (t *filesTail) open() error {
	ids, err := inspect.Queues(t.dir, t.flags.topic)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if t.readers[id] != nil || t.flags.queue >= 0 && id != t.flags.queue {
			continue
		}
		r, err := inspect.NewReader(t.dir, t.flags.topic, id)
		if err != nil {
			return err
		}
		t.readers[id], t.ends[id] = r, r.Max()
		t.order = append(t.order, id)
		if t.before > 0 {
			s, err := inspect.LookAtQueue(t.dir, t.flags.topic, id, t.before)
			if err != nil {
				return err
			}
			r.Seek(s.Min)
		}
		switch t.start {
		case fromBegin:
		case fromEnd:
			r.Seek(r.Max())
		default:
			r.Seek(max(t.start, r.Offset()))
		}
	}
	return nil
}

// round prints some messages of each queue.
func (t *filesTail) round(ctx context.Context) (printed bool, err error) {
	for _, id := range t.order {
		for range turn {
			if err := ctx.Err(); err != nil {
				return printed, err
			}
			if t.out.left <= 0 {
				return printed, nil
			}
			more, err := t.next(id)
			if err != nil {
				return printed, err
			}
			if !more {
				break
			}
			printed = true
		}
	}
	return printed, nil
}

// next prints one message; false when there is none now.
func (t *filesTail) next(id int32) (bool, error) {
	r := t.readers[id]
	if !t.flags.follow && r.Offset() >= t.ends[id] {
		return false, nil
	}
	v, err := r.Next()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err == nil {
		m := v.Message()
		if m.Body, err = message.Inflate(m.SysFlag, m.Body, mq.DefaultMaxInflatedBody); err == nil {
			return true, t.out.message(&m)
		}
		err = fmt.Errorf("message %d in queue %d: %w", m.QueueOffset, id, err)
	}
	if errors.Is(err, message.ErrCorrupt) {
		t.out.skip(1, err)
		return true, nil
	}
	return false, err
}

// wait lets what was printed be seen, and looks again after a while.
func (t *filesTail) wait(ctx context.Context) error {
	if err := t.out.w.Flush(); err != nil {
		return err
	}
	timer := time.NewTimer(pollInterval)
	defer timer.Stop()
	select {
	case <-timer.C:
		return t.open()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *filesTail) close() error {
	var errs []error
	for _, r := range t.readers {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}
