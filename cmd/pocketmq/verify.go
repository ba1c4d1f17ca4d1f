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
		Long: "verify reads every file of a store, compares them, and lists everything that is wrong: what, in which file, at\n" +
			"which byte, its kind, and what to run. It changes nothing, and the store may be in use.\n\n" +
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
	bar := progress{w: c.stderr, doing: "verifying"}
	sum, err := inspect.VerifyWith(ctx, dir, inspect.VerifyConfig{Progress: bar.set, Found: func(f inspect.Finding) {
		var err error
		if asJSON {
			err = encodeJSON(w, f, "")
		} else {
			_, err = fmt.Fprintln(w, f)
		}
		if err != nil {
			stop(err)
		}
	}})
	bar.end()
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
	state := ""
	if s.Marked {
		state = "; in use, or not closed properly"
		if s.Owner != "" {
			state += ", by " + s.Owner
		}
	}
	_, err := fmt.Fprintf(w, "%d records in %d log files, %d units in %d queues, %d entries in %d index files%s: %d errors, %d notes\n",
		s.Records, s.LogFiles, s.Units, s.Queues, s.IndexEntries, s.IndexFiles, state, s.Errors, s.Notes)
	return err
}
