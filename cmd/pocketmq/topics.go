package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/store"
)

func (c *cli) topics() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "topics DIR",
		Short:   "List topics",
		Long:    "topics lists the topics of a store, with how many queues and messages they have.",
		Example: "  pocketmq topics /var/lib/queue",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runTopics(cmd.Context(), args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.AddCommand(c.createTopic())
	return cmd
}

func (c *cli) createTopic() *cobra.Command {
	var queues int32
	cmd := &cobra.Command{
		Use:     "create DIR NAME",
		Short:   "Make a topic, or change its number of queues",
		Example: "  pocketmq topics create /var/lib/queue orders --queues 8",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withNode(cmd.Context(), args[0], store.FlushSync, func(node *pocketmq.Node) error {
				return node.CreateTopic(cmd.Context(), pocketmq.TopicConfig{Name: args[1], ReadQueueNums: queues, WriteQueueNums: queues})
			})
		},
	}
	cmd.Flags().Int32Var(&queues, "queues", 4, "number of queues")
	return cmd
}

// topicLine is a topic as topics prints it.
type topicLine struct {
	Name        string `json:"name"`
	ReadQueues  int32  `json:"readQueues"`
	WriteQueues int32  `json:"writeQueues"`
	Messages    int64  `json:"messages"`
}

func (c *cli) runTopics(ctx context.Context, dir string, asJSON bool) error {
	lines := []topicLine{}
	err := c.withExisting(ctx, dir, func(node *pocketmq.Node) error {
		messages := map[string]int64{}
		for _, q := range node.Store().Queues() {
			messages[q.Topic] += int64(q.MaxOffset - q.MinOffset)
		}
		topics, err := node.Topics(ctx)
		for _, t := range topics {
			lines = append(lines, topicLine{t.Name, t.ReadQueueNums, t.WriteQueueNums, messages[t.Name]})
		}
		return err
	})
	if err != nil {
		return err
	}
	if asJSON {
		return encodeJSON(c.stdout, lines, "  ")
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOPIC\tREAD QUEUES\tWRITE QUEUES\tMESSAGES")
	for _, l := range lines {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", l.Name, l.ReadQueues, l.WriteQueues, l.Messages)
	}
	return w.Flush()
}
