package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

var flushModes = []struct {
	name string
	mode store.FlushMode
}{{"async", store.FlushAsync}, {"sync", store.FlushSync}}

func BenchmarkPut(b *testing.B) {
	for _, flush := range flushModes {
		for _, size := range []int{128, 1024, 4096} {
			for _, writers := range []int{1, 64} {
				b.Run(fmt.Sprintf("flush=%s/size=%d/writers=%d", flush.name, size, writers), func(b *testing.B) {
					benchmarkPut(b, flush.mode, size, writers)
				})
			}
		}
	}
}

func benchmarkPut(b *testing.B, mode store.FlushMode, size, writers int) {
	ctx := context.Background()
	s, err := store.Open(ctx, b.TempDir(), store.Config{Flush: mode})
	check(b, err)
	defer func() { check(b, s.Close()) }()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	m := newMessage(size, 0)
	each(b, writers, func() error {
		_, err := s.PutMessage(ctx, m)
		return err
	})
	check(b, s.WaitDispatched(ctx, s.MaxOffset()))
	b.StopTimer()
	verifyCount(b, s)
}

// BenchmarkPutAsync has one writer that does not wait for the syncs, and ends
// when the last message is confirmed.
func BenchmarkPutAsync(b *testing.B) {
	for _, flush := range flushModes {
		for _, size := range []int{128, 1024, 4096} {
			b.Run(fmt.Sprintf("flush=%s/size=%d/writers=1", flush.name, size), func(b *testing.B) {
				benchmarkPutAsync(b, flush.mode, size)
			})
		}
	}
}

func benchmarkPutAsync(b *testing.B, mode store.FlushMode, size int) {
	ctx := context.Background()
	s, err := store.Open(ctx, b.TempDir(), store.Config{Flush: mode})
	check(b, err)
	defer func() { check(b, s.Close()) }()
	var confirmed sync.WaitGroup
	confirmed.Add(b.N)
	done := func(_ store.PutMessageResult, err error) {
		if err != nil {
			b.Error(err)
		}
		confirmed.Done()
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.ResetTimer()
	m := newMessage(size, 0)
	for range b.N {
		s.PutMessageAsync(ctx, m, done)
	}
	confirmed.Wait()
	check(b, s.WaitDispatched(ctx, s.MaxOffset()))
	b.StopTimer()
	verifyCount(b, s)
}

// each calls work b.N times from so many goroutines.
func each(b *testing.B, workers int, work func() error) { eachOf(b, b.N, workers, work) }

// eachOf calls work n times.
func eachOf(b *testing.B, n, workers int, work func() error) {
	if workers == 1 {
		for range n {
			if err := work(); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				if err := work(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// verifyCount compares the queues with the number of messages put.
func verifyCount(b *testing.B, s *store.DefaultMessageStore) {
	b.Helper()
	var n int64
	for _, q := range s.Queues() {
		n += int64(q.MaxOffset - q.MinOffset)
	}
	if n != int64(b.N) {
		b.Fatalf("%d messages in the queues, %d were put", n, b.N)
	}
}

func newMessage(size int, queueID int32) *message.MessageExtBrokerInner {
	m := &message.MessageExtBrokerInner{}
	m.Topic, m.QueueID = "bench", queueID
	m.Body = make([]byte, size)
	for i := range m.Body {
		m.Body[i] = byte(i)
	}
	m.Properties = "TAGS\x01TagA"
	return m
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
