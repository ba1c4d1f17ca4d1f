package inspect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pocketmq/pocketmq/internal/barekeys"
	"github.com/pocketmq/pocketmq/message"
)

// Settings are what a broker keeps in config/: topics, groups, and how far these
// are, as far as it was written. An open broker writes offsets some seconds late.
type Settings struct {
	Topics  []TopicSettings // by name
	Groups  []string        // that have a configuration or offsets, by name
	Offsets []GroupOffset   // by group, topic and queue

	deleted map[string]message.LogOffset // see DeletedBefore
}

// TopicSettings is the configuration of a topic.
type TopicSettings struct {
	Name        string
	ReadQueues  int32
	WriteQueues int32
	Perm        int32 // 4 read, 2 write, 1 inherit
	Order       bool
	MaxDepth    int64 // 0 for no limit
}

// GroupOffset is where a group goes on in a queue.
type GroupOffset struct {
	Group   string
	Topic   string
	QueueID int32
	Offset  message.QueueOffset
}

// DeletedBefore is the log offset before which no message belongs to the topic,
// because a topic of that name was deleted; 0 for most.
func (s *Settings) DeletedBefore(topic string) message.LogOffset { return s.deleted[topic] }

// Topic finds a topic.
func (s *Settings) Topic(name string) (TopicSettings, bool) {
	i, ok := slices.BinarySearchFunc(s.Topics, name, func(t TopicSettings, name string) int { return cmp.Compare(t.Name, name) })
	if !ok {
		return TopicSettings{}, false
	}
	return s.Topics[i], true
}

// ReadSettings reads config/. A file that is missing has nothing; of one that does
// not parse the version before is taken, as the broker does.
func ReadSettings(dir string) (Settings, error) {
	var s Settings
	if err := Check(dir); err != nil {
		return s, fmt.Errorf("inspect: %w", err)
	}
	var topics struct {
		Table   map[string]topicFields       `json:"topicConfigTable"`
		Deleted map[string]message.LogOffset `json:"pocketmqDeletedTopics"`
	}
	var groups struct {
		Table map[string]struct{} `json:"subscriptionGroupTable"`
	}
	var offsets struct {
		Table map[string]map[int32]message.QueueOffset `json:"offsetTable"`
	}
	for name, into := range map[string]any{"topics.json": &topics, "subscriptionGroup.json": &groups, "consumerOffset.json": &offsets} {
		if err := readConfig(filepath.Join(dir, configDir, name), into); err != nil {
			return s, fmt.Errorf("inspect: %w", err)
		}
	}
	s.deleted = topics.Deleted
	for _, name := range slices.Sorted(maps.Keys(topics.Table)) {
		s.Topics = append(s.Topics, topics.Table[name].settings(name))
	}
	known := map[string]bool{}
	for group := range groups.Table {
		known[group] = true
	}
	for key, queues := range offsets.Table {
		topic, group, ok := strings.Cut(key, "@")
		if !ok {
			continue
		}
		known[group] = true
		for id, off := range queues {
			s.Offsets = append(s.Offsets, GroupOffset{group, topic, id, off})
		}
	}
	s.Groups = slices.Sorted(maps.Keys(known))
	slices.SortFunc(s.Offsets, func(a, b GroupOffset) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.QueueID, b.QueueID))
	})
	return s, nil
}

// topicFields are those of a topic in topics.json; RocketMQ's defaults count where
// one is missing.
type topicFields struct {
	ReadQueueNums  *int32 `json:"readQueueNums"`
	WriteQueueNums *int32 `json:"writeQueueNums"`
	Perm           *int32 `json:"perm"`
	Order          bool   `json:"order"`
	MaxDepth       int64  `json:"pocketmqMaxDepth"`
}

func (f topicFields) settings(name string) TopicSettings {
	or := func(n *int32, def int32) int32 {
		if n == nil {
			return def
		}
		return *n
	}
	return TopicSettings{name, or(f.ReadQueueNums, 16), or(f.WriteQueueNums, 16), or(f.Perm, 6), f.Order, f.MaxDepth}
}

// readConfig reads a JSON file, or its backup when it does not parse.
func readConfig(path string, into any) error {
	var errs []error
	for _, p := range []string{path, path + ".bak"} {
		b, err := os.ReadFile(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(barekeys.Quote(b), into)
		}
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", p, err))
	}
	if len(errs) == 0 {
		return nil
	}
	return &message.CorruptionError{File: path, Err: errors.Join(errs...)}
}

// QueueState is what a look at a queue gives: messages [Min, Max).
type QueueState struct {
	Min, Max message.QueueOffset
	LastTime int64 // store time of the last message (ms), 0 when there is none or it can not be read
}

// LookAtQueue tells where a queue begins and ends, of messages that lie at or behind
// from in the log. A queue that is not there is empty.
func LookAtQueue(dir, topic string, id int32, from message.LogOffset) (QueueState, error) {
	r, err := NewReader(dir, topic, id)
	if err != nil {
		return QueueState{}, err
	}
	defer func() { _ = r.Close() }() // always nil
	first, err := r.queue.min(max(r.start, int64(from)))
	if err != nil {
		return QueueState{}, err
	}
	s := QueueState{Min: message.QueueOffset(first), Max: r.Max()}
	if s.Min == s.Max {
		return s, nil
	}
	s.LastTime, err = r.TimeOf(s.Max - 1)
	return s, err
}

// TimeOf is the store time (ms) of a message, 0 when it is not there or can not be
// read. Next goes on behind it.
func (r *Reader) TimeOf(off message.QueueOffset) (int64, error) {
	if off < 0 {
		return 0, nil
	}
	r.Seek(off)
	v, err := r.Next()
	switch {
	case errors.Is(err, message.ErrCorrupt), errors.Is(err, io.EOF), err == nil && v.QueueOffset() != off:
		return 0, nil
	case err != nil:
		return 0, err
	}
	return v.StoreTimestamp(), nil
}

// MessageAt returns the message whose record begins at a log offset. It is found by
// going through its file of the log from the start. The error matches
// message.ErrOffsetNotFound when none begins there, message.ErrCorrupt when it is
// damaged.
func MessageAt(dir string, off message.LogOffset) (message.MessageExt, error) {
	if err := Check(dir); err != nil {
		return message.MessageExt{}, fmt.Errorf("inspect: %w", err)
	}
	log, _, err := openLog(dir, 64<<10)
	if err != nil {
		return message.MessageExt{}, fmt.Errorf("inspect: %w", err)
	}
	defer log.close()
	file, ok := log.find(int64(off))
	if !ok {
		return message.MessageExt{}, fmt.Errorf("inspect: offset %d: %w", off, message.ErrOffsetNotFound)
	}
	w := walk{log: log, pos: file.Base, whole: true}
	for {
		it, ok, err := w.next()
		if err != nil {
			return message.MessageExt{}, fmt.Errorf("inspect: %w", err)
		}
		if !ok || it.pos > int64(off) {
			return message.MessageExt{}, fmt.Errorf("inspect: offset %d: %w", off, message.ErrOffsetNotFound)
		}
		switch {
		case it.damage != nil && int64(off) < max(it.to, it.pos+1):
			return message.MessageExt{}, &message.CorruptionError{File: file.Path, Offset: off, Err: it.damage}
		case it.pos == int64(off) && it.kind == message.KindRecord:
			return it.view.Message(), nil
		}
	}
}
