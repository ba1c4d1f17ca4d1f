package interop

import (
	"errors"
	"fmt"
	"reflect"
)

// truth is what a directory must hold.
type truth struct {
	queues   map[queueKey][]*kept
	unqueued []*kept // prepared and rolled back: only in the log
}

// kept is a message that was acknowledged, or survived a kill without that.
type kept struct {
	content

	logOffset int64 // -1: not known
}

// add notes a message that was acknowledged.
func (t *truth) add(m *put, at placement) error {
	if at.Status != "PUT_OK" || at.Append != "" && at.Append != "PUT_OK" {
		return fmt.Errorf("put to %v: %+v", m.queueKey, at)
	}
	logOffset := at.LogOffset
	for i, c := range m.contents {
		k := &kept{c, logOffset}
		logOffset = -1
		if !c.queued() {
			t.unqueued = append(t.unqueued, k)
			continue
		}
		if n := int64(len(t.queues[c.queueKey])); at.QueueOffset+int64(i) != n {
			return fmt.Errorf("put to %v: queue offset %d, that of message %d must be %d", c.queueKey, at.QueueOffset, i, n)
		}
		t.queues[c.queueKey] = append(t.queues[c.queueKey], k)
	}
	return nil
}

// survive adds those of the messages that were sent and not acknowledged that
// are there after a kill: the first ones.
func (t *truth) survive(sent []*put, l listing) {
	end := make(map[queueKey]int64)
	for _, q := range l.Queues {
		end[q.queueKey] = q.Max
	}
	for _, m := range sent {
		for _, c := range m.contents {
			if !c.queued() {
				continue // nothing tells
			}
			if int64(len(t.queues[c.queueKey])) >= end[c.queueKey] {
				return
			}
			t.queues[c.queueKey] = append(t.queues[c.queueKey], &kept{c, -1})
		}
	}
}

// lose takes away the messages of the log from end on.
func (t *truth) lose(end int64) {
	for key, q := range t.queues {
		for len(q) > 0 && q[len(q)-1].logOffset >= end {
			q = q[:len(q)-1]
		}
		t.queues[key] = q
		if len(q) == 0 {
			delete(t.queues, key)
		}
	}
	left := t.unqueued[:0:0]
	for _, k := range t.unqueued {
		if k.logOffset < end {
			left = append(left, k)
		}
	}
	t.unqueued = left
}

// check holds what a store answered against the truth.
func (t *truth) check(iv *interview) error {
	var errs []error
	if len(iv.list.Queues) != len(t.queues) {
		errs = append(errs, fmt.Errorf("%d queues, want %d", len(iv.list.Queues), len(t.queues)))
	}
	for _, q := range iv.list.Queues {
		if want := int64(len(t.queues[q.queueKey])); q.Min != 0 || q.Max != want {
			errs = append(errs, fmt.Errorf("queue %v holds [%d, %d), want [0, %d)", q.queueKey, q.Min, q.Max, want))
		}
	}
	looks := iv.looks()
	check := func(what string, k *kept, queueOffset, at int64) {
		m := looks[at]
		switch {
		case m == nil:
			errs = append(errs, fmt.Errorf("%s: no message at %d", what, at))
		case m.LogOffset != at || k.logOffset >= 0 && k.logOffset != at || m.QueueOffset != queueOffset:
			errs = append(errs, fmt.Errorf("%s: log offset %d, queue offset %d: want %d and %d", what, m.LogOffset, m.QueueOffset, k.logOffset, queueOffset))
		case !reflect.DeepEqual(m.content, k.content):
			errs = append(errs, fmt.Errorf("%s at %d:\ngot  %s\nwant %s", what, at, show(m.content), show(k.content)))
		}
	}
	for i, q := range iv.questions {
		if q.Op == "unit" && q.Offset >= 0 && q.Offset < int64(len(t.queues[q.queueKey])) {
			k := t.queues[q.queueKey][q.Offset]
			k.learn(iv.answers[i].Number)
			check(fmt.Sprintf("message %d of %v", q.Offset, q.queueKey), k, q.Offset, iv.answers[i].Number)
		}
	}
	for _, k := range t.unqueued {
		check("message without a queue", k, 0, k.logOffset)
	}
	return few(errs)
}

// few joins the first of many errors: those that follow say the same.
func few(errs []error) error {
	const most = 4
	if more := len(errs) - most; more > 0 {
		errs = append(errs[:most], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// learn notes where a message is whose place nobody has told.
func (k *kept) learn(at int64) {
	if k.logOffset < 0 {
		k.logOffset = at
	}
}
