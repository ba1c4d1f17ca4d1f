// Command peers measures PocketMQ beside other embedded Go logs, queues and
// key-value stores: the same messages, the same workloads, the same promise on
// return, in one run. From this directory:
//
//	go run . -bytes 1073741824 -runs 5 -out ../../docs/benchmarks
//
// It prints a table of ratios and writes a Markdown report and plots. Every
// measurement is made in a process and a directory of its own, and the peers
// take turns within each repetition, so that a disturbance meets all of them.
// Each file peer_*.go is one peer, with its settings and the reasons for them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if spec := os.Getenv(runVariable); spec != "" {
		return runChild(spec, os.Stdout)
	}
	opts, err := parseOptions(args)
	if err != nil {
		return err
	}
	rows, err := measureAll(ctx, opts)
	if err != nil {
		return err
	}
	return errors.Join(publish(opts, rows), failures(rows))
}

// options are the flags.
type options struct {
	bytes int64
	limit time.Duration
	runs  int
	only  string
	out   string
	dir   string
	args  []string
}

// parseOptions uses a set of its own, because some peers add flags to the global one.
func parseOptions(args []string) (options, error) {
	opts := options{args: args}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.Int64Var(&opts.bytes, "bytes", 16<<20, "bytes of message bodies in one measurement")
	flags.DurationVar(&opts.limit, "limit", 10*time.Second, "a measurement that takes longer stops here, and counts what it did until then")
	flags.IntVar(&opts.runs, "runs", 1, "repetitions, of which the median is reported; at least 5 for figures to publish")
	flags.StringVar(&opts.only, "only", "", "regular expression of what is measured: peer/workload/promise")
	flags.StringVar(&opts.out, "out", "", "directory for report and plots; none are written without it")
	flags.StringVar(&opts.dir, "dir", os.TempDir(), "the peers' directories are made, and removed, here")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	switch {
	case flags.NArg() > 0:
		return options{}, fmt.Errorf("argument %q: there are only flags", flags.Arg(0))
	case opts.bytes <= 0:
		return options{}, fmt.Errorf("-bytes %d: must be positive", opts.bytes)
	case opts.limit <= 0:
		return options{}, fmt.Errorf("-limit %v: must be positive", opts.limit)
	case opts.runs <= 0:
		return options{}, fmt.Errorf("-runs %d: must be positive", opts.runs)
	}
	return opts, nil
}
