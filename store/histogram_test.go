package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/commitlog"
)

// TestBucketsCoverAllNumbers: each number is within the bounds of its bucket,
// buckets follow each other without a gap, and are no wider than promised.
func TestBucketsCoverAllNumbers(t *testing.T) {
	next := int64(0)
	for i := range bucketCount {
		lower, upper := bounds(i)
		require.Equal(t, next, lower)
		require.GreaterOrEqual(t, upper, lower)
		require.Equal(t, i, indexOf(lower))
		require.Equal(t, i, indexOf(upper))
		require.LessOrEqual(t, float64(upper-lower), float64(lower)*0.0625)
		next = upper + 1 // the last one wraps
	}
	require.EqualValues(t, int64(math.MinInt64), next, "the last bucket ends with the largest number")
}

// draw gives values of a size that is drawn first, so that all buckets get some.
func draw(r *rand.Rand) int64 { return r.Int64() >> r.IntN(63) }

// TestHistogramAgainstSortedValues compares with the values themselves: count,
// sum, minimum and maximum exactly, quantiles within the bound that is promised.
func TestHistogramAgainstSortedValues(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		var rec, other recorder[time.Duration]
		var values []int64
		var sum int64
		for range 1 + r.IntN(2000) {
			v := draw(r)
			if r.IntN(2) == 0 {
				rec.record(time.Duration(v))
			} else {
				other.record(time.Duration(v))
			}
			values = append(values, v)
			sum += v
		}
		slices.Sort(values)
		h := rec.snapshot().Merge(other.snapshot())
		require.EqualValues(t, len(values), h.Count())
		require.EqualValues(t, sum, h.Sum())
		require.EqualValues(t, values[0], h.Min())
		require.EqualValues(t, values[len(values)-1], h.Max())
		require.InDelta(t, float64(sum)/float64(len(values)), h.Mean(), 1+math.Abs(float64(sum))*1e-9)
		for _, q := range []float64{-1, 0, 1e-9, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1 - 1e-9, 1, 2, r.Float64(), math.NaN()} {
			requireQuantile(t, values, q, int64(h.Quantile(q)))
		}
		requireBuckets(t, values, h)
	}
}

func requireQuantile(t *testing.T, sorted []int64, q float64, got int64) {
	t.Helper()
	rank := 1
	if q > 0 {
		rank = min(len(sorted), max(1, int(math.Ceil(q*float64(len(sorted))))))
	}
	want := sorted[rank-1]
	require.GreaterOrEqual(t, got, want, "quantile %v", q)
	require.LessOrEqual(t, float64(got), float64(want)*1.0625, "quantile %v", q)
}

// requireBuckets counts the values between the bounds of each bucket.
func requireBuckets[V ~int64](t *testing.T, sorted []int64, h Histogram[V]) {
	t.Helper()
	last, total := int64(-1), int64(0)
	for b := range h.Buckets() {
		require.Greater(t, int64(b.Lower), last)
		last = int64(b.Upper)
		from, _ := slices.BinarySearch(sorted, int64(b.Lower))
		n := int64(0)
		for ; from < len(sorted) && sorted[from] <= int64(b.Upper); from++ {
			n++
		}
		require.Equal(t, n, b.Count)
		total += b.Count
	}
	require.Equal(t, h.Count(), total)
	for b := range h.Buckets() { // it can be left early
		require.Positive(t, b.Count)
		break
	}
}

func TestEmptyHistogram(t *testing.T) {
	var rec recorder[int64]
	for name, h := range map[string]Histogram[int64]{"zero": {}, "snapshot": rec.snapshot(), "merged": rec.snapshot().Merge(Histogram[int64]{})} {
		require.Zero(t, h.Count(), name)
		require.Zero(t, h.Sum(), name)
		require.Zero(t, h.Min(), name)
		require.Zero(t, h.Max(), name)
		require.Zero(t, h.Mean(), name)
		require.Zero(t, h.Quantile(0.99), name)
		for range h.Buckets() {
			t.Error(name, "has a bucket")
		}
	}
}

// TestHistogramEdges: the least and the largest number, and what a clock that
// was set back gives.
func TestHistogramEdges(t *testing.T) {
	for _, v := range []int64{math.MinInt64, -1, 0, 1, 31, 32, math.MaxInt64} {
		var rec recorder[int64]
		rec.record(v)
		h := rec.snapshot()
		want := min(max(0, v), math.MaxInt64-1)
		require.EqualValues(t, 1, h.Count(), v)
		require.Equal(t, want, h.Max(), v)
		require.Equal(t, want, h.Quantile(0.5), v)
		require.Equal(t, want, h.Min(), v)
	}
}

// TestHistogramIsAValue: what is recorded later, or merged, changes none that
// was taken before.
func TestHistogramIsAValue(t *testing.T) {
	var rec recorder[int64]
	for v := range int64(100) {
		rec.record(v)
	}
	h := rec.snapshot()
	before := fmt.Sprint(h)
	for v := range int64(1000) {
		rec.record(v)
	}
	m := h.Merge(rec.snapshot())
	require.EqualValues(t, 1200, m.Count())
	_ = m.Merge(h)
	require.Equal(t, before, fmt.Sprint(h))
	require.EqualValues(t, 1200, m.Count())
}

// TestRecordFromManyGoroutines, while others look: nothing is lost, and no
// snapshot has a quantile outside its bounds.
func TestRecordFromManyGoroutines(t *testing.T) {
	var rec recorder[int64]
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for last := int64(0); ; {
				h := rec.snapshot()
				if h.Count() < last || h.Count() > 0 && (h.Quantile(0.5) < h.Min() || h.Quantile(0.5) > h.Max()) {
					t.Error("a snapshot contradicts itself")
				}
				last = h.Count()
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	const each = 20_000
	for w := range int64(4) {
		writers.Go(func() {
			for i := range int64(each) {
				rec.record(1 + i*4 + w)
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	h := rec.snapshot()
	require.EqualValues(t, 4*each, h.Count())
	require.EqualValues(t, 1, h.Min())
	require.EqualValues(t, 4*each, h.Max())
	require.EqualValues(t, int64(4*each*(4*each+1)/2), h.Sum())
}

func TestRecordAllocatesNothing(t *testing.T) {
	var rec recorder[time.Duration]
	v := time.Duration(0)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		v += 997
		rec.record(v)
	}))
}

func BenchmarkRecord(b *testing.B) {
	var rec recorder[time.Duration]
	for i := range b.N {
		rec.record(time.Duration(i))
	}
}

// BenchmarkUntimed is what measuring costs a put under FlushAsync, or a get, that
// is not timed; BenchmarkRecord is what it costs one that is, beside two looks at
// the clock.
func BenchmarkUntimed(b *testing.B) {
	s := &DefaultMessageStore{cfg: Config{Flush: FlushAsync}}
	b.Run("put", func(b *testing.B) {
		s.log = &commitlog.Log{}
		for range b.N {
			func() { defer s.measures.put.since(s.beginPut()) }()
		}
	})
	b.Run("get", func(b *testing.B) {
		for range b.N {
			func() { defer s.measures.get.since(beginGet()) }()
		}
	})
}
