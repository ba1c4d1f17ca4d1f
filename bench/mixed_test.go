package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

const (
	mixedSegment = 4 << 20
	mixedRetain  = 16 << 20
)

// BenchmarkMixed has a writer, a reader at the end of the queue, and a retention
// that keeps 16 MiB in files of 4 MiB, and more where the reader has not been. An
// operation is a message that is put, and read. Each message must come to the reader,
// in its order, and what retention is to keep must be there at the end.
func BenchmarkMixed(b *testing.B) {
	for _, flush := range flushModes {
		b.Run(fmt.Sprintf("flush=%s/size=1024", flush.name), func(b *testing.B) { benchmarkMixed(b, flush.mode) })
	}
}

func benchmarkMixed(b *testing.B, mode store.FlushMode) {
	s := openStore(b, store.Config{Flush: mode, SegmentSize: mixedSegment,
		Retention: store.Retention{RetainBytes: mixedRetain, Groups: store.KeepUnconsumed}})
	var read atomic.Int64
	s.SetConsumed(func(string, int32) (message.QueueOffset, bool) { return message.QueueOffset(read.Load()), true })
	// Enough that files are removed from the first file on that is filled now.
	full := 2 * mixedRetain / 1024
	putNumbered(b, s, 0, full, true)
	readNumbered(b, s, &read, full)
	removed := removedFiles(b, s)
	if removed == 0 {
		b.Fatal("nothing was removed")
	}

	b.SetBytes(1024)
	b.ReportAllocs()
	b.ResetTimer()
	reading := make(chan time.Duration)
	go func() { reading <- timed(func() { readNumbered(b, s, &read, full+b.N) }) }()
	writing := timed(func() { putNumbered(b, s, full, full+b.N, false) })
	reads := float64(b.N) / (<-reading).Seconds()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/writing.Seconds(), "puts/s")
	b.ReportMetric(reads, "reads/s")
	b.ReportMetric(float64(removedFiles(b, s)-removed), "files-removed")
	verifyRetained(b, s, full+b.N)
}

// putNumbered puts the messages from one number to another, one by one.
func putNumbered(b *testing.B, s *store.DefaultMessageStore, from, to int, noWait bool) {
	m := newMessage(1024, 0)
	m.NoWait = noWait // for a sync
	for i := from; i < to; i++ {
		binary.BigEndian.PutUint64(m.Body, uint64(i))
		_, err := s.PutMessage(context.Background(), m)
		check(b, err)
	}
}

// readNumbered reads, from where *read says, the messages before to as they arrive.
// It uses b.Error because it may have a goroutine of its own.
func readNumbered(b *testing.B, s *store.DefaultMessageStore, read *atomic.Int64, to int) {
	arrived := make(chan struct{}, 1)
	defer s.NotifyArrival("bench", arrived)()
	for read.Load() < int64(to) {
		r, err := s.GetMessage(context.Background(), store.GetQuery{Topic: "bench", Offset: message.QueueOffset(read.Load()), MaxCount: 32})
		if err != nil {
			b.Error(err)
			return
		}
		for _, v := range r.Messages {
			if number(v) != read.Load() {
				b.Errorf("read %d, not %d", number(v), read.Load())
				return
			}
			read.Add(1)
		}
		status := r.Status
		r.Release()
		switch status {
		case store.GetFound:
		case store.GetOffsetOverflowOne, store.GetNoMessageInQueue:
			<-arrived
		default:
			b.Errorf("%s at %d", status, read.Load())
			return
		}
	}
}

func number(v message.View) int64 { return int64(binary.BigEndian.Uint64(v.Body())) }

// removedFiles is how many files retention has removed, after it had its say.
func removedFiles(b *testing.B, s *store.DefaultMessageStore) int64 {
	_, err := s.DeleteExpired(context.Background())
	check(b, err)
	return s.Stats().SegmentsRemoved[store.ReasonBytes]
}

// verifyRetained looks for every message from the queue's first one on, and whether
// that is as far back as it should be: the file that is written to and the one that
// is prepared count, too.
func verifyRetained(b *testing.B, s *store.DefaultMessageStore, put int) {
	next := int64(s.MinOffsetInQueue("bench", 0))
	for v, err := range s.Messages(context.Background(), store.GetQuery{Topic: "bench"}) {
		check(b, err)
		if number(v) != next {
			b.Fatalf("message %d where %d should be", number(v), next)
		}
		next++
	}
	if next != int64(put) {
		b.Fatalf("the queue ends at %d, %d were put", next, put)
	}
	if kept := int64(s.MaxOffset() - s.MinOffset()); kept < mixedRetain-2*mixedSegment {
		b.Fatalf("%d bytes are left, retention is to keep %d", kept, int64(mixedRetain))
	}
}
