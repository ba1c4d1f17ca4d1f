package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

func (c *cli) topics() *cobra.Command {
	cmd := c.listTopics("topics DIR")
	cmd.Example = "  pocketmq topics /var/lib/queue\n  pocketmq topics create /var/lib/queue orders --queues 8"
	list := c.listTopics("list DIR")
	list.Example = "  pocketmq topics list /var/lib/queue --json"
	cmd.AddCommand(list, c.createTopic(), c.updateTopic(), c.deleteTopic())
	return cmd
}

func (c *cli) listTopics(use string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   use,
		Short: "List topics",
		Long: "It lists the topics of a store, with how many queues and messages they have, those of retries and dead letters\n" +
			"among them. The store may be in use.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runTopics(cmd.Context(), args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// topicLine is a topic as topics prints it.
type topicLine struct {
	Name        string `json:"name"`
	ReadQueues  int32  `json:"readQueues"`
	WriteQueues int32  `json:"writeQueues"`
	Perm        string `json:"perm"`
	Messages    int64  `json:"messages"`
	MaxDepth    int64  `json:"maxDepth,omitempty"`
}

func (c *cli) runTopics(ctx context.Context, dir string, asJSON bool) error {
	l, err := c.lookAt(ctx, dir)
	if err != nil {
		return err
	}
	lines, err := l.topicLines()
	if err != nil {
		return err
	}
	if asJSON {
		return encodeJSON(c.stdout, lines, "  ")
	}
	rows := make([][]any, len(lines))
	for i, t := range lines {
		rows[i] = []any{t.Name, t.ReadQueues, t.WriteQueues, t.Perm, t.Messages, orNone(t.MaxDepth)}
	}
	return table(c.stdout, []string{"TOPIC", "READ QUEUES", "WRITE QUEUES", "PERM", "MESSAGES", "MAX DEPTH"}, rows)
}

// orNone is a number, or nothing where it is 0.
func orNone(n int64) any {
	if n == 0 {
		return ""
	}
	return n
}

// defaultCluster is that of brokers that were given none.
const defaultCluster = "DefaultCluster"

// topicLines are all topics but the broker's own.
func (l *look) topicLines() ([]topicLine, error) {
	lines := []topicLine{}
	for _, t := range l.settings.Topics {
		if protocol.IsSystemTopic(t.Name) || t.Name == protocol.ReplyTopic(defaultCluster) {
			continue
		}
		queues, err := l.queues(t)
		if err != nil {
			return nil, err
		}
		line := topicLine{Name: t.Name, ReadQueues: t.ReadQueues, WriteQueues: t.WriteQueues, Perm: protocol.Perm(t.Perm).String(), MaxDepth: t.MaxDepth}
		for _, q := range queues {
			line.Messages += q.Messages
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// topicFlags are those of topics create and topics update.
type topicFlags struct {
	queues, read, write int32
	perm                string
	order               bool
	maxDepth            int64
}

func (f *topicFlags) add(flags *pflag.FlagSet) {
	flags.Int32Var(&f.queues, "queues", 4, "number of queues")
	flags.Int32Var(&f.read, "read-queues", 0, "number of queues that are read; to shrink a topic, this one last")
	flags.Int32Var(&f.write, "write-queues", 0, "number of queues that are written")
	flags.StringVar(&f.perm, "perm", "rw", "what may be done with it: r, w or rw")
	flags.BoolVar(&f.order, "order", false, "note that its messages are in order")
	flags.Int64Var(&f.maxDepth, "max-depth", 0, "most messages that the slowest group has still to read; 0: no limit")
	flags.Lookup("read-queues").DefValue = "as --queues"
	flags.Lookup("write-queues").DefValue = "as --queues"
}

// apply sets what flags say; all of it when all is set, else what was given.
func (f *topicFlags) apply(cfg *protocol.TopicConfig, flags *pflag.FlagSet, all bool) error {
	given := func(name string) bool { return all || flags.Changed(name) }
	if given("queues") {
		cfg.ReadQueueNums, cfg.WriteQueueNums = f.queues, f.queues
	}
	if flags.Changed("read-queues") {
		cfg.ReadQueueNums = f.read
	}
	if flags.Changed("write-queues") {
		cfg.WriteQueueNums = f.write
	}
	if given("perm") {
		perms := map[string]protocol.Perm{"r": protocol.PermRead, "w": protocol.PermWrite, "rw": protocol.PermReadWrite}
		perm, ok := perms[f.perm]
		if !ok {
			return fmt.Errorf("--perm %q is neither r, w nor rw", f.perm)
		}
		cfg.Perm = perm
	}
	if given("order") {
		if !all && !f.order {
			return errors.New("--order=false: a topic in order stays so; delete it first")
		}
		cfg.Order = f.order
	}
	if given("max-depth") {
		cfg.MaxDepth = f.maxDepth
	}
	return nil
}

func (c *cli) createTopic() *cobra.Command {
	var f topicFlags
	cmd := &cobra.Command{
		Use:     "create DIR NAME",
		Short:   "Make a topic, or replace its configuration",
		Long:    "create makes a topic, and the store when there is none. Of a topic that is there it replaces the configuration.",
		Example: "  pocketmq topics create /var/lib/queue orders --queues 8 --max-depth 100000",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg := pocketmq.TopicConfig{Name: args[1]}
			if err := f.apply(&cfg, cmd.Flags(), true); err != nil {
				return err
			}
			return c.withNode(cmd.Context(), args[0], store.FlushSync, func(node *pocketmq.Node) error {
				return node.CreateTopic(cmd.Context(), cfg)
			})
		},
	}
	f.add(cmd.Flags())
	return cmd
}

func (c *cli) updateTopic() *cobra.Command {
	var f topicFlags
	cmd := &cobra.Command{
		Use:     "update DIR NAME",
		Short:   "Change what is given of a topic's configuration",
		Example: "  pocketmq topics update /var/lib/queue orders --write-queues 2",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.apply(&protocol.TopicConfig{}, cmd.Flags(), false); err != nil {
				return err
			}
			return c.withAdmin(cmd.Context(), args[0], func(admin *mq.Admin, _ *pocketmq.Node) error {
				return admin.UpdateTopic(cmd.Context(), args[1], func(cfg *protocol.TopicConfig) {
					_ = f.apply(cfg, cmd.Flags(), false) // it has been tried
				})
			})
		},
	}
	f.add(cmd.Flags())
	return cmd
}

func (c *cli) deleteTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "delete DIR NAME...",
		Short: "Remove topics with their messages and consumer offsets",
		Long: "delete removes topics, their messages, and the offsets that groups have in them. A topic that is made again with\n" +
			"the name begins empty, and goes on with the numbers of its queues. Disk space comes back by retention.",
		Example: "  pocketmq topics delete /var/lib/queue orders",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withAdmin(cmd.Context(), args[0], func(admin *mq.Admin, _ *pocketmq.Node) error {
				var errs []error
				for _, topic := range args[1:] {
					errs = append(errs, admin.DeleteTopic(cmd.Context(), topic))
				}
				return errors.Join(errs...)
			})
		},
	}
}
