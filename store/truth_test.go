package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/pocketmq/pocketmq/message"
)

// truth is what a test sent to a store and what it was told. Bodies are unique,
// so they identify messages.
type truth struct {
	mu     sync.Mutex
	sent   map[string]message.Message // by body
	queue  map[string]int32           // queue id, by body
	placed []placed                   // in the order of the answers
	kept   int                        // how many of placed must survive
}

// placed is a message that the store gave a place.
type placed struct {
	body        string
	queueOffset message.QueueOffset
	logOffset   message.LogOffset
}

func newTruth() *truth {
	return &truth{sent: make(map[string]message.Message), queue: make(map[string]int32)}
}

// send notes messages before they are put.
func (tr *truth) send(queueID int32, messages ...message.Message) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, m := range messages {
		if _, ok := tr.sent[string(m.Body)]; ok {
			panic("a body twice: " + string(m.Body))
		}
		tr.sent[string(m.Body)], tr.queue[string(m.Body)] = m, queueID
	}
}

// answered notes where messages were put. With kept they, and all before them
// that were kept, must survive.
func (tr *truth) answered(r PutMessageResult, kept bool, messages ...message.Message) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for i, m := range messages {
		off := r.LogOffset
		if r.Offsets != nil {
			off = r.Offsets[i]
		}
		tr.placed = append(tr.placed, placed{string(m.Body), r.QueueOffset + message.QueueOffset(i), off})
	}
	if kept {
		tr.kept = len(tr.placed)
	}
}

// mark returns how many messages were given a place so far, and how many of
// those must survive.
func (tr *truth) mark() (placed, kept int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.placed), tr.kept
}

func (tr *truth) keep(n int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.kept = max(tr.kept, n)
}

// found is what a store has.
type found struct {
	recovery Recovery
	messages map[string]message.MessageExt // by body
	queues   map[queueKey]message.QueueOffset
}

// verify reads everything in s and holds it against the truth: nothing that was
// not sent, nothing twice, every queue dense, queues and log agreeing. Of the
// messages placed, the first kept ones must be there, and everything placed
// before the end of the log: what is missing is missing from the end.
func (tr *truth) verify(s *DefaultMessageStore, kept int) (found, error) {
	f := found{recovery: s.Recovery(), messages: make(map[string]message.MessageExt), queues: make(map[queueKey]message.QueueOffset)}
	if d := f.recovery.Damaged; len(d) > 0 {
		return f, fmt.Errorf("damage is reported: %w", d[0])
	}
	if err := s.WaitDispatched(context.Background(), s.MaxOffset()); err != nil {
		return f, err
	}
	if err := s.WaitIndexed(context.Background(), s.MaxOffset()); err != nil {
		return f, err
	}
	var errs []error
	_, err := s.log.Scan(s.MinOffset(), s.MaxOffset(), func(r *message.DispatchRequest) error {
		if err := tr.record(s, r.View.Message(), &f); err != nil {
			errs = append(errs, fmt.Errorf("record at %d: %w", r.LogOffset(), err))
		}
		return nil
	})
	errs = append(errs, err)
	for _, q := range s.Queues() {
		k := queueKey{q.Topic, q.QueueID}
		if q.MinOffset != 0 || q.MaxOffset != f.queues[k] {
			errs = append(errs, fmt.Errorf("queue %v has [%d, %d), the log has %d of it", k, q.MinOffset, q.MaxOffset, f.queues[k]))
		}
	}
	for k, n := range f.queues {
		errs = append(errs, f.readQueue(s, k, n))
	}
	errs = append(errs, tr.complete(s, kept, f))
	return f, errors.Join(errs...)
}

