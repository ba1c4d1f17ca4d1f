package main

import (
	"bufio"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pocketmq/pocketmq/inspect"
)

func (c *cli) dump() *cobra.Command {
	var cfg inspect.DumpConfig
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "dump FILE|DIR",
		Short: "Print what is in the files of a store",
		Long: "dump prints what is in any file of a store, or in all files of a directory: a line for each record, unit, entry,\n" +
			"damaged range and unused space, with its kind, its byte offset in the file, and its fields. JSON files are\n" +
			"passed through. What kind of file it is, its path tells, or else its content.\n\n" +
			"With --json each line is an object: kind, file, offset, and the fields. Bytes that are no UTF-8 are base64.\n" +
			"Nothing is changed, and the file may be in use.",
		Example: "  pocketmq dump /var/lib/queue/commitlog/00000000000000000000 --from 4096 --limit 10",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runDump(cmd.Context(), args[0], cfg, asJSON)
		},
	}
	cmd.Flags().Int64Var(&cfg.From, "from", 0, "first log offset, queue offset or entry number to print of each file")
	cmd.Flags().Int64Var(&cfg.Limit, "limit", 0, "records, units or entries to print of each file; 0 for all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

func (c *cli) runDump(ctx context.Context, path string, cfg inspect.DumpConfig, asJSON bool) error {
	if cfg.From < 0 || cfg.Limit < 0 {
		return fmt.Errorf("--from %d and --limit %d: neither may be negative", cfg.From, cfg.Limit)
	}
	w := bufio.NewWriterSize(c.stdout, 64<<10)
	err := inspect.Dump(ctx, path, cfg, func(e inspect.Entry) error {
		if asJSON {
			return encodeJSON(w, e, "")
		}
		_, err := fmt.Fprintln(w, e)
		return err
	})
	if flushErr := w.Flush(); err == nil {
		err = flushErr
	}
	return err
}
