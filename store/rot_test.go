package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// The tests of bit rot change one byte of a small store that has a file of every
// kind, open it, and look at everything in it.

// rotten is the store, and what is in it.
type rotten struct {
	cfg   Config
	dir   string
	files map[string]string
	sent  []message.MessageExt // in the order of the log
}

const rotQueues = 2

func newRotten(t *testing.T) *rotten {
	t.Helper()
	r := &rotten{dir: scratch(t), cfg: Config{FlushTimeout: patient, SegmentSize: 1024, ConsumeQueueFileSize: 80, IndexSlots: 4, IndexEntries: 12}}
	s := openStore(t, r.dir, r.cfg)
	for i := range 14 {
		m := tagged("topic", fmt.Sprintf("the body %02d", i), "TagA")
		m.QueueID = int32(i % rotQueues)
		m.Properties += message.Properties(fmt.Sprint("\x02KEYS\x01all k", i))
		p, err := s.PutMessage(t.Context(), m)
		require.NoError(t, err)
		dispatched(t, s)
		stored, err := s.LookMessageByOffset(t.Context(), p.LogOffset)
		require.NoError(t, err)
		r.sent = append(r.sent, stored)
	}
	require.NoError(t, s.WriteConfig("topics.json", []byte(`{"dataVersion":{}}`)))
	closeStore(t, s)
	var err error
	r.files, err = tree(r.dir)
	require.NoError(t, err)
	return r
}

// rot is one byte that changes, and the state of the store in which it does.
type rot struct {
	path  string
	at    int
	to    byte
	crash bool
	point bool // the recovery point is there
}

func (c rot) String() string {
	return fmt.Sprintf("%s at %d: %#02x, crash %t, point %t", c.path, c.at, c.to, c.crash, c.point)
}

// cases lists every change of every step-th byte; of a sample, each in one way.
func (r *rotten) cases(step int, sample bool) []rot {
	var all []rot
	for path, content := range r.files {
		if strings.HasSuffix(path, "/") {
			continue
		}
		for at := 0; at < len(content); at += step {
			if path == checkpointFile && at > 40 && at%1000 != 0 {
				continue // zeros, nearly all of it
			}
			for i, to := range []byte{content[at] ^ 1<<(at%8), 0x00, 0xFF} {
				for state := range 4 {
					n := at / step
					if content[at] == to || sample && (n%3 != i || n/3%4 != state) {
						continue
					}
					all = append(all, rot{path, at, to, state&1 != 0, state&2 == 0})
				}
			}
		}
	}
	return all
}

// run makes and checks all cases, on two processors.
func (r *rotten) run(t *testing.T, cases []rot) {
	t.Helper()
	jobs := make(chan rot)
	var wg sync.WaitGroup
	root := scratch(t)
	for w := range 2 {
		wg.Go(func() {
			for c := range jobs {
				if t.Failed() {
					continue
				}
				dir := filepath.Join(root, fmt.Sprint(w))
				if err := errors.Join(r.try(c, dir), os.RemoveAll(dir)); err != nil {
					t.Errorf("%v: %v", c, err)
				}
			}
		})
	}
	for _, c := range cases {
		jobs <- c
	}
	close(jobs)
	wg.Wait()
}

