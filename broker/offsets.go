package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pocketmq/pocketmq/internal/barekeys"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

const offsetsFile = "consumerOffset.json"

// offsetTable is config/consumerOffset.json and its content: where groups go
// on. Its methods may be called concurrently.
type offsetTable struct {
	store *store.DefaultMessageStore
	dirty chan struct{} // holds a token while there is something to save

	saveMu sync.Mutex // one save at a time, so that the last one written is the newest

	mu     sync.Mutex
	doc    object                             // the file's other fields
	table  map[string]queueOffsets            // by "topic@group"
	topics map[string]map[string]queueOffsets // the same by topic, then group
	saved  uint64                             // version that is on disk
	latest uint64                             // counts changes
	closed bool
}

func openOffsets(s *store.DefaultMessageStore) (*offsetTable, error) {
	t := &offsetTable{store: s, dirty: make(chan struct{}, 1), doc: object{}, table: map[string]queueOffsets{}, topics: map[string]map[string]queueOffsets{}}
	text, err := s.ReadConfig(offsetsFile, func(b []byte) error { _, _, err := parseOffsets(b); return err })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t, nil
	case err != nil:
		return nil, fmt.Errorf("%s (without the file, groups start anew): %w", offsetsFile, err)
	}
	if t.doc, t.table, err = parseOffsets(text); err != nil {
		return nil, fmt.Errorf("%s: %w", offsetsFile, err)
	}
	for key, offsets := range t.table {
		t.addTopic(key, offsets)
	}
	return t, nil
}

// addTopic makes the offsets of a key found by topic.
func (t *offsetTable) addTopic(key string, offsets queueOffsets) {
	topic, group, ok := strings.Cut(key, "@")
	if !ok {
		return
	}
	if t.topics[topic] == nil {
		t.topics[topic] = map[string]queueOffsets{}
	}
	t.topics[topic][group] = offsets
}

func parseOffsets(text []byte) (object, map[string]queueOffsets, error) {
	doc, err := barekeys.Parse(text)
	if err != nil {
		return nil, nil, err
	}
	groups, err := fieldObject(doc, "offsetTable")
	if err != nil {
		return nil, nil, err
	}
	table := make(map[string]queueOffsets, len(groups))
	for key := range groups {
		if table[key], err = fieldOffsets(groups, key); err != nil {
			return nil, nil, err
		}
	}
	return doc, table, nil
}

func offsetKey(topic, group string) string { return topic + "@" + group }

func (t *offsetTable) get(topic, group string, queueID int32) (message.QueueOffset, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	off, ok := t.table[offsetKey(topic, group)][queueID]
	return off, ok && off >= 0
}

// consumed returns a store.Consumed: a queue's smallest offset of the groups that
// have offsets in its topic; of those named, if any are. A group that has none
// in this queue has consumed nothing of it.
func (t *offsetTable) consumed(named []string) store.Consumed {
	return func(topic string, queueID int32) (least message.QueueOffset, registered bool) {
		t.mu.Lock()
		defer t.mu.Unlock()
		for group, offsets := range t.topics[topic] {
			if len(named) > 0 && !slices.Contains(named, group) {
				continue
			}
			if off := offsets[queueID]; !registered || off < least {
				least, registered = off, true
			}
		}
		return max(least, 0), registered
	}
}

func (t *offsetTable) put(topic, group string, positions []protocol.QueuePosition) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return refuse(protocol.ServiceNotAvailable, "", message.ErrClosed)
	}
	key := offsetKey(topic, group)
	offsets := t.table[key]
	if offsets == nil {
		offsets = make(queueOffsets, len(positions))
		t.table[key] = offsets
		t.addTopic(key, offsets)
	}
	changed := false
	for _, p := range positions {
		if old, ok := offsets[p.QueueID]; !ok || old != p.Offset {
			offsets[p.QueueID] = p.Offset
			changed = true
		}
	}
	if changed {
		t.latest++
		t.markDirty()
	}
	return nil
}

func (t *offsetTable) markDirty() {
	select {
	case t.dirty <- struct{}{}:
	default:
	}
}

