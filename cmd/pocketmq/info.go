package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pocketmq/pocketmq/inspect"
)

func (c *cli) info() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "info DIR",
		Short:   "Show what is in a store directory",
		Long:    "info looks at the files of a store and changes nothing. The store may be in use.",
		Example: "  pocketmq info /var/lib/queue",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := inspect.Info(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return encodeJSON(c.stdout, s, "  ")
			}
			return printInfo(c.stdout, s)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printInfo(out io.Writer, s inspect.Store) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "directory\t%s\n", s.Dir)
	fmt.Fprintf(w, "state\t%s\n", stateText(s.Marked))
	fmt.Fprintf(w, "last owner\t%s\n", cmp.Or(s.Owner, "not PocketMQ"))
	var bytes int64
	for _, f := range s.Log.Files {
		bytes += f.Size
	}
	fmt.Fprintf(w, "log\t%d to %d, %d files of %d bytes together\n", s.Log.Start, s.Log.End, len(s.Log.Files), bytes)
	fmt.Fprintf(w, "last record\t%s\n", optionalTime(s.Log.LastTime))
	fmt.Fprintf(w, "checkpoint\tlog %s, queues %s, index %s\n",
		optionalTime(s.Checkpoint.Log), optionalTime(s.Checkpoint.Queues), optionalTime(s.Checkpoint.Index))
	for _, path := range s.Foreign {
		fmt.Fprintf(w, "foreign\t%s\n", path)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "TOPIC\tQUEUE\tMIN\tMAX\tMESSAGES\tFILES\tBYTES")
	for _, t := range s.Topics {
		for _, q := range t.Queues {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", t.Name, q.ID, q.Min, q.Max, q.Max-q.Min, q.Files, q.Bytes)
		}
	}
	return w.Flush()
}

func stateText(marked bool) string {
	if marked {
		return "in use, or not closed properly"
	}
	return "closed properly"
}

func optionalTime(ms int64) string {
	if ms == 0 {
		return "none"
	}
	return timeText(ms)
}
