package bench

import (
	"fmt"
	"runtime"
	"testing"
)

// BenchmarkQueueMemory is what a queue takes of Go's heap ("heap-B/queue"). Idle is
// a queue that has messages and was not used since the store was opened; an operation
// is that Open. Active is one that was put to; an operation puts a message to each
// queue. The files of 400 queues are open together, those of 10,000 are not.
func BenchmarkQueueMemory(b *testing.B) {
	for _, queues := range []int{400, 10_000} {
		dir := ""
		directory := func(sub *testing.B) string {
			if queues > 400 {
				onlyLarge(sub, "a minute", 10<<30)
			}
			if dir == "" {
				dir = b.TempDir()
				s := reopen(sub, dir)
				makeQueues(sub, s, queues)
				check(sub, s.Close())
			}
			return dir
		}
		b.Run(fmt.Sprintf("state=idle/queues=%d", queues), func(b *testing.B) { benchmarkIdleQueues(b, directory(b), queues) })
		b.Run(fmt.Sprintf("state=active/queues=%d", queues), func(b *testing.B) { benchmarkActiveQueues(b, directory(b), queues) })
	}
}

func benchmarkIdleQueues(b *testing.B, dir string, queues int) {
	base := heapOfEmpty(b)
	b.ReportAllocs()
	var took int64
	for b.Loop() {
		b.StopTimer()
		before := heap()
		b.StartTimer()
		s := reopen(b, dir)
		b.StopTimer()
		took = heap() - before
		check(b, s.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(took-base)/float64(queues), "heap-B/queue")
}

func benchmarkActiveQueues(b *testing.B, dir string, queues int) {
	base := heapOfEmpty(b)
	before := heap()
	s := reopen(b, dir)
	had := s.Stats().Messages
	b.ReportAllocs()
	rounds := 0
	for b.Loop() {
		makeQueues(b, s, queues)
		rounds++
	}
	took := heap() - before
	verifyCount(b, s, int(had)+rounds*queues)
	check(b, s.Close())
	b.ReportMetric(float64(took-base)/float64(queues), "heap-B/queue")
}

// heapOfEmpty is what an open store takes that has no queues.
func heapOfEmpty(b *testing.B) int64 {
	before := heap()
	s := reopen(b, b.TempDir())
	took := heap() - before
	check(b, s.Close())
	return took
}

// heap is how many bytes are reachable.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what sync.Pools had
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
