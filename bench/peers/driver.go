package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// row is one line of a table: one peer in one group, with its results of all complete rounds.
type row struct {
	peer     peer
	workload workload
	promise  promise
	results  []result
	err      error // of the round that failed
}

func (r row) name() string { return fmt.Sprintf("%s/%s/%s", r.peer.name, r.workload.name, r.promise) }

// available returns the peers that can be measured here and whose name matches, and says which can not.
func available(expr string) ([]peer, error) {
	matches, err := regexp.Compile(expr)
	if err != nil {
		return nil, fmt.Errorf("-peers: %w", err)
	}
	var found []peer
	for _, p := range peers {
		if !matches.MatchString(p.name) {
			continue
		}
		if reason := p.missing(); reason != "" {
			fmt.Fprintln(os.Stderr, "not measured:", reason)
			continue
		}
		found = append(found, p)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("-peers %s: no peer matches", expr)
	}
	return found, nil
}

// selectGroups returns the groups that match, of these peers, without results.
func selectGroups(of []peer, only string) ([]group, error) {
	matches, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	var groups []group
	for _, w := range workloads {
		for _, pr := range w.promises {
			g := group{workload: w, promise: pr}
			for _, p := range of {
				if w.takes(p, pr) {
					g.rows = append(g.rows, &row{peer: p, workload: w, promise: pr})
				}
			}
			if len(g.rows) > 0 && matches.MatchString(g.name()) {
				groups = append(groups, g)
			}
		}
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("-only %s: no workload/promise matches", only)
	}
	return groups, nil
}

// peersOf returns the peers that a file has measurements of.
func peersOf(r *results) ([]peer, error) {
	if len(r.sessions) == 0 {
		return nil, fmt.Errorf("%s: no measurements", r.path)
	}
	var found []peer
	for name := range strings.SplitSeq(r.value(idPeers), ", ") {
		p, ok := peerNamed(name)
		if !ok {
			return nil, fmt.Errorf("%s: this program has no peer %q", r.path, name)
		}
		found = append(found, p)
	}
	return found, nil
}

// measureAll measures what the file does not have yet: group after group, each in
// rounds, in which the peers take turns. The error is not that of a row.
func measureAll(ctx context.Context, opts options, have *results, s session, groups []group) error {
	if !slices.ContainsFunc(groups, func(g group) bool { return len(have.missing(g, opts.runs)) > 0 }) {
		return nil
	}
	if err := have.begin(s); err != nil {
		return err
	}
	for _, g := range groups {
		for _, round := range have.missing(g, opts.runs) {
			if err := measureRound(ctx, opts, have, g, round); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureRound measures every row of a group once, but not those that have failed before.
func measureRound(ctx context.Context, opts options, have *results, g group, round int) error {
	for _, x := range g.rows {
		if have.failed(x, round-1) != nil {
			continue
		}
		settle(ctx)
		m := measureRow(ctx, opts, x, round)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := have.add(m); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "round %d of %d: %s: %s\n", round+1, opts.runs, x.name(), m.outcome())
	}
	return nil
}

// measureRow measures one. A failure is a part of what it returns: the others still go on.
func measureRow(ctx context.Context, opts options, x *row, round int) measurement {
	m := measurement{Peer: x.peer.name, Workload: x.workload.name, Promise: x.promise, Round: round, At: time.Now().UTC().Truncate(time.Second)}
	start := time.Now()
	var err error
	m.Result, err = inChild(ctx, spec{
		Peer: x.peer.name, Workload: x.workload.name, Promise: x.promise, Bytes: opts.bytes, Limit: opts.limit,
	}, opts.dir)
	if err != nil {
		m.Error = err.Error()
	}
	m.Wall = time.Since(start)
	return m
}

// outcome tells of a measurement in a few words.
func (m measurement) outcome() string {
	if m.Error != "" {
		return "FAILED"
	}
	return fmt.Sprintf("%s messages/s, %v", formatRate(m.Result.drainedRate()), m.Wall.Round(100*time.Millisecond))
}

// failures are the rows that failed, as one error; nil if there is none.
func failures(groups []group) error {
	var errs []error
	for _, g := range groups {
		for _, r := range g.rows {
			errs = append(errs, r.err)
		}
	}
	return errors.Join(errs...)
}

// settle has the system write what the measurement before left behind, so that
// it does not disturb the next. Where there is no such program nothing is lost but that.
func settle(ctx context.Context) { _ = exec.CommandContext(ctx, "sync").Run() }
