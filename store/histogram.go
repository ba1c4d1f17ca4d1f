package store

import (
	"iter"
	"math"
	"math/bits"
	"sync/atomic"
)

// Histogram says how values are distributed: how many there were between which
// bounds. It is a value that never changes; the zero value has seen nothing.
//
// Bounds lie 6.25 % apart: each power of two is divided into 16 buckets, and
// numbers below 32 have buckets of their own. So a quantile is never less than
// the true one, and at most 6.25 % more. Min and Max are exact.
type Histogram[V ~int64] struct {
	buckets  []bucket // those that are not empty, ascending; never modified
	count    int64
	sum      int64
	min, max int64
}

// bucket is how many values fell into the bucket with that index.
type bucket struct {
	index int
	count int64
}

// HistogramBucket is one range of values and how many fell into it.
type HistogramBucket[V ~int64] struct {
	Lower, Upper V // the least and the largest value that belong to it
	Count        int64
}

// Count is how many values there were.
func (h Histogram[V]) Count() int64 { return h.count }

// Sum is all values added up; one taken while others are recorded may lack the
// last of them.
func (h Histogram[V]) Sum() V { return V(h.sum) }

// Min is the smallest value, 0 when there was none.
func (h Histogram[V]) Min() V { return V(h.min) }

// Max is the largest value, 0 when there was none.
func (h Histogram[V]) Max() V { return V(h.max) }

// Mean is the average, 0 when there was no value.
func (h Histogram[V]) Mean() float64 {
	if h.count == 0 {
		return 0
	}
	return float64(h.sum) / float64(h.count)
}

// Quantile returns the value that a share q of all values does not exceed: 0.5
// gives the median, 0.99 what 99 % stay within, 0 and less Min, 1 and more Max. It
// is 0 when there was no value.
func (h Histogram[V]) Quantile(q float64) V {
	if !(q > 0) { // NaN, too
		return V(h.min)
	}
	if q >= 1 {
		return V(h.max)
	}
	rank := int64(math.Ceil(q * float64(h.count)))
	for _, b := range h.buckets {
		if rank -= b.count; rank <= 0 {
			_, upper := bounds(b.index)
			return V(max(h.min, min(upper, h.max)))
		}
	}
	return V(h.max)
}

// Merge is the histogram of the values of both.
func (h Histogram[V]) Merge(o Histogram[V]) Histogram[V] {
	switch {
	case h.count == 0:
		return o
	case o.count == 0:
		return h
	}
	m := Histogram[V]{count: h.count + o.count, sum: h.sum + o.sum, min: min(h.min, o.min), max: max(h.max, o.max)}
	m.buckets = make([]bucket, 0, len(h.buckets)+len(o.buckets))
	a, b := h.buckets, o.buckets
	for len(a) > 0 && len(b) > 0 {
		next := bucket{index: min(a[0].index, b[0].index)}
		if a[0].index == next.index {
			next.count, a = a[0].count, a[1:]
		}
		if b[0].index == next.index {
			next.count, b = next.count+b[0].count, b[1:]
		}
		m.buckets = append(m.buckets, next)
	}
	m.buckets = append(append(m.buckets, a...), b...)
	return m
}

// Buckets yields the buckets that are not empty, ascending. For a histogram with
// fixed bounds, as Prometheus has, add up the counts of those whose Upper is not
// above each bound. That is exact for 2^k - 1: no bucket lies on both sides of it.
func (h Histogram[V]) Buckets() iter.Seq[HistogramBucket[V]] {
	return func(yield func(HistogramBucket[V]) bool) {
		for _, b := range h.buckets {
			lower, upper := bounds(b.index)
			if !yield(HistogramBucket[V]{V(lower), V(upper), b.count}) {
				return
			}
		}
	}
}

const (
	subBits     = 4 // 16 buckets for each power of two
	bucketCount = (64 - subBits) << subBits
)

// indexOf is the bucket of v, which is not negative: its highest bit and the
// subBits that follow say which.
func indexOf(v int64) int {
	shift := max(0, bits.Len64(uint64(v))-subBits-1)
	return shift<<subBits + int(v>>shift)
}

// bounds are the least and the largest value of a bucket.
func bounds(index int) (lower, upper int64) {
	const half = 1 << subBits
	if index < 2*half {
		return int64(index), int64(index)
	}
	shift := index>>subBits - 1
	lower = int64(index%half+half) << shift
	return lower, lower + 1<<shift - 1
}

// recorder counts values. Recording takes no lock and allocates nothing; any
// number of goroutines may do it.
type recorder[V ~int64] struct {
	counts [bucketCount]atomic.Int64
	sum    atomic.Int64
	least  atomic.Int64 // the smallest value and one, 0 when there was none
	most   atomic.Int64
}

// record counts a value; a negative one, which a clock that was set back gives,
// as 0.
func (r *recorder[V]) record(value V) {
	v := min(max(0, int64(value)), math.MaxInt64-1)
	r.sum.Add(v)
	for old := r.least.Load(); (old == 0 || v < old-1) && !r.least.CompareAndSwap(old, v+1); {
		old = r.least.Load()
	}
	for old := r.most.Load(); v > old && !r.most.CompareAndSwap(old, v); {
		old = r.most.Load()
	}
	r.counts[indexOf(v)].Add(1) // last: a snapshot that has the value has the rest of it
}

// snapshot is what was recorded so far.
func (r *recorder[V]) snapshot() Histogram[V] {
	var h Histogram[V]
	for i := range r.counts {
		if n := r.counts[i].Load(); n > 0 {
			h.buckets = append(h.buckets, bucket{i, n})
			h.count += n
		}
	}
	h.sum, h.max = r.sum.Load(), r.most.Load()
	h.min = max(1, r.least.Load()) - 1
	return h
}
