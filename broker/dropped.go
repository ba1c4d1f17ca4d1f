package broker

import (
	"log/slog"
	"sync"

	"github.com/pocketmq/pocketmq/message"
)

// dropped knows which of the messages that wait are for a topic that was deleted
// since they were sent, and counts them when they are due. They are gone with the
// topic, also when it was made again: what belongs to it is told by the log offset
// of the record that waits, as for all its messages. So it may be found out again
// after a crash, and nothing of it is saved.
//
// A topic that is unknown without having been deleted, because the file was lost or
// RocketMQ has written it, gets its messages as in RocketMQ, which does not look.
type dropped struct {
	topics *topicTable
	log    *slog.Logger

	mu    sync.Mutex
	count int64
	told  map[string]message.LogOffset // of which deletion, by topic
}

// isGone reports whether a record at a log offset that waits for a topic is gone
// with it.
func (d *dropped) isGone(topic string, at message.LogOffset) bool {
	return at < d.topics.deletedBefore(topic) || d.topics.isDeleted(topic)
}

// note counts a message that was due, or would have been put further on.
func (d *dropped) note(topic string) {
	before := d.topics.deletedBefore(topic)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
	if old, ok := d.told[topic]; ok && old == before {
		return
	}
	d.told[topic] = before
	d.log.Warn("message dropped that had waited: its topic was deleted; told once for each topic, and counted", "topic", topic)
}

// Dropped is how many delayed and timed messages were not delivered since the broker
// was opened, because their topic was deleted while they waited.
func (b *Broker) Dropped() int64 {
	b.dropped.mu.Lock()
	defer b.dropped.mu.Unlock()
	return b.dropped.count
}
