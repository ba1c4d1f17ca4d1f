package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// BenchmarkVisible is how long a reader that waits for a message of a store in
// which nothing else happens waits for it: from the begin of the put
// ("whole"), and from the moment at which the put has returned ("after"), which is 0
// where the reader is first. BenchmarkLimitWake is what it takes to wake it.
func BenchmarkVisible(b *testing.B) {
	for _, flush := range flushModes {
		b.Run(fmt.Sprintf("flush=%s/size=1024", flush.name), func(b *testing.B) { benchmarkVisible(b, flush.mode) })
	}
}

func benchmarkVisible(b *testing.B, mode store.FlushMode) {
	ctx := context.Background()
	s := openStore(b, store.Config{Flush: mode})
	m := newMessage(1024, 0)
	seen := make(chan time.Time, 1)
	go follow(b, s, b.N, seen)
	whole, after := make(latencies, b.N), make(latencies, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		began := time.Now()
		_, err := s.PutMessage(ctx, m)
		returned := time.Now()
		check(b, err)
		at, ok := <-seen
		if !ok {
			b.FailNow() // follow has said why
		}
		whole[i], after[i] = at.Sub(began), max(0, at.Sub(returned))
	}
	b.StopTimer()
	verifyCount(b, s, b.N)
	whole.report(b, "whole-")
	after.report(b, "after-")
}

// follow reads n messages as they arrive, and says when it has each.
func follow(b *testing.B, s *store.DefaultMessageStore, n int, seen chan<- time.Time) {
	defer close(seen)
	arrived := make(chan struct{}, 1)
	defer s.NotifyArrival("bench", arrived)()
	for next := message.QueueOffset(0); next < message.QueueOffset(n); {
		r, err := s.GetMessage(context.Background(), store.GetQuery{Topic: "bench", Offset: next, MaxCount: 1})
		if err != nil {
			b.Error(err)
			return
		}
		found := len(r.Messages) == 1
		r.Release()
		if !found {
			<-arrived
			continue
		}
		seen <- time.Now()
		next++
	}
}

// BenchmarkLimitWake is the time until a goroutine that waits for a channel runs.
func BenchmarkLimitWake(b *testing.B) {
	wake, seen := make(chan struct{}), make(chan time.Time)
	defer close(wake)
	go func() {
		for range wake {
			seen <- time.Now()
		}
	}()
	took := make(latencies, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		began := time.Now()
		wake <- struct{}{}
		took[i] = (<-seen).Sub(began)
	}
	b.StopTimer()
	took.report(b, "")
}
