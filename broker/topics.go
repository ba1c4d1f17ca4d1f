package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

const topicsFile = "topics.json"

// topicTable is config/topics.json and its content. Looking up a topic takes
// no lock. Its methods may be called concurrently.
type topicTable struct {
	store *store.DefaultMessageStore
	now   func() time.Time

	table   atomic.Pointer[map[string]protocol.TopicConfig] // never modified once stored
	deleted atomic.Pointer[deletedTopics]                   // the same
	depths  atomic.Pointer[map[string]*depthLimit]          // the same; of the topics with a MaxDepth

	mu  sync.Mutex // serializes changes
	doc object     // the file, with all its fields
}

// openTopics reads the table, has what was deleted elsewhere deleted here, and adds
// what the store has and the file has not.
func openTopics(ctx context.Context, cfg Config) (*topicTable, []protocol.TopicConfig, error) {
	s, now := cfg.Store, cfg.Now
	t := &topicTable{store: s, now: now, doc: object{}}
	text, err := s.ReadConfig(topicsFile, func(b []byte) error { _, _, err := parseTopics(b); return err })
	table, deleted := map[string]protocol.TopicConfig{}, deletedTopics{}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, nil, fmt.Errorf("%s (without the file, topics are taken from the store's queues): %w", topicsFile, err)
	default:
		if t.doc, table, err = parseTopics(text); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", topicsFile, err)
		}
		if deleted, err = parseDeleted(t.doc); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", topicsFile, err)
		}
	}
	lowered := deleted.lower(s.MaxOffset())
	t.table.Store(&table)
	t.deleted.Store(&deleted)
	t.limitDepths(table)
	gone, err := t.apply(ctx, cfg.Deletions)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", topicsFile, err)
	}
	logDeleted(cfg.Logger, gone)
	adopted := adopt(*t.table.Load(), t.liveQueues())
	if len(adopted) == 0 && !lowered {
		return t, nil, nil
	}
	return t, adopted, t.put(adopted...)
}

// adopt returns what must change in table so that every queue can be read. A
// topic that is missing gets as many queues as there are, and no more: a topic
// of one queue would otherwise lose its order.
func adopt(table map[string]protocol.TopicConfig, queues iter.Seq2[string, int32]) []protocol.TopicConfig {
	changed := map[string]protocol.TopicConfig{}
	for topic, id := range queues {
		if protocol.IsSystemTopic(topic) || id == math.MaxInt32 {
			continue
		}
		cfg, ok := changed[topic]
		if !ok {
			cfg, ok = table[topic]
		}
		if ok && cfg.ReadQueueNums > id {
			continue
		}
		if _, known := table[topic]; !known {
			cfg.Name, cfg.Perm, cfg.WriteQueueNums = topic, protocol.PermReadWrite, id+1
		}
		cfg.ReadQueueNums = id + 1
		changed[topic] = cfg
	}
	return slices.SortedFunc(maps.Values(changed), byName)
}

func byName(a, b protocol.TopicConfig) int { return strings.Compare(a.Name, b.Name) }

func (t *topicTable) get(topic string) (protocol.TopicConfig, bool) {
	cfg, ok := (*t.table.Load())[topic]
	return cfg, ok
}

func (t *topicTable) has(topic string) bool { _, ok := t.get(topic); return ok }

// all returns the topics sorted by name.
func (t *topicTable) all() []protocol.TopicConfig {
	return slices.SortedFunc(maps.Values(*t.table.Load()), byName)
}

// put adds or replaces topics. On an error nothing has changed.
func (t *topicTable) put(configs ...protocol.TopicConfig) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.putLocked(configs...)
}

// putNew is put for a topic that another call may have made meanwhile; it
// returns the configuration that counts, and whether it is the one given.
func (t *topicTable) putNew(cfg protocol.TopicConfig) (protocol.TopicConfig, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if have, ok := t.get(cfg.Name); ok {
		return have, false, nil
	}
	return cfg, true, t.putLocked(cfg)
}

