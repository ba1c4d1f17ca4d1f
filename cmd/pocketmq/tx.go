package main

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
)

func (c *cli) tx() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tx",
		Short: "Look at open transactions, and end them",
		Long: "tx works with messages in transaction of which no broker has heard what became of them.\n" +
			"No other process may use the store meanwhile.",
	}
	cmd.AddCommand(c.txList(), c.txResume(),
		c.txEnd("commit", "Commit transactions: their messages are delivered", protocol.TransactionCommit),
		c.txEnd("rollback", "Roll transactions back: nobody will see their messages", protocol.TransactionRollback))
	return cmd
}

func (c *cli) txList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list DIR",
		Short:   "List open transactions, the oldest first",
		Example: "  pocketmq tx list /var/lib/queue",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runTxList(cmd.Context(), args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (c *cli) txEnd(name, short string, state protocol.TransactionState) *cobra.Command {
	return &cobra.Command{
		Use:     name + " DIR ID...",
		Short:   short,
		Long:    short + ". An ID is a unique key, or a half offset, as tx list prints them.",
		Example: "  pocketmq tx " + name + " /var/lib/queue 17",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runTxEnd(cmd.Context(), args[0], args[1:], state)
		},
	}
}

func (c *cli) txResume() *cobra.Command {
	return &cobra.Command{
		Use:   "resume DIR LOG-OFFSET",
		Short: "Take up a transaction that was given up",
		Long: "resume makes an open transaction of one that was given up, so that its sender is asked again.\n" +
			"Those that were given up are in topic " + protocol.TransactionCheckMaxTopic + ".",
		Example: "  pocketmq tx resume /var/lib/queue 81920",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			off, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return fmt.Errorf("log offset %q is no number", args[1])
			}
			return c.withExisting(cmd.Context(), args[0], func(node *pocketmq.Node) error {
				return node.Broker().ResumeTransaction(cmd.Context(), message.LogOffset(off))
			})
		},
	}
}

// txLine is an open transaction as tx list prints it.
type txLine struct {
	HalfOffset message.QueueOffset `json:"halfOffset"`
	LogOffset  message.LogOffset   `json:"logOffset"`
	Topic      string              `json:"topic"`
	Group      string              `json:"group"`
	UniqueKey  string              `json:"uniqueKey"`
	Born       time.Time           `json:"born"`
	Checks     int                 `json:"checks"`
	NextCheck  time.Time           `json:"nextCheck"`
}

func (c *cli) runTxList(ctx context.Context, dir string, asJSON bool) error {
	lines := []txLine{}
	err := c.withExisting(ctx, dir, func(node *pocketmq.Node) error {
		open, err := node.Broker().OpenTransactions(ctx)
		for _, t := range open {
			lines = append(lines, txLine{
				t.QueueOffset, t.LogOffset, t.Topic, t.Group, t.UniqueKey,
				time.UnixMilli(t.BornTimestamp), t.Checks, time.UnixMilli(t.NextCheck),
			})
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
	fmt.Fprintln(w, "HALF OFFSET\tLOG OFFSET\tTOPIC\tGROUP\tUNIQUE KEY\tAGE\tCHECKS\tNEXT CHECK")
	for _, l := range lines {
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%v\t%d\t%s\n", l.HalfOffset, l.LogOffset, l.Topic, l.Group, l.UniqueKey,
			time.Since(l.Born).Round(time.Second), l.Checks, l.NextCheck.Format(time.DateTime))
	}
	return w.Flush()
}

// runTxEnd ends all or, when one of the ids names no open transaction, none.
func (c *cli) runTxEnd(ctx context.Context, dir string, ids []string, state protocol.TransactionState) error {
	return c.withExisting(ctx, dir, func(node *pocketmq.Node) error {
		open, err := node.Broker().OpenTransactions(ctx)
		if err != nil {
			return err
		}
		requests := make([]protocol.EndTransactionRequest, len(ids))
		for i, id := range ids {
			t, err := findTransaction(open, id)
			if err != nil {
				return err
			}
			requests[i] = protocol.EndTransactionRequest{
				Group: t.Group, LogOffset: t.LogOffset, QueueOffset: t.QueueOffset, UniqueKey: t.UniqueKey, State: state, FromCheck: true,
			}
		}
		for i, req := range requests {
			if err := node.Broker().EndTransaction(ctx, req); err != nil {
				return fmt.Errorf("transaction %s: %w", ids[i], err)
			}
			fmt.Fprintf(c.stdout, "%s %s\n", ids[i], state)
		}
		return nil
	})
}

func findTransaction(open []protocol.OpenTransaction, id string) (protocol.OpenTransaction, error) {
	for _, t := range open {
		if id == t.UniqueKey || id == strconv.FormatInt(int64(t.QueueOffset), 10) {
			return t, nil
		}
	}
	return protocol.OpenTransaction{}, fmt.Errorf("no open transaction %s", id)
}
