package broker

import (
	"context"
	"fmt"
	"sort"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// Progress is in config/consumerOffset.json, as RocketMQ's: two offsets of
// protocol.TransactionGroup. Half messages before the first have ended; of those
// behind it, op messages from the second on say which have ended.
//
// The field markField is ours; RocketMQ passes over it, and writes the file
// without it. What was made from half messages before that place of the log is
// told by the offsets and the op messages; what was made behind it may not be. So
// after a crash the records behind it are looked through, and nothing is committed
// twice.
const markField = "transactionLogOffset"

// readProgress takes up what is on disk.
func (t *transactions) readProgress() error {
	mark, err := fieldInt(t.offsets.doc, markField, -1)
	if err != nil {
		return fmt.Errorf("%s: %w", offsetsFile, err)
	}
	t.mark = message.LogOffset(mark)
	next, _ := t.offsets.get(message.HalfTopic, protocol.TransactionGroup, 0)
	ops, _ := t.offsets.get(protocol.TransactionOpTopic, protocol.TransactionGroup, 0)
	t.saved.Store(int64(next))
	t.savedOps.Store(int64(ops))
	return nil
}

// saveWhenDue saves what has changed, if it is time. While transactions are open
// the mark follows the end of the log.
func (t *transactions) saveWhenDue(ctx context.Context) error {
	t.mu.Lock()
	if t.order.Len() > 0 && !t.dirty && t.store.MaxOffset()-t.mark > t.tail {
		t.changed()
		t.saveAt = 0
	}
	due := t.dirty && t.saveAt <= t.now().UnixMilli()
	t.mu.Unlock()
	if !due {
		return nil
	}
	return t.saveChanges(ctx)
}

// saveChanges saves what has changed.
func (t *transactions) saveChanges(ctx context.Context) error {
	t.mu.Lock()
	if !t.dirty {
		t.mu.Unlock()
		return nil
	}
	t.dirty = false
	t.mu.Unlock()
	if err := t.save(ctx); err != nil {
		t.mu.Lock()
		t.dirty, t.saveAt = true, t.now().Add(t.interval).UnixMilli()
		t.mu.Unlock()
		return fmt.Errorf("progress of transactions not saved: %w", err)
	}
	return nil
}

// save writes the file. What it counts as ended is on disk before.
func (t *transactions) save(ctx context.Context) error {
	opEnd := t.store.MaxOffsetInQueue(protocol.TransactionOpTopic, 0) // before the half messages are looked at
	next, from, mark := t.reached()
	ops := t.opsBefore(from, opEnd)
	if err := t.store.Flush(ctx); err != nil {
		return err
	}
	// The one that says more comes last: whatever is on disk is right.
	for _, p := range [...]struct {
		topic string
		next  message.QueueOffset
	}{{message.HalfTopic, next}, {protocol.TransactionOpTopic, ops}} {
		if err := t.offsets.put(p.topic, protocol.TransactionGroup, []protocol.QueuePosition{{Offset: p.next}}); err != nil {
			return err
		}
	}
	t.offsets.setField(markField, int64(mark))
	if err := t.offsets.save(); err != nil {
		return err
	}
	t.mu.Lock()
	t.mark = mark
	t.mu.Unlock()
	t.saved.Store(int64(next))
	t.savedOps.Store(int64(ops))
	t.store.NotifyConsumed()
	return nil
}

// reached returns the first half message that may be open, the place of the log
// before which no op message is about it or a later one (less than 0 for the end),
// and the mark.
func (t *transactions) reached() (next message.QueueOffset, from, mark message.LogOffset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reachedLocked()
}

func (t *transactions) reachedLocked() (next message.QueueOffset, from, mark message.LogOffset) {
	mark = t.store.MaxOffset()
	for h := range t.ending {
		mark = min(mark, h.began)
	}
	if h := t.first(); h != nil {
		return h.offset, h.log, mark
	}
	if at, ok := t.store.CommitLogOffsetInQueue(message.HalfTopic, 0, t.seen); ok {
		return t.seen, at, mark
	}
	return t.seen, -1, mark
}

// opsBefore is the offset of the first op message at or behind a place of the log,
// of those before end.
func (t *transactions) opsBefore(from message.LogOffset, end message.QueueOffset) message.QueueOffset {
	if from < 0 {
		return end
	}
	lowest := max(message.QueueOffset(t.savedOps.Load()), t.store.MinOffsetInQueue(protocol.TransactionOpTopic, 0))
	n := sort.Search(int(max(end-lowest, 0)), func(i int) bool {
		at, ok := t.store.CommitLogOffsetInQueue(protocol.TransactionOpTopic, 0, lowest+message.QueueOffset(i))
		return !ok || at >= from
	})
	return lowest + message.QueueOffset(n)
}

// setField sets one of the file's other fields. It is saved with the next change,
// or by save.
func (t *offsetTable) setField(name string, value int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, ok := t.doc[name].(int64); ok && old == value {
		return
	}
	t.doc[name] = value
	t.latest++
}