func (t *topicTable) putLocked(configs ...protocol.TopicConfig) error {
	table, deleted := maps.Clone(*t.table.Load()), *t.deleted.Load()
	for _, cfg := range configs {
		if _, known := table[cfg.Name]; !known {
			deleted = deleted.again(cfg.Name, t.store.MaxOffset())
		}
		table[cfg.Name] = cfg
	}
	return t.replace(table, deleted)
}

// replace writes the file and has the tables count that are in it. On an error
// nothing has changed.
func (t *topicTable) replace(table map[string]protocol.TopicConfig, deleted deletedTopics) error {
	doc := maps.Clone(t.doc)
	old, err := fieldObject(doc, "topicConfigTable")
	if err != nil {
		return err
	}
	topics := make(object, len(table))
	for name, cfg := range table {
		fields, _ := old[name].(object)
		if have, ok := t.get(name); ok && have == cfg && fields != nil {
			topics[name] = fields
			continue
		}
		topics[name] = topicFields(fields, cfg)
	}
	doc["topicConfigTable"] = topics
	deleted.setFields(doc)
	if doc["dataVersion"], err = nextVersion(doc, t.now()); err != nil {
		return err
	}
	if err := t.store.WriteConfig(topicsFile, appendObject(nil, doc, 0)); err != nil {
		return err
	}
	t.doc = doc
	t.deleted.Store(&deleted) // before the table: a topic that is new, or gone, never shows what was deleted
	t.limitDepths(table)
	t.table.Store(&table)
	return nil
}

// nextVersion counts dataVersion up.
func nextVersion(doc object, now time.Time) (object, error) {
	old, err := fieldObject(doc, "dataVersion")
	if err != nil {
		return nil, err
	}
	counter, err := fieldInt(old, "counter", 0)
	if err != nil {
		return nil, err
	}
	version := maps.Clone(old)
	version["counter"], version["timestamp"] = counter+1, now.UnixMilli()
	return version, nil
}

// topicFields is cfg in the file; fields of old that we do not know are kept.
func topicFields(old object, cfg protocol.TopicConfig) object {
	o := object{}
	maps.Copy(o, old)
	o["topicName"] = cfg.Name
	o["readQueueNums"] = int64(cfg.ReadQueueNums)
	o["writeQueueNums"] = int64(cfg.WriteQueueNums)
	o["perm"] = int64(cfg.Perm)
	o["topicFilterType"] = cfg.FilterType.String()
	o["topicSysFlag"] = int64(cfg.SysFlag)
	o["order"] = cfg.Order
	delete(o, maxDepthField)
	if cfg.MaxDepth > 0 {
		o[maxDepthField] = cfg.MaxDepth
	}
	return o
}

// maxDepthField is ours. RocketMQ passes over it, and drops it when it writes the
// file.
const maxDepthField = "pocketmqMaxDepth"

func parseTopics(text []byte) (object, map[string]protocol.TopicConfig, error) {
	doc, err := parseObject(text)
	if err != nil {
		return nil, nil, err
	}
	if _, err := nextVersion(doc, time.Time{}); err != nil {
		return nil, nil, err
	}
	if _, err := parseDeleted(doc); err != nil {
		return nil, nil, err
	}
	topics, err := fieldObject(doc, "topicConfigTable")
	if err != nil {
		return nil, nil, err
	}
	table := make(map[string]protocol.TopicConfig, len(topics))
	for name := range topics {
		fields, err := fieldObject(topics, name)
		if err != nil {
			return nil, nil, err
		}
		cfg, err := parseTopic(name, fields)
		if err != nil {
			return nil, nil, fmt.Errorf("topic %q: %w", name, err)
		}
		table[name] = cfg
	}
	return doc, table, nil
}

