package main

import (
	"bufio"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pocketmq/pocketmq/inspect"
)

func (c *cli) verify() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check every byte that has a meaning",
		Long: "verify reads the whole log and all consume queues, compares them, and lists everything that is wrong. It\n" +
			"changes nothing, and the store may be in use.\n\n" +
			"Exit status: 0 for no error, 1 for errors, 2 when it could not be read. Notes are no errors.",
		Example: "  pocketmq verify /var/lib/queue",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runVerify(cmd.Context(), args[0], asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object a line: each finding, and then a summary")
	return cmd
}

// jsonSummary is the last line of verify --json.
type jsonSummary struct {
	Summary inspect.Summary `json:"summary"`
}

func (c *cli) runVerify(ctx context.Context, dir string, asJSON bool) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w := bufio.NewWriter(c.stdout)
	sum, err := inspect.Verify(ctx, dir, func(f inspect.Finding) {
		var err error
		if asJSON {
			err = encodeJSON(w, f, "")
		} else {
			_, err = fmt.Fprintln(w, f)
		}
		if err != nil {
			stop(err)
		}
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause // Ctrl-C, or nobody who reads
	}
	if err == nil {
		err = printSummary(w, sum, asJSON)
	}
	if flushErr := w.Flush(); err == nil {
		err = flushErr
	}
	if err == nil && !sum.Clean() {
		return errFindings
	}
	return err
}

func printSummary(w *bufio.Writer, s inspect.Summary, asJSON bool) error {
	if asJSON {
		return encodeJSON(w, jsonSummary{s}, "")
	}
	_, err := fmt.Fprintf(w, "%d records in %d log files, %d units in %d queues: %d errors, %d notes\n",
		s.Records, s.LogFiles, s.Units, s.Queues, s.Errors, s.Notes)
	return err
}
