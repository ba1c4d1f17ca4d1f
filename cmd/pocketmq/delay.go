package main

import (
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/protocol"
)

func (c *cli) delay() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delay",
		Short: "List and cancel messages that wait for their time",
	}
	cmd.AddCommand(c.listDelayed(), c.cancelDelayed())
	return cmd
}

func (c *cli) listDelayed() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list DIR",
		Short: "List messages that wait",
		Long: "list lists the messages that wait: those with a time of delivery of their own, in the order of their times,\n" +
			"and then those of each delay level. What is due by now is delivered meanwhile.",
		Example: "  pocketmq delay list /var/lib/queue --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runListDelayed(cmd.Context(), args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, an object a line")
	return cmd
}

func (c *cli) cancelDelayed() *cobra.Command {
	return &cobra.Command{
		Use:     "cancel DIR ID",
		Short:   "Cancel a message with a time of delivery of its own",
		Long:    "cancel cancels the message with the id that list prints: it is never delivered.",
		Example: "  pocketmq delay cancel /var/lib/queue 7F000001000F4E5B2A1C0A1B2C3D0000",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withExisting(cmd.Context(), args[0], func(node *pocketmq.Node) error {
				return node.Broker().CancelTimer(cmd.Context(), protocol.CancelTimerRequest{ID: args[1]})
			})
		},
	}
}

// delayLine is a message as delay list prints it.
type delayLine struct {
	ID        string    `json:"id"`
	Topic     string    `json:"topic"`
	Queue     int32     `json:"queue"`
	Level     int       `json:"level,omitempty"`
	DeliverAt time.Time `json:"deliverAt"`
	Bytes     int       `json:"bytes"`
}

func (c *cli) runListDelayed(ctx context.Context, dir string, asJSON bool) error {
	return c.withExisting(ctx, dir, func(node *pocketmq.Node) error {
		w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
		if !asJSON {
			fmt.Fprintln(w, "DELIVER AT\tLEVEL\tTOPIC\tQUEUE\tBYTES\tID")
		}
		for t, err := range node.Timers(ctx) {
			if err != nil {
				return err
			}
			l := delayLine{t.ID, t.Topic, t.QueueID, t.Level, time.UnixMilli(t.DeliverAt).UTC(), t.Bytes}
			if asJSON {
				if err := encodeJSON(c.stdout, l, ""); err != nil {
					return err
				}
				continue
			}
			level := "-"
			if l.Level > 0 {
				level = strconv.Itoa(l.Level)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", l.DeliverAt.Format("2006-01-02T15:04:05.000Z"), level, l.Topic, l.Queue, l.Bytes, l.ID)
		}
		return w.Flush()
	})
}
