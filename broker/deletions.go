package broker

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

// Deletions says when topics were deleted for the last time.
type Deletions map[string]time.Time

// Deletions are those of this broker, also of topics that were made again. Those of
// earlier versions, of which the time is not known, are left out.
func (b *Broker) Deletions() Deletions {
	known := Deletions{}
	for topic, d := range *b.topics.deleted.Load() {
		if d.at != 0 {
			known[topic] = time.UnixMilli(d.at)
		}
	}
	return known
}

// ApplyDeletions deletes topics here that were deleted on other brokers of a node
// while this one was not there. What was stored in a topic before that time is
// deleted. The topic itself is, unless it has later messages, or config/topics.json
// was written since: then it may have been made again. The groups' offsets go with
// it, and a deletion that is known already changes nothing.
func (b *Broker) ApplyDeletions(ctx context.Context, elsewhere Deletions) error {
	if err := b.open(); err != nil {
		return err
	}
	gone, err := b.topics.apply(ctx, elsewhere)
	if err != nil {
		return refuse(protocol.SystemError, "topics not deleted that were elsewhere", err)
	}
	if len(gone) == 0 {
		return nil
	}
	logDeleted(b.log, gone)
	b.store.NotifyConsumed()
	if err := b.offsets.removeDeleted(b.topics); err != nil {
		return refuse(protocol.SystemError, "topics deleted that were elsewhere, their offsets not yet", err)
	}
	return b.announce(ctx)
}

func logDeleted(log *slog.Logger, gone []lateDeletion) {
	for _, d := range gone {
		log.Info("topic deleted: it was elsewhere while this directory was not open", "topic", d.topic, "at", time.UnixMilli(d.at), "logOffset", d.before)
	}
}

// lateDeletion is a deletion that this directory has not seen.
type lateDeletion struct {
	deletion

	topic string
	used  bool // the topic has messages that are not before it
}

// apply has deletions count, and returns those that were not known here.
func (t *topicTable) apply(ctx context.Context, elsewhere Deletions) ([]lateDeletion, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	late := t.unseen(elsewhere)
	if len(late) == 0 {
		return nil, nil
	}
	if err := t.place(ctx, late); err != nil {
		return nil, err
	}
	version, err := fieldObject(t.doc, "dataVersion")
	if err != nil {
		return nil, err
	}
	written, err := fieldInt(version, "timestamp", 0)
	if err != nil {
		return nil, err
	}
	table, deleted := map[string]protocol.TopicConfig{}, *t.deleted.Load()
	for name, cfg := range *t.table.Load() {
		table[name] = cfg
	}
	for _, d := range late {
		deleted = deleted.with(d.topic, d.deletion)
		if !d.used && written < d.at {
			delete(table, d.topic)
		}
	}
	return late, t.replace(table, deleted)
}

// unseen are the deletions of topics that are here and were deleted later than is
// known here, in the order of their time.
func (t *topicTable) unseen(elsewhere Deletions) (late []lateDeletion) {
	if len(elsewhere) == 0 {
		return nil
	}
	here := map[string]bool{}
	for topic := range t.store.QueueIDs() {
		here[topic] = true
	}
	for topic, when := range elsewhere {
		own, at := (*t.deleted.Load())[topic], when.UnixMilli()
		if own.at < at && !protocol.IsSystemTopic(topic) && !t.isDeleted(topic) && (here[topic] || t.has(topic)) {
			late = append(late, lateDeletion{deletion: deletion{own.before, at}, topic: topic})
		}
	}
	slices.SortFunc(late, func(a, b lateDeletion) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.topic, b.topic)) })
	return late
}

// place finds out where in the log each deletion would have been, and whether its
// topic has messages behind that.
func (t *topicTable) place(ctx context.Context, late []lateDeletion) error {
	end, placed := t.store.MaxOffset(), 0
	byTopic := make(map[string]*lateDeletion, len(late))
	for i := range late {
		byTopic[late[i].topic] = &late[i]
	}
	for v, err := range t.store.Records(ctx, t.store.OffsetByTime(late[0].at)) {
		if err != nil {
			return err
		}
		for ; placed < len(late) && late[placed].at <= v.StoreTimestamp(); placed++ {
			late[placed].before = max(late[placed].before, v.LogOffset())
		}
		topic := v.Topic()
		if waitsFor, ok := v.Property(message.PropertyRealTopic); ok {
			topic = waitsFor
		}
		if d := byTopic[string(topic)]; d != nil && d.at <= v.StoreTimestamp() {
			d.used = true
		}
	}
	for ; placed < len(late); placed++ {
		late[placed].before = max(late[placed].before, end)
	}
	return nil
}