// parseTopic gives fields that are missing RocketMQ's defaults.
func parseTopic(name string, o object) (protocol.TopicConfig, error) {
	cfg := protocol.TopicConfig{Name: name}
	var errs [6]error
	var perm int32
	cfg.ReadQueueNums, errs[0] = fieldInt32(o, "readQueueNums", 16)
	cfg.WriteQueueNums, errs[1] = fieldInt32(o, "writeQueueNums", 16)
	perm, errs[2] = fieldInt32(o, "perm", int32(protocol.PermReadWrite))
	cfg.SysFlag, errs[3] = fieldInt32(o, "topicSysFlag", 0)
	cfg.Order, errs[4] = fieldBool(o, "order")
	cfg.MaxDepth, errs[5] = fieldInt(o, maxDepthField, 0)
	cfg.Perm = protocol.Perm(perm)
	if o["topicFilterType"] == protocol.MultiTag.String() {
		cfg.FilterType = protocol.MultiTag
	}
	if cfg.ReadQueueNums < 0 || cfg.WriteQueueNums < 0 {
		return cfg, errors.New("a negative number of queues")
	}
	if cfg.MaxDepth < 0 {
		return cfg, fieldError(maxDepthField, cfg.MaxDepth, "positive integer")
	}
	return cfg, errors.Join(errs[:]...)
}

// CreateTopic makes a topic or replaces its configuration, except for Order,
// which stays when it was set (RocketMQ 4.9.3 drops it). Both numbers of queues
// must be within [1, MaxQueueNums]; queues that hold messages stay readable
// only as long as ReadQueueNums covers them. A zero Perm means reading and
// writing. A topic that was deleted begins empty. It returns when the file is on
// disk.
func (b *Broker) CreateTopic(ctx context.Context, cfg protocol.TopicConfig) error {
	if err := b.open(); err != nil {
		return err
	}
	if err := checkTopicConfig(cfg); err != nil {
		return err
	}
	if b.systemTopic(cfg.Name) {
		return refuse(protocol.SystemError, "topic "+cfg.Name+" conflicts with a system topic", nil)
	}
	if cfg.Perm == 0 {
		cfg.Perm = protocol.PermReadWrite
	}
	if old, ok := b.topics.get(cfg.Name); ok {
		cfg.Order = cfg.Order || old.Order
	}
	if err := b.topics.put(cfg); err != nil {
		return refuse(protocol.SystemError, "topic "+cfg.Name+" not created", err)
	}
	return b.announce(ctx)
}

func checkTopicConfig(cfg protocol.TopicConfig) error {
	if err := protocol.CheckTopic(cfg.Name); err != nil {
		return refuse(protocol.SystemError, "", err)
	}
	for _, f := range [...]struct {
		name string
		n    int32
	}{{"readQueueNums", cfg.ReadQueueNums}, {"writeQueueNums", cfg.WriteQueueNums}} {
		if f.n < 1 || f.n > MaxQueueNums {
			return refuse(protocol.SystemError, "topic "+cfg.Name, queueNumsError(f.name, f.n))
		}
	}
	if cfg.Perm < 0 || cfg.Perm > protocol.PermReadWrite|protocol.PermInherit {
		return refuse(protocol.SystemError, "topic "+cfg.Name, &message.LimitError{Field: "perm", Limit: 7, Value: int64(cfg.Perm), Unit: "as bits"})
	}
	if cfg.MaxDepth < 0 {
		return refuse(protocol.SystemError, "topic "+cfg.Name, &message.LimitError{Field: "maxDepth (negative)", Value: cfg.MaxDepth, Unit: "messages"})
	}
	return nil
}

// systemTopic adds this broker's own names to the fixed list.
func (b *Broker) systemTopic(topic string) bool {
	return protocol.IsSystemTopic(topic) || topic == b.name || topic == b.cluster || topic == protocol.ReplyTopic(b.cluster)
}

// GetTopic returns a topic's configuration.
func (b *Broker) GetTopic(_ context.Context, topic string) (protocol.TopicConfig, error) {
	if cfg, ok := b.topics.get(topic); ok {
		return cfg, nil
	}
	return protocol.TopicConfig{}, topicNotExist(topic)
}

