package indexfile

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// BenchmarkPut indexes records with a unique key and one word.
func BenchmarkPut(b *testing.B) {
	w := newWorld(b, 1<<16, 1<<20)
	records := make([]message.DispatchRequest, 1000)
	for i := range records {
		records[i] = *w.record("orders", fmt.Sprintf("7F000001000018B4AAC2130F7E%06d", i), fmt.Sprint("order", i), 0)
	}
	step, base := w.end, message.LogOffset(0)
	for i := 0; b.Loop(); i++ {
		if i > 0 && i%len(records) == 0 {
			b.StopTimer()
			base += step
			for j := range records {
				message.PlaceRecord(records[j].Raw(), 0, base+w.order[j], w.clock)
			}
			b.StartTimer()
		}
		if err := w.index.Put(&records[i%len(records)]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkQuery looks for one record among 100,000 in ten files.
func BenchmarkQuery(b *testing.B) {
	w := newWorld(b, 1<<12, 10_000)
	for i := range 100_000 {
		w.put("orders", fmt.Sprint("order", i))
	}
	require.NoError(b, w.index.Flush()) // so that full files are mapped for each query
	for i := 0; b.Loop(); i++ {
		key := fmt.Sprint("order", i%100_000)
		got, err := query(w.index, "orders", key, 1, 0, forever, w.match("orders", key))
		require.NoError(b, err)
		require.Len(b, got, 1)
	}
}