// record checks one record of the log.
func (tr *truth) record(s *DefaultMessageStore, m message.MessageExt, f *found) error {
	tr.mu.Lock()
	sent, ok := tr.sent[string(m.Body)]
	queueID := tr.queue[string(m.Body)]
	tr.mu.Unlock()
	switch {
	case !ok:
		return fmt.Errorf("was never sent: topic %q, body %.30q", m.Topic, m.Body)
	case m.Topic != sent.Topic || m.QueueID != queueID || m.Properties.WithoutCRC32(false) != sent.Properties || m.Flag != sent.Flag:
		return fmt.Errorf("differs from what was sent: topic %q, queue %d, flag %d, properties %.60q; sent were %q, %d, %d, %.60q",
			m.Topic, m.QueueID, m.Flag, m.Properties, sent.Topic, queueID, sent.Flag, sent.Properties)
	case message.BodyCRC(m.Body) != m.BodyCRC:
		return errors.New("checksum does not match")
	}
	if old, ok := f.messages[string(m.Body)]; ok {
		return fmt.Errorf("body %.30q is there twice, first at %d", m.Body, old.LogOffset)
	}
	f.messages[string(m.Body)] = m
	k := queueKey{m.Topic, m.QueueID}
	if m.QueueOffset != f.queues[k] {
		return fmt.Errorf("queue %v goes on with %d instead of %d", k, m.QueueOffset, f.queues[k])
	}
	f.queues[k]++
	if off, ok := s.CommitLogOffsetInQueue(m.Topic, m.QueueID, m.QueueOffset); !ok || off != m.LogOffset {
		return fmt.Errorf("unit %d of queue %v points at %d, %t", m.QueueOffset, k, off, ok)
	}
	return nil
}

// readQueue reads a queue as a consumer does.
func (f *found) readQueue(s *DefaultMessageStore, k queueKey, n message.QueueOffset) error {
	for at := message.QueueOffset(0); at < n; {
		r, err := s.GetMessage(context.Background(), GetQuery{Topic: k.topic, QueueID: k.id, Offset: at, MaxCount: 32, Verify: true})
		if err != nil {
			return err
		}
		for i, v := range r.Messages {
			m, ok := f.messages[string(v.Body())]
			if !ok || m.LogOffset != v.LogOffset() || m.QueueOffset != at+message.QueueOffset(i) || m.Topic != k.topic || m.QueueID != k.id {
				r.Release()
				return fmt.Errorf("queue %v gives %.30q as %d", k, v.Body(), int(at)+i)
			}
		}
		status, next, got := r.Status, r.NextBeginOffset, len(r.Messages)
		r.Release()
		if status != GetFound || next != at+message.QueueOffset(got) {
			return fmt.Errorf("queue %v at %d of %d: %v, next %d", k, at, n, status, next)
		}
		at = next
	}
	return nil
}

// queryAll asks for every key of what was found, and wants the messages that
// have it; and no more entries in the index than there are keys.
func (f found) queryAll(s *DefaultMessageStore) error {
	want := make(map[[2]string][]message.LogOffset)
	keys, entries := 0, 0
	for _, m := range f.messages {
		for _, key := range keysOf(m) {
			k := [2]string{m.Topic, key}
			want[k] = append(want[k], m.LogOffset)
			keys++
		}
	}
	for _, x := range s.index.files.Files() {
		entries += int(x.Header.Count) - 1
	}
	if entries != keys {
		return fmt.Errorf("the index has %d entries, and the log %d keys", entries, keys)
	}
	for k, offsets := range want {
		slices.Sort(offsets)
		offsets = offsets[max(0, len(offsets)-s.cfg.MaxQueryResults):]
		if got, err := offsetsOf(s, KeyQuery{Topic: k[0], Key: k[1]}); err != nil || !slices.Equal(got, offsets) {
			return fmt.Errorf("key %q of topic %q is at %v, the index says %v: %w", k[1], k[0], offsets, got, err)
		}
	}
	return nil
}

// keysOf lists the keys of a message that was not rolled back.
func keysOf(m message.MessageExt) (keys []string) {
	if unique, ok := m.Properties.Get(message.PropertyUniqueKey); ok {
		keys = append(keys, unique)
	}
	words, _ := m.Properties.Get(message.PropertyKeys)
	return append(keys, strings.Fields(words)...)
}

