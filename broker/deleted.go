package broker

import (
	"context"
	"errors"
	"iter"
	"maps"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// A topic is deleted by one write of topics.json: its configuration goes, and a
// log offset comes, before which nothing belongs to a topic of that name. Log and
// consume queues stay as they are, so queue offsets stay dense and follow the log,
// whoever builds the queues again from it. Retention removes both, as if everybody
// had consumed them.
//
// A topic that is made again gets a new offset, the end of the log at that moment,
// and begins there: what a sender stored that was faster than the deletion does
// not come back. Its queues go on with their numbers.

// deletedField is ours. RocketMQ passes over it, and drops it when it writes the
// file: then the topic is adopted again, by the next broker, with what is left of
// its messages.
const deletedField = "pocketmqDeletedTopics"

// deletedAtField is ours, too: when each was deleted, in ms since the Unix epoch. It
// is for other directories of a node, which may not have been there.
const deletedAtField = "pocketmqDeletedAt"

// deletedTopics has the topics that were deleted, with those that were made again.
// It is never modified once it counts.
type deletedTopics map[string]deletion

type deletion struct {
	before message.LogOffset // no message before it is the topic's
	at     int64             // when it was deleted, in ms; 0: not known
}

func parseDeleted(doc object) (deletedTopics, error) {
	fields, err := fieldObject(doc, deletedField)
	if err != nil {
		return nil, err
	}
	times, err := fieldObject(doc, deletedAtField)
	if err != nil {
		return nil, err
	}
	d := make(deletedTopics, len(fields))
	for topic := range fields {
		off, err := fieldInt(fields, topic, 0)
		if err == nil && off < 0 {
			err = fieldError(deletedField, off, "log offset")
		}
		at, timeErr := fieldInt(times, topic, 0)
		if err := errors.Join(err, timeErr); err != nil {
			return nil, err
		}
		d[topic] = deletion{message.LogOffset(off), at}
	}
	return d, nil
}

// setFields puts d into the file, and nothing, which is not written, when it is empty.
func (d deletedTopics) setFields(doc object) {
	doc[deletedField], doc[deletedAtField] = nil, nil
	offsets, times := make(object, len(d)), make(object, len(d))
	for topic, deleted := range d {
		offsets[topic] = int64(deleted.before)
		if deleted.at != 0 {
			times[topic] = deleted.at
		}
	}
	if len(offsets) > 0 {
		doc[deletedField] = offsets
	}
	if len(times) > 0 {
		doc[deletedAtField] = times
	}
}

// again is d when a topic is made that may have been deleted before.
func (d deletedTopics) again(topic string, end message.LogOffset) deletedTopics {
	deleted, ok := d[topic]
	if !ok {
		return d
	}
	deleted.before = end
	return d.with(topic, deleted)
}

func (d deletedTopics) with(topic string, deleted deletion) deletedTopics {
	d = maps.Clone(d)
	d[topic] = deleted
	return d
}

// lower brings d back into the log, which may have lost its end with the machine:
// what comes there now is new. It reports whether anything changed.
func (d deletedTopics) lower(end message.LogOffset) (changed bool) {
	for topic, deleted := range d {
		if deleted.before > end {
			deleted.before = end
			d[topic], changed = deleted, true
		}
	}
	return changed
}

// deletedBefore returns the log offset before which no message is the topic's, 0
// for most.
func (t *topicTable) deletedBefore(topic string) message.LogOffset {
	return (*t.deleted.Load())[topic].before
}

// isDeleted reports whether a topic was deleted and not made again.
func (t *topicTable) isDeleted(topic string) bool {
	if _, ok := (*t.deleted.Load())[topic]; !ok {
		return false
	}
	_, exists := t.get(topic)
	return !exists
}

// liveQueues are the store's queues without those of deleted topics, and without
// those in which a topic that was made again has no message yet.
func (t *topicTable) liveQueues() iter.Seq2[string, int32] {
	return func(yield func(string, int32) bool) {
		for topic, id := range t.store.QueueIDs() {
			if t.isDeleted(topic) {
				continue
			}
			if before := t.deletedBefore(topic); before > 0 {
				first, err := t.store.OffsetInQueueByLogOffset(topic, id, before)
				if err == nil && first >= t.store.MaxOffsetInQueue(topic, id) {
					continue
				}
			}
			if !yield(topic, id) {
				return
			}
		}
	}
}

// remove deletes a topic; false if there is none. On an error nothing has changed.
func (t *topicTable) remove(topic string) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	table := maps.Clone(*t.table.Load())
	if _, ok := table[topic]; !ok {
		return false, nil
	}
	delete(table, topic)
	return true, t.replace(table, t.deleted.Load().with(topic, deletion{t.store.MaxOffset(), t.now().UnixMilli()}))
}

// DeleteTopic removes a topic with its messages and the groups' offsets in it.
// Producers that may make topics on first use make it again with their next
// message. Delayed and timed messages that wait for it are dropped when they are due,
// also if it was made again. An error that does not match TopicNotExist or SystemError's system
// topics says that the offsets are not removed from the disk yet: the topic is, and
// the broker tries again.
//
// Source: RocketMQ broker/processor/AdminBrokerProcessor.java, deleteTopic; there
// offsets stay, an unknown topic is a success, and the queues' files are removed,
// so that numbers begin again, in front of messages that a recovery may bring back.
func (b *Broker) DeleteTopic(ctx context.Context, topic string) error {
	if err := b.open(); err != nil {
		return err
	}
	if err := protocol.CheckTopic(topic); err != nil {
		return refuse(protocol.SystemError, "", err)
	}
	if b.systemTopic(topic) {
		return refuse(protocol.SystemError, "topic "+topic+" conflicts with a system topic", nil)
	}
	removed, err := b.topics.remove(topic)
	switch {
	case err != nil:
		return refuse(protocol.SystemError, "topic "+topic+" not deleted", err)
	case !removed:
		return topicNotExist(topic)
	}
	b.log.Info("topic deleted", "topic", topic)
	b.offsets.removeTopic(topic)
	b.store.NotifyConsumed()
	if err := b.offsets.save(); err != nil {
		err = refuse(protocol.SystemError, "topic "+topic+" deleted, its offsets not yet", err)
		return errors.Join(err, b.announce(ctx))
	}
	return b.announce(ctx)
}

// firstOffset is the offset of the queue's first message that belongs to the topic
// as it is now, 0 where the store alone knows.
func (b *Broker) firstOffset(topic string, queueID int32) (message.QueueOffset, error) {
	before := b.topics.deletedBefore(topic)
	if before == 0 {
		return 0, nil
	}
	return b.store.OffsetInQueueByLogOffset(topic, queueID, before)
}

// bounds are the offsets of a queue's first and next message.
func (b *Broker) bounds(topic string, queueID int32) (lowest, highest message.QueueOffset, err error) {
	first, err := b.firstOffset(topic, queueID)
	if err != nil {
		return 0, 0, readError(err)
	}
	highest = b.store.MaxOffsetInQueue(topic, queueID)
	return min(max(first, b.store.MinOffsetInQueue(topic, queueID)), highest), highest, nil
}
