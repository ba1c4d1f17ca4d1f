package main

import (
	"fmt"
	"slices"
	"strconv"
)

// group is what may be compared: one workload under one promise.
type group struct {
	workload workload
	promise  promise
	rows     []*row
}

// groupRows puts rows of one workload and promise together, in their order, and leaves out those that failed.
func groupRows(rows []*row) []group {
	var groups []group
	for _, r := range rows {
		if r.err != nil {
			continue
		}
		last := len(groups) - 1
		if last < 0 || groups[last].workload.name != r.workload.name || groups[last].promise != r.promise {
			groups = append(groups, group{workload: r.workload, promise: r.promise})
			last++
		}
		groups[last].rows = append(groups[last].rows, r)
	}
	return groups
}

func (g group) title() string {
	if g.workload.read {
		return g.workload.title + "; " + string(g.promise)
	}
	return g.workload.title + "; survives on return: " + string(g.promise)
}

// base is the row that others are compared with: PocketMQ's store, nil where it is not in the group.
func (g group) base() *row {
	for _, r := range g.rows {
		if r.peer.name == peers[0].name {
			return r
		}
	}
	return nil
}

// ratio says how many times as many messages PocketMQ's store moves in the same time.
func (g group) ratio(r *row) string {
	base := g.base()
	if base == nil {
		return "–"
	}
	return strconv.FormatFloat(base.rate(result.drainedRate).median/r.rate(result.drainedRate).median, 'f', 2, 64)
}

func (r result) putRate() float64     { return float64(r.Messages) / r.Took.Seconds() }
func (r result) drainedRate() float64 { return float64(r.Messages) / r.Drained.Seconds() }

// spread is what repetitions gave.
type spread struct{ min, median, max float64 }

func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	middle := v[len(v)/2]
	if len(v)%2 == 0 {
		middle = (v[len(v)/2-1] + middle) / 2
	}
	return spread{v[0], middle, v[len(v)-1]}
}

func (r *row) rate(of func(result) float64) spread {
	values := make([]float64, len(r.results))
	for i, result := range r.results {
		values[i] = of(result)
	}
	return spreadOf(values)
}

// mib is the median of the body bytes that repetitions moved.
func (r *row) mib() float64 {
	return r.rate(func(x result) float64 { return float64(x.Messages) * float64(r.workload.size) / (1 << 20) }).median
}

// formatRate groups the digits of a number by thousands.
func formatRate(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// ratios is the table of all ratios: a line for each peer, a column for each group.
func ratios(groups []group) [][]string {
	head := []string{"peer"}
	for i := range groups {
		head = append(head, strconv.Itoa(i+1))
	}
	table := [][]string{head}
	for _, p := range peers {
		line, measured := []string{p.name}, false
		for _, g := range groups {
			cell := ""
			for _, r := range g.rows {
				if r.peer.name == p.name {
					cell, measured = g.ratio(r), true
				}
			}
			line = append(line, cell)
		}
		if measured {
			table = append(table, line)
		}
	}
	return table
}

// lines is the table of one group.
func (g group) lines() [][]string {
	table := [][]string{{
		"peer", "messages/s", "min – max", "messages/s until readable", "MiB/s until readable", "MiB in a run", "PocketMQ store does ×",
	}}
	batches := g.workload.batch > 1 && !g.workload.read
	if batches {
		table[0] = append(table[0], "a kill leaves of a batch")
	}
	for _, r := range g.rows {
		put, readable := r.rate(result.putRate), r.rate(result.drainedRate)
		line := []string{
			r.peer.name, formatRate(put.median), formatRate(put.min) + " – " + formatRate(put.max), formatRate(readable.median),
			fmt.Sprintf("%.1f", readable.median*float64(r.workload.size)/(1<<20)), fmt.Sprintf("%.1f", r.mib()), g.ratio(r),
		}
		if batches {
			line = append(line, r.peer.leftOfBatch())
		}
		table = append(table, line)
	}
	return table
}