// ListTopics returns all topics but the broker's own, sorted by name.
func (b *Broker) ListTopics(context.Context) ([]protocol.TopicConfig, error) {
	return slices.DeleteFunc(b.topics.all(), func(cfg protocol.TopicConfig) bool { return b.systemTopic(cfg.Name) }), nil
}

// topicForSend finds the topic of a message, or makes it by its template.
func (b *Broker) topicForSend(ctx context.Context, req *protocol.SendMessageRequest) (protocol.TopicConfig, error) {
	topic := req.Message.Topic
	if err := protocol.CheckSendTopic(topic); err != nil {
		return protocol.TopicConfig{}, refuse(protocol.NoPermission, "", err)
	}
	if cfg, ok := b.topics.get(topic); ok {
		return cfg, nil
	}
	if err := protocol.CheckTopic(topic); err != nil {
		return protocol.TopicConfig{}, refuse(protocol.SystemError, "", err)
	}
	cfg, ok := b.fromTemplate(req)
	if !ok {
		return protocol.TopicConfig{}, topicNotExist(topic)
	}
	cfg, created, err := b.topics.putNew(cfg)
	if err != nil {
		return protocol.TopicConfig{}, refuse(protocol.SystemError, "topic "+topic+" not created", err)
	}
	if created {
		b.log.Info("topic created by its first message", "topic", topic, "queues", cfg.WriteQueueNums)
		err = b.announce(ctx)
		if b.topicCreated != nil {
			b.topicCreated(cfg)
		}
	}
	return cfg, err
}

// fromTemplate is the configuration of a new topic: as many queues as the
// client wants and the template has, the template's permissions but one. The
// topic of replies needs no template.
//
// Source: RocketMQ broker/topic/TopicConfigManager.java, createTopicInSendMessageMethod.
func (b *Broker) fromTemplate(req *protocol.SendMessageRequest) (protocol.TopicConfig, bool) {
	if req.Message.Topic == protocol.ReplyTopic(b.cluster) {
		return b.replyTopic(), true
	}
	cfg, ok := b.template(cmp.Or(req.DefaultTopic, protocol.TemplateTopic))
	if ok && req.DefaultTopicQueueNums > 0 {
		cfg.WriteQueueNums = min(cfg.WriteQueueNums, req.DefaultTopicQueueNums)
	}
	if !ok && strings.HasPrefix(req.Message.Topic, protocol.RetryPrefix) {
		cfg, ok = protocol.TopicConfig{WriteQueueNums: 1, Perm: protocol.PermReadWrite}, true
	}
	return protocol.TopicConfig{
		Name:           req.Message.Topic,
		ReadQueueNums:  cfg.WriteQueueNums,
		WriteQueueNums: cfg.WriteQueueNums,
		Perm:           cfg.Perm &^ protocol.PermInherit,
		FilterType:     cfg.FilterType,
		SysFlag:        unitFlag(req),
	}, ok
}

// unitFlag is the flag of a topic that the request makes.
func unitFlag(req *protocol.SendMessageRequest) int32 {
	switch {
	case !req.UnitMode:
		return 0
	case strings.HasPrefix(req.Message.Topic, protocol.RetryPrefix):
		return protocol.TopicUnitSub
	}
	return protocol.TopicUnit
}

// template finds a topic that others may be made after. TBW102 is given by the
// broker's configuration and not by the file.
func (b *Broker) template(name string) (protocol.TopicConfig, bool) {
	if name == protocol.TemplateTopic {
		return protocol.TopicConfig{
			Name: name, ReadQueueNums: b.queueNums, WriteQueueNums: b.queueNums,
			Perm: protocol.PermReadWrite | protocol.PermInherit,
		}, b.autoCreate
	}
	cfg, ok := b.topics.get(name)
	return cfg, ok && cfg.Perm.Inheritable()
}

func topicNotExist(topic string) error {
	return refuse(protocol.TopicNotExist, "topic "+topic+" does not exist", nil)
}
