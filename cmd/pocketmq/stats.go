package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pocketmq/pocketmq/inspect"
)

func (c *cli) stats() *cobra.Command {
	var topic, group string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stats DIR",
		Short: "Show how many messages there are, and how far groups are",
		Long: "stats tells of the store, of its topics and of how far groups are behind. With --topic it shows the queues of a\n" +
			"topic, with --group those of a group; with both, those of the group in the topic. The store may be in use: then\n" +
			"offsets may be some seconds old.",
		Example: "  pocketmq stats /var/lib/queue --group billing",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := c.readStats(cmd.Context(), args[0], topic, group)
			if err != nil {
				return err
			}
			if asJSON {
				return encodeJSON(c.stdout, s, "  ")
			}
			return c.printStats(s, topic, group)
		},
	}
	cmd.Flags().StringVarP(&topic, "topic", "t", "", "topic to show the queues of")
	cmd.Flags().StringVarP(&group, "group", "g", "", "group to show the queues of")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// storeStats is what stats tells: of the store where neither topic nor group is
// given, else of queues.
type storeStats struct {
	Store  *storeLine  `json:"store,omitempty"`
	Topics []topicLine `json:"topics,omitempty"`
	Queues []queueLine `json:"queues,omitempty"`
	Groups []groupLine `json:"groups"`
}

type storeLine struct {
	InUse       bool   `json:"inUse"` // or not closed properly
	LogStart    int64  `json:"logStart"`
	LogEnd      int64  `json:"logEnd"`
	LogFiles    int    `json:"logFiles"`
	Messages    int64  `json:"messages"` // of topics
	LastMessage string `json:"lastMessage,omitempty"`
}

func (c *cli) readStats(ctx context.Context, dir, topic, group string) (s storeStats, err error) {
	l, err := c.lookAt(ctx, dir)
	if err != nil {
		return s, err
	}
	if group != "" && !slices.Contains(l.settings.Groups, group) {
		return s, fmt.Errorf("group %s is not known in %s", group, dir)
	}
	if topic != "" {
		t, err := l.topic(topic)
		if err != nil {
			return s, err
		}
		if s.Queues, err = l.queues(t); err != nil {
			return s, err
		}
	}
	if topic == "" && group == "" {
		if s.Store, s.Topics, err = l.store(); err != nil {
			return s, err
		}
	}
	s.Groups, err = l.groups(group, topic)
	return s, err
}

// store looks at the whole.
func (l *look) store() (*storeLine, []topicLine, error) {
	info, err := inspect.Info(l.dir)
	if err != nil {
		return nil, nil, err
	}
	s := &storeLine{InUse: info.Marked, LogStart: int64(info.Log.Start), LogEnd: int64(info.Log.End), LogFiles: len(info.Log.Files), LastMessage: jsonTime(info.Log.LastTime)}
	topics, err := l.topicLines()
	for _, t := range topics {
		s.Messages += t.Messages
	}
	return s, topics, err
}

func (c *cli) printStats(s storeStats, topic, group string) error {
	if s.Store != nil {
		return c.printStore(s)
	}
	if topic != "" && group == "" {
		rows := make([][]any, len(s.Queues))
		for i, q := range s.Queues {
			rows[i] = []any{q.Topic, q.Queue, q.Min, q.Max, q.Messages, q.LastMessage}
		}
		if err := table(c.stdout, []string{"TOPIC", "QUEUE", "MIN", "MAX", "MESSAGES", "LAST MESSAGE"}, rows); err != nil || len(s.Groups) == 0 {
			return err
		}
		fmt.Fprintln(c.stdout)
	}
	rows := make([][]any, len(s.Groups))
	for i, g := range s.Groups {
		rows[i] = []any{g.Group, g.Topic, g.Queue, g.Offset, g.End, g.Lag, g.LastConsumed}
	}
	return table(c.stdout, []string{"GROUP", "TOPIC", "QUEUE", "OFFSET", "END", "LAG", "LAST CONSUMED"}, rows)
}

func (c *cli) printStore(s storeStats) error {
	state := "closed properly"
	if s.Store.InUse {
		state = "in use, or not closed properly"
	}
	err := table(c.stdout, []string{"MESSAGES", "LOG BYTES", "LOG FILES", "LAST MESSAGE", "STATE"},
		[][]any{{s.Store.Messages, s.Store.LogEnd - s.Store.LogStart, s.Store.LogFiles, s.Store.LastMessage, state}})
	if err != nil {
		return err
	}
	if len(s.Topics) > 0 {
		rows := make([][]any, len(s.Topics))
		for i, t := range s.Topics {
			rows[i] = []any{t.Name, max(t.ReadQueues, t.WriteQueues), t.Messages, orNone(t.MaxDepth)}
		}
		fmt.Fprintln(c.stdout)
		if err := table(c.stdout, []string{"TOPIC", "QUEUES", "MESSAGES", "MAX DEPTH"}, rows); err != nil {
			return err
		}
	}
	if len(s.Groups) == 0 {
		return nil
	}
	fmt.Fprintln(c.stdout)
	return table(c.stdout, []string{"GROUP", "TOPIC", "LAG"}, lags(s.Groups))
}

// lags sums up the queues of each group and topic.
func lags(groups []groupLine) (rows [][]any) {
	for i, g := range groups {
		if i > 0 && groups[i-1].Group == g.Group && groups[i-1].Topic == g.Topic {
			last := rows[len(rows)-1]
			last[2] = last[2].(int64) + g.Lag
			continue
		}
		rows = append(rows, []any{g.Group, g.Topic, g.Lag})
	}
	return rows
}
