package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pocketmq/pocketmq"
)

func (c *cli) backup() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "backup --output DIR STORE",
		Short: "Copy a store as of one moment",
		Long: "backup copies the log, topics and consumer offsets of STORE into a new directory, and builds the consume queues\n" +
			"and the index of the copy from its log. A process that has STORE open can do the same while it works, by the\n" +
			"method Backup of its store; this command wants STORE for itself.",
		Example: "  pocketmq backup --output /mnt/usb/queue /var/lib/queue",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runBackup(cmd.Context(), args[0], output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "the directory to make, which must be empty or not exist")
	_ = cmd.MarkFlagRequired("output")
	return cmd
}

func (c *cli) runBackup(ctx context.Context, dir, output string) error {
	return c.withExisting(ctx, dir, func(n *pocketmq.Node) error {
		r, err := n.Store().Backup(ctx, output)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.stdout, "%d messages, %d bytes of log, copied to %s in %v\n",
			r.Recovery.Records, r.LogEnd-r.LogStart, r.Dir, r.Took.Round(1e6))
		return err
	})
}
