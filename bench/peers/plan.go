package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// printPlan says what a run would measure, and about how long it would take.
func printPlan(out io.Writer, opts options, have *results, groups []group) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "group, which -only takes\tpeers\trounds to do\tabout")
	var all time.Duration
	for _, g := range groups {
		missing := len(have.missing(g, opts.runs))
		var round time.Duration
		for _, x := range g.rows {
			round += have.estimate(x, opts)
		}
		took := time.Duration(missing) * round
		all += took
		fmt.Fprintf(w, "%s\t%d\t%d of %d\t%v\n", g.name(), len(g.rows), missing, opts.runs, took.Round(time.Second))
	}
	fmt.Fprintf(w, "all\t\t\t%v\n", all.Round(time.Second))
	return w.Flush()
}

// estimate is how long one measurement takes: as long as those that there are,
// else as long as one that reaches the limit.
func (r *results) estimate(x *row, opts options) time.Duration {
	var sum, count time.Duration
	for n := range opts.runs {
		if m, ok := r.of(x, n); ok {
			sum += m.Wall
			count++
		}
	}
	if count > 0 {
		return sum / count
	}
	took, around := opts.limit, 1500*time.Millisecond // opening, reading back, removing
	if x.workload.read {
		took += opts.limit / 2 // what is read is put before
	}
	if x.peer.java != "" {
		took, around = took+took/2, 3*around // what warms the virtual machine
	}
	return took + around
}
