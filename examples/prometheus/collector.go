package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pocketmq/pocketmq/store"
)

// collector asks a store for its numbers whenever Prometheus asks for them.
// Nothing runs in between.
type collector struct{ store *store.DefaultMessageStore }

// metric is one number of store.Stats.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*store.Stats) float64
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("pocketmq_store_"+name, help, labels, nil)
}

func counter(name, help string, value func(*store.Stats) int64) metric {
	return metric{describe(name, help), prometheus.CounterValue, func(st *store.Stats) float64 { return float64(value(st)) }}
}

func gauge(name, help string, value func(*store.Stats) float64) metric {
	return metric{describe(name, help), prometheus.GaugeValue, value}
}

var metrics = []metric{
	counter("put_messages_total", "Messages placed in the log.", func(st *store.Stats) int64 { return st.PutMessages }),
	counter("put_bytes_total", "Bytes of their records.", func(st *store.Stats) int64 { return st.PutBytes }),
	counter("put_failures_total", "Puts refused, or not confirmed.", func(st *store.Stats) int64 { return st.PutFailures }),
	counter("get_messages_total", "Messages read from queues.", func(st *store.Stats) int64 { return st.GetMessages }),
	counter("dispatch_failures_total", "Attempts to dispatch that failed.", func(st *store.Stats) int64 { return st.DispatchFailures }),

	gauge("messages", "Messages in all queues.", func(st *store.Stats) float64 { return float64(st.Messages) }),
	gauge("bytes", "Bytes of the log.", func(st *store.Stats) float64 { return float64(st.Bytes) }),
	gauge("oldest_age_seconds", "Age of the first message.", func(st *store.Stats) float64 { return st.OldestAge.Seconds() }),
	gauge("dispatch_lag_bytes", "Bytes of the log that are not dispatched.", func(st *store.Stats) float64 { return float64(st.DispatchLag) }),
	gauge("dispatch_age_seconds", "Age of the oldest message that is not dispatched.", func(st *store.Stats) float64 { return st.DispatchAge.Seconds() }),
	gauge("disk_free_bytes", "Free bytes of the disk, -1 if unknown.", func(st *store.Stats) float64 { return float64(st.DiskFree) }),
	gauge("growth_bytes_per_second", "Recent growth of the store.", func(st *store.Stats) float64 { return st.GrowthRate }),
}

// timings are the histograms of durations.
var timings = []struct {
	desc  *prometheus.Desc
	value func(*store.Stats) store.Histogram[time.Duration]
}{
	{describe("put_seconds", "Time of a put."), func(st *store.Stats) store.Histogram[time.Duration] { return st.PutLatency }},
	{describe("sync_seconds", "Time of a sync of the log."), func(st *store.Stats) store.Histogram[time.Duration] { return st.SyncLatency }},
	{describe("get_seconds", "Time of a get."), func(st *store.Stats) store.Histogram[time.Duration] { return st.GetLatency }},
	{describe("dispatch_seconds", "Time from placed to readable."), func(st *store.Stats) store.Histogram[time.Duration] { return st.DispatchLatency }},
}

var (
	groupDesc   = describe("sync_messages", "Messages put on disk by one sync.")
	waitingDesc = describe("waiting_puts", "Puts that wait at the moment.", "for")
	healthyDesc = describe("healthy", "2 healthy, 1 degraded, 0 refusing writes.")
	reasonDesc  = describe("unhealthy", "1 for each thing that is wrong.", "reason")
)

// Describe implements prometheus.Collector.
func (c collector) Describe(descs chan<- *prometheus.Desc) {
	for _, m := range metrics {
		descs <- m.desc
	}
	for _, t := range timings {
		descs <- t.desc
	}
	for _, d := range []*prometheus.Desc{groupDesc, waitingDesc, healthyDesc, reasonDesc} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	st, h := c.store.Stats(), c.store.Health()
	for _, m := range metrics {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&st))
	}
	for _, t := range timings {
		out <- histogram(t.desc, t.value(&st), 10, 36, time.Second) // 1 µs to 69 s
	}
	out <- histogram(groupDesc, st.GroupSize, 0, 16, 1)
	for label, n := range map[string]int64{"sync": st.WaitingForSync, "room": st.WaitingForRoom, "dispatcher": st.WaitingForDispatch} {
		out <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(n), label)
	}
	out <- prometheus.MustNewConstMetric(healthyDesc, prometheus.GaugeValue, float64(store.HealthFailed-h.State))
	for _, r := range h.Reasons {
		out <- prometheus.MustNewConstMetric(reasonDesc, prometheus.GaugeValue, 1, r.Code.String())
	}
}

// histogram makes a Prometheus histogram with the bounds 2^from - 1 … 2^to - 1,
// divided by unit. They are the same each time, as Prometheus wants it, and
// between two buckets of the store, so that the counts are exact.
func histogram[V ~int64](desc *prometheus.Desc, h store.Histogram[V], from, to int, unit V) prometheus.Metric {
	bounds := make(map[float64]uint64)
	for k := from; k <= to; k++ {
		bound, n := V(1)<<k-1, int64(0)
		for b := range h.Buckets() {
			if b.Upper <= bound {
				n += b.Count
			}
		}
		bounds[float64(bound)/float64(unit)] = uint64(n)
	}
	return prometheus.MustNewConstHistogram(desc, uint64(h.Count()), float64(h.Sum())/float64(unit), bounds)
}
