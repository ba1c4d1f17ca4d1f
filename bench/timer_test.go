package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/store"
)

// BenchmarkTimerDelivery is how late a message with a time of delivery comes: one
// is due each millisecond, in an otherwise idle process, while others wait. An
// operation is one delivery, and takes that millisecond. Beside what a consumer sees,
// which with FlushSync has a sync in it, stands when the message was placed in its
// queue, and how late a mere time.Timer was in the same run.
func BenchmarkTimerDelivery(b *testing.B) {
	for _, flush := range flushModes {
		for _, waiting := range []int{0, 100_000} {
			b.Run(fmt.Sprintf("flush=%s/waiting=%d", flush.name, waiting), func(b *testing.B) { benchmarkTimerDelivery(b, flush.mode, waiting) })
		}
	}
}

func benchmarkTimerDelivery(b *testing.B, mode store.FlushMode, waiting int) {
	ctx := context.Background()
	node, err := pocketmq.OpenConfig(ctx, pocketmq.Config{Dir: b.TempDir(), Store: store.Config{Flush: mode}})
	check(b, err)
	defer func() { check(b, node.Close()) }()
	check(b, node.CreateTopic(ctx, pocketmq.TopicConfig{Name: "timers", ReadQueueNums: 1, WriteQueueNums: 1}))
	producer, err := node.Producer("bench")
	check(b, err)
	send := func(due time.Time) {
		producer.SendAsync(ctx, &pocketmq.Message{Topic: "timers", Body: make([]byte, 100), Properties: message.Properties("").DeliverAt(due)},
			func(_ mq.SendResult, err error) { check(b, err) })
	}
	began := time.Now()
	for i := range waiting {
		send(began.Add(24*time.Hour + time.Duration(i)*time.Millisecond))
	}
	first := time.Now().Add(time.Duration(500+b.N/10) * time.Millisecond) // time to send them
	for i := range b.N {
		send(first.Add(time.Duration(i) * time.Millisecond))
	}
	consumer, err := node.Consumer(ctx, "bench", "timers")
	check(b, err)
	late, placed := make([]float64, 0, b.N), make([]float64, 0, b.N)
	time.Sleep(time.Until(first))
	limit := make(chan []float64)
	go func() { limit <- timerLateness(first, b.N) }()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		m, err := consumer.Receive(ctx)
		check(b, err)
		due, _, err := m.Properties.TimerDue(0)
		check(b, err)
		late = append(late, time.Since(time.UnixMilli(due)).Seconds()*1000)
		placed = append(placed, float64(m.StoreTimestamp-due))
	}
	b.StopTimer()
	for name, ms := range map[string][]float64{"received": late, "placed": placed, "timer": <-limit} {
		slices.Sort(ms)
		if ms[0] < 0 {
			b.Fatalf("%s %f ms early", name, -ms[0])
		}
		b.ReportMetric(ms[len(ms)/2], "ms-"+name+"-p50")
		b.ReportMetric(ms[len(ms)*99/100], "ms-"+name+"-p99")
	}
}

// timerLateness is by how many ms a time.Timer that is set for each of n
// milliseconds is late.
func timerLateness(first time.Time, n int) []float64 {
	late := make([]float64, 0, n)
	timer := time.NewTimer(0)
	<-timer.C
	for i := range n {
		at := first.Add(time.Duration(i) * time.Millisecond)
		timer.Reset(time.Until(at))
		<-timer.C
		late = append(late, time.Since(at).Seconds()*1000)
	}
	return late
}
