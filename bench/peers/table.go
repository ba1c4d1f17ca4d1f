package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// group is what may be compared: one workload under one promise.
type group struct {
	workload workload
	promise  promise
	rows     []*row

	rounds      int // that are complete
	from, until time.Time
}

// name is what -only looks at.
func (g group) name() string { return g.workload.name + "/" + string(g.promise) }

// measured are the rows that have figures.
func (g group) measured() []*row {
	return slices.DeleteFunc(slices.Clone(g.rows), func(r *row) bool { return r.err != nil })
}

// times says when the group was measured.
func (g group) times(runs int) string {
	const minute = "2006-01-02 15:04"
	rounds := fmt.Sprintf("%d rounds", g.rounds)
	if g.rounds < runs {
		rounds = fmt.Sprintf("%d of %d rounds", g.rounds, runs)
	}
	return fmt.Sprintf("Measured %s to %s UTC, %s.", g.from.UTC().Format(minute), g.until.UTC().Format(minute), rounds)
}

func (g group) title() string {
	if g.workload.read {
		return g.workload.title + "; " + string(g.promise)
	}
	return g.workload.title + "; survives on return: " + string(g.promise)
}

// base is the row that others are compared with: PocketMQ's store, nil where it is not in the group.
func (g group) base() *row {
	for _, r := range g.measured() {
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
	rate := r.rate(result.drainedRate).median
	if rate == 0 {
		return "none in time"
	}
	return strconv.FormatFloat(base.rate(result.drainedRate).median/rate, 'f', 2, 64)
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
			for _, r := range g.measured() {
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

// lines is the table of one group. It marks what stopped at the limit.
func (g group) lines(bytes int64) [][]string {
	head := []string{
		"peer", "messages/s", "min – max", "messages/s until readable", "MiB/s until readable", "MiB in a run", "PocketMQ store does ×",
	}
	puts := !g.workload.read
	timed, batches := puts && g.promise == powerLoss, puts && g.workload.batch > 1
	if timed {
		head = append(head, "a put, p50 µs", "p99 µs")
	}
	if batches {
		head = append(head, "a kill leaves of a batch")
	}
	table := [][]string{head}
	for _, r := range g.measured() {
		put, readable := r.rate(result.putRate), r.rate(result.drainedRate)
		line := []string{
			r.peer.name, formatRate(put.median), formatRate(put.min) + " – " + formatRate(put.max), formatRate(readable.median),
			fmt.Sprintf("%.1f", readable.median*float64(r.workload.size)/(1<<20)), r.amount(bytes), g.ratio(r),
		}
		if timed {
			line = append(line,
				formatRate(r.rate(func(x result) float64 { return micros(x.P50) }).median),
				formatRate(r.rate(func(x result) float64 { return micros(x.P99) }).median))
		}
		if batches {
			line = append(line, r.peer.leftOfBatch())
		}
		table = append(table, line)
	}
	return table
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// amount is the median of the body bytes that rounds moved, and whether one of them stopped at the limit.
func (r *row) amount(bytes int64) string {
	mib := fmt.Sprintf("%.1f", r.rate(func(x result) float64 { return float64(x.Messages) * float64(r.workload.size) / (1 << 20) }).median)
	if slices.ContainsFunc(r.results, func(x result) bool { return x.Messages < r.workload.messages(bytes) }) {
		mib += ", at the limit"
	}
	return mib
}
