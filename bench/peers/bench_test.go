package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// BenchmarkPeer does b.N messages of each measurement in this process, so it has
// only peers in Go. What is published comes from the program, which gives each a
// process of its own.
func BenchmarkPeer(b *testing.B) {
	plain := strings.NewReplacer(" ", "-", "/", "-")
	for _, r := range allRows(b) {
		if r.peer.java != "" {
			continue
		}
		name := fmt.Sprintf("peer=%s/%s/promise=%s", plain.Replace(r.peer.name), r.workload.name, plain.Replace(string(r.promise)))
		b.Run(name, func(b *testing.B) {
			s := spec{Peer: r.peer.name, Workload: r.workload.name, Promise: r.promise, Dir: b.TempDir(),
				Bytes: int64(b.N) * int64(r.workload.size), Limit: math.MaxInt64}
			result, err := measure(s)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(result.Drained)/float64(result.Messages), "ns/message")
			b.ReportMetric(float64(result.Messages)/result.Drained.Seconds(), "messages/s")
		})
	}
}
