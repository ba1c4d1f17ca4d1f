package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/protocol"
)

func (c *cli) groups() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "List consumer groups, and change where they go on",
	}
	cmd.AddCommand(c.listGroups(), c.resetGroup(), c.cloneGroup(), c.deleteGroup())
	return cmd
}

// groupSummary is a group as groups list prints it.
type groupSummary struct {
	Group  string   `json:"group"`
	Topics []string `json:"topics"` // in which it has offsets
	Lag    int64    `json:"lag"`
}

func (c *cli) listGroups() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list DIR",
		Short:   "List consumer groups, and how far they are behind",
		Long:    "list shows the groups that have a configuration or offsets. The store may be in use: then offsets may be some\nseconds old.",
		Example: "  pocketmq groups list /var/lib/queue",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runGroups(cmd.Context(), args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (c *cli) runGroups(ctx context.Context, dir string, asJSON bool) error {
	l, err := c.lookAt(ctx, dir)
	if err != nil {
		return err
	}
	summaries := []groupSummary{}
	var rows [][]any
	for _, group := range l.settings.Groups {
		lines, err := l.groups(group, "")
		if err != nil {
			return err
		}
		s := groupSummary{Group: group, Topics: []string{}}
		for _, line := range lines {
			if n := len(s.Topics); n == 0 || s.Topics[n-1] != line.Topic {
				s.Topics = append(s.Topics, line.Topic)
			}
			s.Lag += line.Lag
		}
		summaries = append(summaries, s)
		rows = append(rows, []any{s.Group, len(s.Topics), s.Lag})
	}
	if asJSON {
		return encodeJSON(c.stdout, summaries, "  ")
	}
	return table(c.stdout, []string{"GROUP", "TOPICS", "LAG"}, rows)
}

// resetFlags are those of groups reset.
type resetFlags struct {
	topic, to string
	queue     int32
	offset    int64
	force     bool
}

func (c *cli) resetGroup() *cobra.Command {
	var f resetFlags
	cmd := &cobra.Command{
		Use:   "reset DIR GROUP",
		Short: "Say where a group goes on",
		Long: "reset has a group go on with the first message stored at or after a time, in all queues of a topic, or with a\n" +
			"certain message of one queue. Without --force a queue only goes back, and the group must have offsets.",
		Example: "  pocketmq groups reset /var/lib/queue billing --topic orders --to 2026-01-31T08:00:00Z\n" +
			"  pocketmq groups reset /var/lib/queue billing --topic orders --queue 0 --offset 17",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withAdmin(cmd.Context(), args[0], func(admin *mq.Admin, node *pocketmq.Node) error {
				return f.run(cmd, admin, node, args[1])
			})
		},
	}
	cmd.Flags().StringVarP(&f.topic, "topic", "t", "", "topic in which to reset")
	cmd.Flags().StringVar(&f.to, "to", "", "begin, end, a time as 2026-01-31T08:00:00Z, or milliseconds since 1970")
	cmd.Flags().Int32VarP(&f.queue, "queue", "q", 0, "queue whose --offset is given")
	cmd.Flags().Int64Var(&f.offset, "offset", 0, "number of the message in --queue that comes next")
	cmd.Flags().BoolVar(&f.force, "force", false, "also forward, past messages that were not consumed")
	_ = cmd.MarkFlagRequired("topic")
	cmd.MarkFlagsMutuallyExclusive("to", "offset")
	cmd.MarkFlagsOneRequired("to", "offset")
	cmd.MarkFlagsRequiredTogether("queue", "offset")
	return cmd
}

func (f *resetFlags) run(cmd *cobra.Command, admin *mq.Admin, node *pocketmq.Node, group string) error {
	if cmd.Flags().Changed("offset") {
		_, err := node.Broker().ResetOffset(cmd.Context(), protocol.ResetOffsetRequest{
			Group: group, Topic: f.topic, Force: f.force,
			Positions: []protocol.QueuePosition{{QueueID: f.queue, Offset: message.QueueOffset(f.offset)}},
		})
		return err
	}
	at, err := resetTime(f.to)
	if err == nil {
		_, err = admin.ResetOffset(cmd.Context(), group, f.topic, at, f.force)
	}
	return err
}

// resetTime reads --to.
func resetTime(to string) (int64, error) {
	switch to {
	case "begin":
		return 0, nil
	case "end":
		return protocol.EndOfQueue, nil
	}
	return parseTime("to", to)
}

func (c *cli) cloneGroup() *cobra.Command {
	var topic string
	cmd := &cobra.Command{
		Use:     "clone DIR GROUP NEW",
		Short:   "Have a group go on where another one is",
		Example: "  pocketmq groups clone /var/lib/queue billing accounting --topic orders",
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withAdmin(cmd.Context(), args[0], func(admin *mq.Admin, _ *pocketmq.Node) error {
				return admin.CloneOffsets(cmd.Context(), protocol.CloneOffsetsRequest{From: args[1], To: args[2], Topic: topic})
			})
		},
	}
	cmd.Flags().StringVarP(&topic, "topic", "t", "", "topic of which; all when empty")
	return cmd
}

func (c *cli) deleteGroup() *cobra.Command {
	return &cobra.Command{
		Use:     "delete DIR GROUP...",
		Short:   "Remove groups with their offsets",
		Long:    "delete removes the configuration and all offsets of groups. Their topics of retries and dead letters stay.",
		Example: "  pocketmq groups delete /var/lib/queue billing",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withAdmin(cmd.Context(), args[0], func(admin *mq.Admin, _ *pocketmq.Node) error {
				var errs []error
				for _, group := range args[1:] {
					errs = append(errs, admin.DeleteGroup(cmd.Context(), group))
				}
				return errors.Join(errs...)
			})
		},
	}
}

// withAdmin is withExisting for administration.
func (c *cli) withAdmin(ctx context.Context, dir string, use func(*mq.Admin, *pocketmq.Node) error) error {
	return c.withExisting(ctx, dir, func(node *pocketmq.Node) error {
		admin, err := node.Admin()
		if err != nil {
			return fmt.Errorf("administration of %s: %w", dir, err)
		}
		return use(admin, node)
	})
}