// save writes what is not on disk yet.
func (t *offsetTable) save() error {
	t.saveMu.Lock()
	defer t.saveMu.Unlock()
	text, version := t.text()
	if text == nil {
		return nil
	}
	if err := t.store.WriteConfig(offsetsFile, text); err != nil {
		return fmt.Errorf("%s: %w", offsetsFile, err)
	}
	t.mu.Lock()
	t.saved = version
	t.mu.Unlock()
	t.store.NotifyConsumed()
	return nil
}

// text is the file as it should be, nil when it is so already.
func (t *offsetTable) text() ([]byte, uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved == t.latest {
		return nil, t.latest
	}
	groups := make(object, len(t.table))
	for key, offsets := range t.table {
		groups[key] = offsets
	}
	doc := maps.Clone(t.doc)
	doc["offsetTable"] = groups
	return appendObject(nil, doc, 0), t.latest
}

// run saves in the background: nothing while nothing changes, and not more
// often than the interval. A save that fails is repeated after the interval.
func (t *offsetTable) run(interval time.Duration, log *slog.Logger) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-t.dirty:
			case <-quit:
				return
			}
			timer := time.NewTimer(interval)
			select {
			case <-timer.C:
			case <-quit:
				timer.Stop()
				return
			}
			if err := t.save(); err != nil {
				log.Error("consumer offsets not saved", "err", err)
				t.markDirty()
			}
		}
	}()
	return func() { close(quit); <-done }
}

// close refuses changes from now on and saves those before.
func (t *offsetTable) close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	return t.save()
}

// QueryConsumerOffset returns where a group goes on in a queue. An offset
// outside the queue is moved to its nearest end: below the oldest message
// others were removed; beyond the newest, messages that had not reached the
// disk were lost with the machine, and new ones take their offsets.
func (b *Broker) QueryConsumerOffset(_ context.Context, req protocol.QueryConsumerOffsetRequest) (message.QueueOffset, error) {
	if err := b.open(); err != nil {
		return 0, err
	}
	if err := b.checkReadQueue(req.Topic, req.QueueID); err != nil {
		return 0, err
	}
	off, ok := b.offsets.get(req.Topic, req.Group, req.QueueID)
	if !ok {
		return 0, refuse(protocol.QueryNotFound, "no offset of group "+req.Group, nil)
	}
	lowest, highest, err := b.bounds(req.Topic, req.QueueID)
	return max(min(off, highest), lowest), err
}

// UpdateConsumerOffset keeps the offsets in memory; they are on disk within
// the interval of the configuration, after Close, or on return with Sync.
func (b *Broker) UpdateConsumerOffset(_ context.Context, req protocol.UpdateConsumerOffsetRequest) error {
	if err := b.open(); err != nil {
		return err
	}
	if err := protocol.CheckGroup(req.Group); err != nil {
		return refuse(protocol.SystemError, "", err)
	}
	for _, p := range req.Offsets {
		if err := b.checkReadQueue(req.Topic, p.QueueID); err != nil {
			return err
		}
		if p.Offset < 0 {
			return refuse(protocol.SystemError, "", &message.LimitError{Field: "consumer offset (negative)", Value: int64(p.Offset), Unit: "messages"})
		}
	}
	if err := b.offsets.put(req.Topic, req.Group, req.Offsets); err != nil {
		return err
	}
	if !req.Sync {
		return nil
	}
	if err := b.offsets.save(); err != nil {
		return refuse(protocol.SystemError, "", err)
	}
	return nil
}

// GetMinOffset is the offset of the oldest message of a queue.
func (b *Broker) GetMinOffset(_ context.Context, topic string, queueID int32) (message.QueueOffset, error) {
	if err := b.checkReadQueue(topic, queueID); err != nil {
		return 0, err
	}
	lowest, _, err := b.bounds(topic, queueID)
	return lowest, err
}

// GetMaxOffset is the offset after the newest message that can be read.
func (b *Broker) GetMaxOffset(_ context.Context, topic string, queueID int32) (message.QueueOffset, error) {
	if err := b.checkReadQueue(topic, queueID); err != nil {
		return 0, err
	}
	return b.store.MaxOffsetInQueue(topic, queueID), nil
}
