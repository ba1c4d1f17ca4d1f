package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/repair"
)

func (c *cli) repair() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "repair --output NEW DIR",
		Short: "Make a new store of what can be read of a damaged one",
		Long: "repair copies every message that can be read into a new store, which both PocketMQ and RocketMQ open, and\n" +
			"lists what is lost: ranges of the log, and the numbers of messages of each queue. DIR is not changed. NEW\n" +
			"must not exist, or be empty, and not lie in DIR; no process should use DIR.\n\n" +
			"Messages keep their log offset, topic, queue, and number in the queue. The place of what is lost is taken in\n" +
			"the log by records that nobody receives, and in the queues by blanks. Consumer offsets are copied.\n\n" +
			"Exit status: 0 for a new store, also when messages are lost; 2 for none.",
		Example: "  pocketmq repair --output /var/lib/queue.new /var/lib/queue",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runRepair(cmd.Context(), args[0], output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "directory to make")
	if err := cmd.MarkFlagRequired("output"); err != nil {
		panic(err) // the flag was defined the line before
	}
	return cmd
}

func (c *cli) runRepair(ctx context.Context, dir, output string) error {
	w := bufio.NewWriter(c.stdout)
	bar := progress{w: c.stderr, doing: "salvaging"}
	report, err := repair.Run(ctx, dir, output, repair.Config{
		Progress: bar.set,
		Lost:     func(l inspect.Lost) { fmt.Fprintln(w, lostText(l)) },
	})
	bar.end()
	if err == nil {
		printReport(w, report)
	}
	return errors.Join(err, w.Flush())
}

func lostText(l inspect.Lost) string {
	what := ""
	if l.Record {
		what = fmt.Sprintf(", message %d of queue %s/%d by its own account", l.Number, l.Topic, l.QueueID)
	}
	return fmt.Sprintf("lost: %s at byte %d: log offsets [%d, %d)%s: %v", l.File, l.Offset, l.From, l.To, what, l.Why)
}

func printReport(w io.Writer, r repair.Report) {
	for _, q := range r.Queues {
		for _, m := range q.Missing {
			fmt.Fprintf(w, "missing: messages [%d, %d) of queue %s/%d\n", m.From, m.To, q.Topic, q.QueueID)
		}
	}
	for _, f := range r.FilesLost {
		fmt.Fprintf(w, "not copied: %s: %v\n", f.Path, f.Err)
	}
	for _, l := range r.Lowered {
		fmt.Fprintf(w, "lowered: config/%s: %s queue %d: from %d to %d, the end of what is left\n", l.File, l.Key, l.QueueID, l.From, l.To)
	}
	fmt.Fprintf(w, "%d records of %d bytes kept, log offsets [%d, %d); %d ranges of %d bytes lost, their places held by %d fillers; %d files copied\n",
		r.Records, r.Bytes, r.LogStart, r.LogEnd, r.Salvaged.Lost, r.LostBytes, r.Fillers, len(r.Files))
}