// try makes one case in dir and checks it.
func (r *rotten) try(c rot, dir string) error {
	if err := os.CopyFS(dir, os.DirFS(r.dir)); err != nil {
		return err
	}
	b := []byte(r.files[c.path])
	b[c.at] = c.to
	if err := os.WriteFile(filepath.Join(dir, c.path), b, 0o600); err != nil {
		return err
	}
	if c.crash {
		if err := os.WriteFile(filepath.Join(dir, abortFile), nil, 0o600); err != nil {
			return err
		}
	}
	if !c.point {
		if err := os.Remove(filepath.Join(dir, ownDir, pointFile)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // none may hang
	defer cancel()
	s, err := Open(ctx, dir, r.cfg)
	if err != nil {
		if errors.Is(err, message.ErrCorrupt) && c.path == ownDir+"/"+primaryFile {
			return nil // never guessed
		}
		return fmt.Errorf("does not open: %w", err)
	}
	if err := errors.Join(r.check(ctx, s, c), s.Close()); err != nil {
		return err
	}
	s, err = Open(ctx, dir, r.cfg)
	if err != nil {
		return fmt.Errorf("does not open again: %w", err)
	}
	return errors.Join(r.again(ctx, s), s.Close())
}

// check looks at everything in the store, and adds a message.
func (r *rotten) check(ctx context.Context, s *DefaultMessageStore, c rot) error {
	if err := s.WaitDispatched(ctx, s.MaxOffset()); err != nil {
		return err
	}
	hit, lost := r.hit(c), make(map[message.LogOffset]bool)
	rec := s.Recovery()
	reported := len(rec.Damaged) > 0 || rec.CutBytes > 0 || len(rec.RemovedFiles) > 0 || rec.Missing > 0 || rec.UnitsDropped > 0
	for q := range int32(rotQueues) {
		served, damage, err := serve(ctx, s, q)
		if err != nil {
			return err
		}
		reported = reported || damage
		for _, m := range r.sent {
			if m.QueueID != q {
				continue
			}
			got, ok := served[m.QueueOffset]
			delete(served, m.QueueOffset)
			switch {
			case !ok:
				lost[m.LogOffset] = true
			case got.LogOffset != m.LogOffset || got.QueueID != m.QueueID || got.Topic != m.Topic || string(got.Body) != string(m.Body):
				return fmt.Errorf("queue %d gives %q as %d, which is %q", q, got.Body, m.QueueOffset, m.Body)
			case got.Properties != m.Properties && m.LogOffset != hit:
				return fmt.Errorf("message at %d has properties %q", m.LogOffset, got.Properties)
			}
		}
		if len(served) > 0 {
			return fmt.Errorf("queue %d gives messages that were never sent: %v", q, served)
		}
	}
	if len(lost) > 0 && !reported {
		return fmt.Errorf("lost without a word: %v", lost)
	}
	for off := range lost {
		cut := c.crash && off >= hit && rec.LogEnd <= hit // the tail behind what is known to be on disk
		if off != hit && !cut && !(len(lost) == 1 && strings.HasPrefix(c.path, "consumequeue/")) {
			return fmt.Errorf("the message at %d is lost, damaged is that at %d (%+v)", off, hit, rec)
		}
	}
	return errors.Join(r.checkKeys(ctx, s, c, hit, lost), addOne(ctx, s))
}

// hit is the log offset of the record that c changes, or of the blank; -1 for none.
func (r *rotten) hit(c rot) message.LogOffset {
	hit := message.LogOffset(-1)
	for base := int64(0); ; base += r.cfg.SegmentSize {
		if base > 1<<20 {
			return -1
		}
		if c.path == "commitlog/"+segment.FileName(base) {
			at := message.LogOffset(base) + message.LogOffset(c.at)
			for _, m := range r.sent {
				if end := m.LogOffset + message.LogOffset(m.StoreSize); m.LogOffset <= at {
					hit = m.LogOffset
					if end <= at {
						hit = end
					}
				}
			}
			return hit
		}
	}
}

// serve reads a queue as a consumer does; damage says that there was some.
func serve(ctx context.Context, s *DefaultMessageStore, q int32) (served map[message.QueueOffset]message.MessageExt, damage bool, err error) {
	served = make(map[message.QueueOffset]message.MessageExt)
	for off := s.MinOffsetInQueue("topic", q); off < s.MaxOffsetInQueue("topic", q); {
		r, err := s.GetMessage(ctx, GetQuery{Topic: "topic", QueueID: q, Offset: off, MaxCount: 32, Verify: true})
		if err != nil && !errors.Is(err, message.ErrCorrupt) {
			return nil, false, err
		}
		damage = damage || err != nil
		for _, v := range r.Messages {
			if _, twice := served[v.QueueOffset()]; twice || v.QueueOffset() < off {
				return nil, false, fmt.Errorf("queue %d gives %d twice", q, v.QueueOffset())
			}
			served[v.QueueOffset()] = v.Message()
		}
		next := r.NextBeginOffset
		r.Release()
		if next <= off {
			return nil, false, fmt.Errorf("queue %d stays at %d", q, off)
		}
		off = next
	}
	return served, damage, nil
}

// checkKeys asks for each key: what is answered has it, and nothing is missing
// but what is lost, unless it is the index that is damaged.
func (r *rotten) checkKeys(ctx context.Context, s *DefaultMessageStore, c rot, hit message.LogOffset, lost map[message.LogOffset]bool) error {
	if err := s.WaitIndexed(ctx, s.MaxOffset()); err != nil {
		return err
	}
	for i := -1; i <= len(r.sent); i++ {
		key := "all"
		if i >= 0 {
			key = fmt.Sprint("k", i)
		}
		var want []message.LogOffset
		for _, m := range r.sent {
			if slices.Contains(m.Keys(), key) && m.LogOffset != hit && !lost[m.LogOffset] {
				want = append(want, m.LogOffset)
			}
		}
		got, err := s.QueryMessage(ctx, KeyQuery{Topic: "topic", Key: key, MaxNum: 64})
		if err != nil && (!errors.Is(err, message.ErrCorrupt) || !strings.HasPrefix(c.path, "index/")) {
			return fmt.Errorf("key %s: %w", key, err)
		}
		var offs []message.LogOffset
		for _, v := range got.Messages {
			m := v.Message()
			known := slices.ContainsFunc(r.sent, func(s message.MessageExt) bool {
				return s.LogOffset == m.LogOffset && string(s.Body) == string(m.Body) && slices.Contains(s.Keys(), key)
			})
			if m.LogOffset != hit && !known || !slices.Contains(m.Keys(), key) {
				err = fmt.Errorf("key %s gives %q with %v", key, m.Body, m.Keys())
			}
			if m.LogOffset != hit && !lost[m.LogOffset] {
				offs = append(offs, m.LogOffset)
			}
		}
		got.Release()
		if err != nil && !errors.Is(err, message.ErrCorrupt) {
			return err
		}
		if !slices.Equal(want, offs) && !(strings.HasPrefix(c.path, "index/") && len(offs) < len(want) && slices.IsSorted(offs)) {
			return fmt.Errorf("key %s gives %v instead of %v", key, offs, want)
		}
	}
	return nil
}

// addOne puts one more message into each queue: it is found behind the others,
// and its time is that of the clock.
func addOne(ctx context.Context, s *DefaultMessageStore) error {
	for q := range int32(rotQueues) {
		p, err := s.PutMessage(ctx, inner("topic", q, "one more"))
		if err != nil {
			return err
		}
		if p.QueueOffset > 10 {
			return fmt.Errorf("queue %d goes on with %d", q, p.QueueOffset)
		}
		if ahead := time.Until(time.UnixMilli(p.StoreTimestamp)); ahead > 25*time.Hour {
			return fmt.Errorf("time stands still for %v", ahead)
		}
		if err := s.WaitDispatched(ctx, s.MaxOffset()); err != nil {
			return err
		}
		r, err := s.GetMessage(ctx, GetQuery{Topic: "topic", QueueID: q, Offset: p.QueueOffset, MaxCount: 1, Verify: true})
		if err != nil {
			return err
		}
		if texts := r.texts(); len(texts) != 1 || texts[0] != "one more" {
			err = fmt.Errorf("queue %d gives %q as the new message %d", q, texts, p.QueueOffset)
		}
		r.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// again looks for the messages of addOne after the next Open.
func (r *rotten) again(ctx context.Context, s *DefaultMessageStore) error {
	for q := range int32(rotQueues) {
		served, _, err := serve(ctx, s, q)
		if err != nil {
			return err
		}
		if last, ok := served[s.MaxOffsetInQueue("topic", q)-1]; !ok || string(last.Body) != "one more" {
			return fmt.Errorf("after another Open queue %d ends with %q", q, last.Body)
		}
		delete(served, s.MaxOffsetInQueue("topic", q)-1)
		for off, m := range served {
			if string(m.Body) != fmt.Sprintf("the body %02d", int(off)*rotQueues+int(q)) {
				return fmt.Errorf("after another Open queue %d gives %q as %d", q, m.Body, off)
			}
		}
	}
	return nil
}

// TestOneByteAnywhere changes: the store opens, or says why not; nothing is served
// as what it is not; at most the message that was hit is lost, or a tail
// that nobody vouched for, and that is reported.
func TestOneByteAnywhere(t *testing.T) {
	notEmulated(t)
	r := newRotten(t)
	cases := r.cases(7, true)
	require.Greater(t, len(cases), 300)
	r.run(t, cases)
	t.Logf("%d cases", len(cases))
}
