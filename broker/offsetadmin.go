package broker

import (
	"maps"
	"slices"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// removeTopic forgets all offsets in a topic. save puts that on disk.
func (t *offsetTable) removeTopic(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for group := range t.topics[topic] {
		delete(t.table, offsetKey(topic, group))
		t.changed()
	}
	delete(t.topics, topic)
}

// removeGroup forgets all offsets of a group, and reports whether there were any.
func (t *offsetTable) removeGroup(group string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := false
	for topic, groups := range t.topics {
		if _, ok := groups[group]; !ok {
			continue
		}
		found = true
		delete(groups, group)
		if len(groups) == 0 {
			delete(t.topics, topic)
		}
		delete(t.table, offsetKey(topic, group))
		t.changed()
	}
	return found
}

// changed counts a change. The caller holds mu.
func (t *offsetTable) changed() {
	t.latest++
	t.markDirty()
}

// removeDeleted forgets the offsets in topics that were deleted: a crash may have
// come between, or a late commit.
func (t *offsetTable) removeDeleted(topics *topicTable) error {
	for topic := range *topics.deleted.Load() {
		if topics.isDeleted(topic) {
			t.removeTopic(topic)
		}
	}
	return t.save()
}

// groups are the names of those that have offsets, sorted.
func (t *offsetTable) groups() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := map[string]bool{}
	for _, groups := range t.topics {
		for group := range groups {
			names[group] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// topicsOf are the topics in which a group has offsets, sorted.
func (t *offsetTable) topicsOf(group string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var topics []string
	for topic, groups := range t.topics {
		if _, ok := groups[group]; ok {
			topics = append(topics, topic)
		}
	}
	slices.Sort(topics)
	return topics
}

// positions are a group's offsets in a topic, by queue; nil for none.
func (t *offsetTable) positions(topic, group string) []protocol.QueuePosition {
	t.mu.Lock()
	defer t.mu.Unlock()
	var positions []protocol.QueuePosition
	offsets := t.table[offsetKey(topic, group)]
	for _, id := range slices.Sorted(maps.Keys(offsets)) {
		if off := offsets[id]; off >= 0 {
			positions = append(positions, protocol.QueuePosition{QueueID: id, Offset: off})
		}
	}
	return positions
}

// saveNow puts the offsets on disk for a call that promises so.
func (b *Broker) saveNow() error {
	if err := b.offsets.save(); err != nil {
		return refuse(protocol.SystemError, "offsets not saved", err)
	}
	return nil
}

// existing is the configuration of a topic that must be there.
func (b *Broker) existing(topic string) (protocol.TopicConfig, error) {
	if err := b.open(); err != nil {
		return protocol.TopicConfig{}, err
	}
	cfg, ok := b.topics.get(topic)
	if !ok {
		return cfg, topicNotExist(topic)
	}
	return cfg, nil
}

// negative is the refusal of a number that may not be.
func negative(field string, value int64, unit string) error {
	return refuse(protocol.SystemError, "", &message.LimitError{Field: field + " (negative)", Value: value, Unit: unit})
}
