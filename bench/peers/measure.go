package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// result is one measurement. It is a value.
type result struct {
	Messages int64
	Took     time.Duration // until the last put returned, or the last message was read
	Drained  time.Duration // until all could be read, from the same start

	// Of a put, or of a batch, under the promise that it survives a loss of power; 0 otherwise.
	P50, P99 time.Duration `json:",omitempty"`
}

// spec says what to measure.
type spec struct {
	Peer     string
	Workload string
	Promise  promise
	Dir      string // must be empty
	Bytes    int64
	Limit    time.Duration
}

// measure opens the peer, does what the workload says, reads everything back,
// and closes it.
func measure(s spec) (result, error) {
	p, ok := peerNamed(s.Peer)
	if !ok {
		return result{}, fmt.Errorf("no peer %q", s.Peer)
	}
	w, ok := workloadNamed(s.Workload)
	if !ok {
		return result{}, fmt.Errorf("no workload %q", s.Workload)
	}
	if !w.takes(p, s.Promise) {
		return result{}, fmt.Errorf("%s does not take %s with promise %q", p.name, w.name, s.Promise)
	}
	pr := s.Promise
	if w.read {
		pr = p.weakest()
	}
	n := w.messages(s.Bytes)
	q, err := openQueue(p, s.Dir, pr, w, n)
	if err != nil {
		return result{}, err
	}
	var r result
	if w.read {
		r, err = measureRead(q, p, w, n, s.Limit)
	} else {
		r, err = measurePut(q, w, n, s.Limit, s.Promise == powerLoss)
	}
	return r, errors.Join(err, q.Close())
}

func measurePut(q queue, w workload, n int64, limit time.Duration, timed bool) (result, error) {
	start := time.Now()
	put, latencies, err := putAll(q, w, n, limit, timed)
	took := time.Since(start)
	if err != nil {
		return result{}, err
	}
	if err := q.Drain(); err != nil {
		return result{}, fmt.Errorf("drain: %w", err)
	}
	r := result{Messages: put, Took: took, Drained: time.Since(start)}
	slices.Sort(latencies)
	r.P50, r.P99 = percentile(latencies, 50), percentile(latencies, 99)
	return r, verify(q, w, put)
}

// measureRead fills the queue, and reads what is there now.
func measureRead(q queue, p peer, w workload, n int64, limit time.Duration) (result, error) {
	fill := workload{size: w.size, writers: 1, batch: 1}
	if p.batch != "" {
		fill.batch = 100
	}
	put, _, err := putAll(q, fill, n, limit, false)
	if err == nil {
		err = q.Drain()
	}
	if err != nil {
		return result{}, fmt.Errorf("fill: %w", err)
	}
	var over atomic.Bool
	c := newChecker(w.size, put, true)
	start := time.Now()
	defer time.AfterFunc(limit, func() { over.Store(true) }).Stop()
	err = q.ReadAll(w.batch, func(body []byte) error {
		if over.Load() {
			return errLimit
		}
		return c.check(body)
	})
	took := time.Since(start)
	if errors.Is(err, errLimit) {
		err = nil
	} else if err == nil {
		err = c.complete()
	}
	return result{Messages: c.count, Took: took, Drained: took}, err
}

// errLimit ends a read that takes too long.
var errLimit = errors.New("time is over")

// putAll puts messages 0 to n-1, fewer when time is over, and returns how many it
// put, and how long each put took if they are timed: that costs as much as the
// fastest puts.
func putAll(q queue, w workload, n int64, limit time.Duration, timed bool) (int64, []time.Duration, error) {
	var over atomic.Bool
	defer time.AfterFunc(limit, func() { over.Store(true) }).Stop()
	var next atomic.Int64
	errs := make([]error, w.writers)
	latencies := make([][]time.Duration, w.writers)
	var wg sync.WaitGroup
	for i := range w.writers {
		wg.Go(func() {
			put := putter(q, w)
			if timed {
				put = timer(put, &latencies[i])
			}
			for !over.Load() && errs[i] == nil {
				end := next.Add(int64(w.batch))
				if end-int64(w.batch) >= n {
					next.Add(-int64(w.batch))
					return
				}
				errs[i] = put(end - int64(w.batch))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, nil, fmt.Errorf("put: %w", err)
	}
	return next.Load(), slices.Concat(latencies...), nil
}

// timer keeps how long each put takes.
func timer(put func(int64) error, took *[]time.Duration) func(int64) error {
	return func(first int64) error {
		start := time.Now()
		err := put(first)
		*took = append(*took, time.Since(start))
		return err
	}
}

// percentile is what so many percent of the sorted values do not exceed; 0 if there are none.
func percentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*percent/100]
}

// putter returns what puts a message, or a batch of them, from a number on. It
// uses its memory again and again.
func putter(q queue, w workload) func(first int64) error {
	bodies := make([][]byte, w.batch)
	for i := range bodies {
		bodies[i] = make([]byte, w.size)
	}
	return func(first int64) error {
		for i, body := range bodies {
			fillBody(body, first+int64(i))
		}
		if w.batch == 1 {
			return q.Put(bodies[0])
		}
		return q.PutBatch(bodies)
	}
}

// verify reads everything back.
func verify(q queue, w workload, put int64) error {
	c := newChecker(w.size, put, w.writers == 1)
	if err := q.ReadAll(32, c.check); err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	return c.complete()
}
