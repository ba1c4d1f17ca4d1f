package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/message"
)

// look reads the files of a store, also of one that is in use, for what commands
// tell about topics and groups.
type look struct {
	dir      string
	settings inspect.Settings
	seen     map[queueID]inspect.QueueState
}

type queueID struct {
	topic string
	id    int32
}

// lookAt recovers the store, if nobody has it open, and reads its settings.
func (c *cli) lookAt(ctx context.Context, dir string) (*look, error) {
	if err := c.recoverStore(ctx, dir); err != nil {
		return nil, err
	}
	settings, err := inspect.ReadSettings(dir)
	return &look{dir, settings, map[queueID]inspect.QueueState{}}, err
}

// topic finds a topic, or says that it does not exist.
func (l *look) topic(name string) (inspect.TopicSettings, error) {
	t, ok := l.settings.Topic(name)
	if !ok {
		return t, fmt.Errorf("topic %s does not exist in %s", name, l.dir)
	}
	return t, nil
}

// queue looks at a queue, once.
func (l *look) queue(topic string, id int32) (inspect.QueueState, error) {
	q := queueID{topic, id}
	if s, ok := l.seen[q]; ok {
		return s, nil
	}
	s, err := inspect.LookAtQueue(l.dir, topic, id, l.settings.DeletedBefore(topic))
	if err == nil {
		l.seen[q] = s
	}
	return s, err
}

// queueLine is a queue as stats prints it.
type queueLine struct {
	Topic       string `json:"topic"`
	Queue       int32  `json:"queue"`
	Min         int64  `json:"min"`
	Max         int64  `json:"max"`
	Messages    int64  `json:"messages"`
	LastMessage string `json:"lastMessage,omitempty"` // when it was stored
}

// queues looks at the queues of a topic, those for reading and for writing.
func (l *look) queues(t inspect.TopicSettings) ([]queueLine, error) {
	lines := []queueLine{}
	for id := range max(t.ReadQueues, t.WriteQueues) {
		s, err := l.queue(t.Name, id)
		if err != nil {
			return nil, err
		}
		lines = append(lines, queueLine{t.Name, id, int64(s.Min), int64(s.Max), int64(s.Max - s.Min), jsonTime(s.LastTime)})
	}
	return lines, nil
}

// groupLine is how far a group is in a queue, as stats prints it.
type groupLine struct {
	Group        string `json:"group"`
	Topic        string `json:"topic"`
	Queue        int32  `json:"queue"`
	Offset       int64  `json:"offset"`
	End          int64  `json:"end"`
	Lag          int64  `json:"lag"`
	LastConsumed string `json:"lastConsumed,omitempty"` // when the message was stored that was consumed last
}

// groups looks at how far groups are: one, or all when it is empty, in one topic, or
// in all when that is empty. Where a group has an offset in one queue of a topic, it
// has all of them.
func (l *look) groups(group, topic string) ([]groupLine, error) {
	offsets := map[string]map[queueID]message.QueueOffset{} // by group
	var order [][2]string
	for _, o := range l.settings.Offsets {
		if group != "" && o.Group != group || topic != "" && o.Topic != topic {
			continue
		}
		if n := len(order); n == 0 || order[n-1] != [2]string{o.Group, o.Topic} {
			order = append(order, [2]string{o.Group, o.Topic})
		}
		if offsets[o.Group] == nil {
			offsets[o.Group] = map[queueID]message.QueueOffset{}
		}
		offsets[o.Group][queueID{o.Topic, o.QueueID}] = o.Offset
	}
	lines := []groupLine{}
	for _, of := range order {
		t, ok := l.settings.Topic(of[1])
		if !ok {
			continue
		}
		for id := range t.ReadQueues {
			line, err := l.group(of[0], queueID{t.Name, id}, offsets[of[0]])
			if err != nil {
				return nil, err
			}
			lines = append(lines, line)
		}
	}
	return lines, nil
}

func (l *look) group(group string, q queueID, offsets map[queueID]message.QueueOffset) (groupLine, error) {
	s, err := l.queue(q.topic, q.id)
	if err != nil {
		return groupLine{}, err
	}
	off := max(min(offsets[q], s.Max), s.Min)
	line := groupLine{Group: group, Topic: q.topic, Queue: q.id, Offset: int64(off), End: int64(s.Max), Lag: int64(s.Max - off)}
	if off == s.Min {
		return line, nil
	}
	r, err := inspect.NewReader(l.dir, q.topic, q.id)
	if err != nil {
		return line, err
	}
	defer func() { _ = r.Close() }() // always nil
	at, err := r.TimeOf(off - 1)
	line.LastConsumed = jsonTime(at)
	return line, err
}

// jsonTime is a time in text, "" for none.
func jsonTime(ms int64) string {
	if ms == 0 {
		return ""
	}
	return timeText(ms)
}

// table prints lines of cells under a head, "-" for those that are empty.
func table(out io.Writer, head []string, rows [][]any) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(head, "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cells[i] = fmt.Sprint(cell); cells[i] == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}