// offsetsOf is where the messages of an answer are.
func offsetsOf(s *DefaultMessageStore, q KeyQuery) ([]message.LogOffset, error) {
	r, err := s.QueryMessage(context.Background(), q)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	var offsets []message.LogOffset
	for _, v := range r.Messages {
		offsets = append(offsets, v.LogOffset())
	}
	return offsets, nil
}

// complete checks that nothing is missing.
func (tr *truth) complete(s *DefaultMessageStore, kept int, f found) error {
	tr.mu.Lock()
	list := slices.Clip(tr.placed)
	tr.mu.Unlock()
	for i, p := range list {
		m, ok := f.messages[p.body]
		switch {
		case !ok && i < kept:
			return fmt.Errorf("an acknowledged message is lost: %.30q, queue offset %d, log offset %d; the log ends at %d (%+v)",
				p.body, p.queueOffset, p.logOffset, s.MaxOffset(), f.recovery)
		case !ok && p.logOffset < s.MaxOffset():
			return fmt.Errorf("a message in the middle is missing: %.30q, log offset %d; the log ends at %d", p.body, p.logOffset, s.MaxOffset())
		case ok && (m.QueueOffset != p.queueOffset || m.LogOffset != p.logOffset):
			return fmt.Errorf("%.30q was acknowledged as %d at %d, and is %d at %d", p.body, p.queueOffset, p.logOffset, m.QueueOffset, m.LogOffset)
		}
	}
	return nil
}

// verifyDir opens dir several times: the first finds every key, all of them see
// the same, those after the first change nothing, and the last one goes on
// numbering where the first ended.
func (tr *truth) verifyDir(dir string, cfg Config, kept int) (found, error) {
	f, before, err := tr.visit(dir, cfg, kept, found.queryAll)
	if err != nil {
		return f, err
	}
	again, after, err := tr.visit(dir, cfg, kept, nil)
	if err != nil {
		return f, fmt.Errorf("second open: %w", err)
	}
	if d := difference(before, after); d != "" {
		return f, fmt.Errorf("the second open changed files: %s; it did %+v, the first %+v", d, again.recovery, f.recovery)
	}
	if !again.recovery.Clean || !maps.Equal(f.queues, again.queues) || len(f.messages) != len(again.messages) {
		return f, fmt.Errorf("the second open found something else: %v, first %v", again.queues, f.queues)
	}
	_, _, err = tr.visit(dir, cfg, kept, func(_ found, s *DefaultMessageStore) error {
		for k, n := range f.queues {
			r, err := s.PutMessage(context.Background(), inner(k.topic, k.id, "one more"))
			if err != nil || r.QueueOffset != n {
				return fmt.Errorf("queue %v goes on with %d instead of %d: %w", k, r.QueueOffset, n, err)
			}
			if err := s.WaitDispatched(context.Background(), r.LogOffset+message.LogOffset(r.Bytes)); err != nil {
				return err
			}
			if off, ok := s.CommitLogOffsetInQueue(k.topic, k.id, n); !ok || off != r.LogOffset {
				return fmt.Errorf("queue %v: the next message is not readable", k)
			}
		}
		return nil
	})
	if err != nil {
		return f, fmt.Errorf("third open: %w", err)
	}
	return f, nil
}

// visit opens dir, verifies it, lets more do more, and closes it.
func (tr *truth) visit(dir string, cfg Config, kept int, more func(found, *DefaultMessageStore) error) (f found, files map[string]string, err error) {
	s, err := Open(context.Background(), dir, cfg)
	if err != nil {
		return f, nil, err
	}
	f, err = tr.verify(s, kept)
	if err == nil && more != nil {
		err = more(f, s)
	}
	if err := errors.Join(err, s.Close()); err != nil {
		return f, nil, err
	}
	files, err = tree(dir)
	maps.DeleteFunc(files, func(path, _ string) bool { // empty directories are made in their own time
		return strings.HasSuffix(path, "/") || path == ownDir+"/"+ownerFile
	})
	return f, files, err
}
