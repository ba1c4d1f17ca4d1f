package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
)

// row is one line of a table: one peer in one group, with all its repetitions.
type row struct {
	peer     peer
	workload workload
	promise  promise
	results  []result
	err      error // of the repetition that failed, the last one
}

// name is what -only looks at.
func (r row) name() string { return fmt.Sprintf("%s/%s/%s", r.peer.name, r.workload.name, r.promise) }

// selectRows returns what there is to measure here, without results.
func selectRows(only string) ([]*row, error) {
	expr, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	var rows []*row
	for _, w := range workloads {
		for _, pr := range w.promises {
			for _, p := range peers {
				r := &row{peer: p, workload: w, promise: pr}
				if w.takes(p, pr) && p.missing() == "" && expr.MatchString(r.name()) {
					rows = append(rows, r)
				}
			}
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("-only %s: no peer/workload/promise matches", only)
	}
	return rows, nil
}

// measureAll measures every row once in each repetition, and a row that fails not
// again. The error is not that of a row.
func measureAll(ctx context.Context, opts options) ([]*row, error) {
	rows, err := selectRows(opts.only)
	if err != nil {
		return nil, err
	}
	for _, p := range peers {
		if reason := p.missing(); reason != "" {
			fmt.Fprintln(os.Stderr, "not measured:", reason)
		}
	}
	for n := range opts.runs {
		for i, r := range rows {
			if r.err != nil {
				continue
			}
			settle(ctx)
			r.repeat(ctx, opts)
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			fmt.Fprintf(os.Stderr, "repetition %d of %d, %d of %d: %s: %s\n", n+1, opts.runs, i+1, len(rows), r.name(), r.outcome())
		}
	}
	return rows, nil
}

// repeat measures the row once more. After a failure the others still go on.
func (r *row) repeat(ctx context.Context, opts options) {
	result, err := inChild(ctx, spec{
		Peer: r.peer.name, Workload: r.workload.name, Promise: r.promise, Bytes: opts.bytes, Limit: opts.limit,
	}, opts.dir)
	if err != nil {
		r.err = fmt.Errorf("%s: %w", r.name(), err)
		return
	}
	r.results = append(r.results, result)
}

// outcome tells of the last repetition.
func (r *row) outcome() string {
	if r.err != nil {
		return "FAILED"
	}
	return formatRate(r.results[len(r.results)-1].drainedRate()) + " messages/s"
}

// failures are the rows that failed, as one error; nil if there is none.
func failures(rows []*row) error {
	var errs []error
	for _, r := range rows {
		errs = append(errs, r.err)
	}
	return errors.Join(errs...)
}

// settle has the system write what the measurement before left behind, so that
// it does not disturb the next. Where there is no such program nothing is lost but that.
func settle(ctx context.Context) { _ = exec.CommandContext(ctx, "sync").Run() }
