// Command peers measures PocketMQ beside other embedded logs, queues and
// key-value stores: the same messages, the same workloads, the same promise on
// return. From this directory:
//
//	go run . -bytes 1073741824 -runs 5 -out ../../docs/benchmarks
//
// It measures group after group (a workload under one promise), and within each
// the peers take turns, so that a disturbance meets all of them. Every measurement
// is made in a process and a directory of its own and kept in a file, so a run can
// be done in pieces: the same command goes on where the last one ended, and does one
// group with -only. It prints a table of ratios and writes a Markdown report and
// plots. Each file peer_*.go is one peer, with its settings and the reasons for them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
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
	have, err := readResults(opts.results)
	if err != nil {
		return err
	}
	if opts.report {
		return reportFrom(opts, have)
	}
	measured, err := available(opts.peers)
	if err != nil {
		return err
	}
	groups, err := selectGroups(measured, opts.only)
	if err != nil {
		return err
	}
	s := session{
		Started: time.Now().UTC().Truncate(time.Second), Command: strings.Join(append([]string{"go run ."}, args...), " "),
		Runs: opts.runs, Bytes: opts.bytes, Identity: identity(opts, measured),
	}
	if err := have.admits(s.Identity); err != nil {
		return err
	}
	if opts.plan {
		return printPlan(os.Stdout, opts, have, groups)
	}
	if err := measureAll(ctx, opts, have, s, groups); err != nil {
		return err
	}
	return reportFrom(opts, have)
}

// reportFrom makes the report of everything that the file has.
func reportFrom(opts options, have *results) error {
	measured, err := peersOf(have)
	if err != nil {
		return err
	}
	groups, err := selectGroups(measured, "")
	if err != nil {
		return err
	}
	groups = have.fill(groups)
	return errors.Join(publish(opts.out, have, groups), failures(groups))
}

// options are the flags.
type options struct {
	bytes   int64
	limit   time.Duration
	runs    int
	only    string
	peers   string
	out     string
	results string
	dir     string
	plan    bool
	report  bool
}

// resultsName is the file of measurements, in the directory of -out.
const resultsName = "peers.jsonl"

// parseOptions uses a set of its own, because some peers add flags to the global one.
func parseOptions(args []string) (options, error) {
	var opts options
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.Int64Var(&opts.bytes, "bytes", 16<<20, "bytes of message bodies in one measurement")
	flags.DurationVar(&opts.limit, "limit", 4*time.Second, "a measurement that takes longer stops here, and counts what it did until then")
	flags.IntVar(&opts.runs, "runs", 1, "rounds, of which the median is reported; at least 5 for figures to publish")
	flags.StringVar(&opts.only, "only", "", "regular expression of the groups to measure: workload/promise")
	flags.StringVar(&opts.peers, "peers", "", "regular expression of the peers to measure; runs with other peers are other results")
	flags.StringVar(&opts.out, "out", "", "directory for report and plots; none are written without it")
	flags.StringVar(&opts.results, "results", "", "file of measurements, which are added to; without it "+resultsName+" in the directory of -out")
	flags.StringVar(&opts.dir, "dir", os.TempDir(), "the peers' directories are made, and removed, here")
	flags.BoolVar(&opts.plan, "plan", false, "only say what is missing and how long it takes")
	flags.BoolVar(&opts.report, "report", false, "only make the report of the measurements that there are")
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
	if opts.results == "" {
		if opts.out == "" {
			return options{}, errors.New("-results or -out: the measurements need a file")
		}
		opts.results = filepath.Join(opts.out, resultsName)
	}
	return opts, nil
}
