package main

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// result is one measurement. It is a value.
type result struct {
	Messages int64
	Took     time.Duration // until the last put returned, or the last message was read
	Drained  time.Duration // until all could be read, from the same start
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
	q, err := p.open(s.Dir, pr, w.writers)
	if err != nil {
		return result{}, fmt.Errorf("open: %w", err)
	}
	n := w.messages(s.Bytes)
	var r result
	if w.read {
		r, err = measureRead(q, p, w, n, s.Limit)
	} else {
		r, err = measurePut(q, w, n, s.Limit)
	}
	return r, errors.Join(err, q.Close())
}

func measurePut(q queue, w workload, n int64, limit time.Duration) (result, error) {
	start := time.Now()
	put, err := putAll(q, w, n, limit)
	took := time.Since(start)
	if err != nil {
		return result{}, err
	}
	if err := q.Drain(); err != nil {
		return result{}, fmt.Errorf("drain: %w", err)
	}
	r := result{Messages: put, Took: took, Drained: time.Since(start)}
	return r, verify(q, w, put)
}

// measureRead fills the queue, and reads what is there now.
func measureRead(q queue, p peer, w workload, n int64, limit time.Duration) (result, error) {
	fill := workload{size: w.size, writers: 1, batch: 1}
	if p.batch != "" {
		fill.batch = 100
	}
	put, err := putAll(q, fill, n, limit)
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

// putAll puts messages 0 to n-1, fewer when time is over, and returns how many it put.
func putAll(q queue, w workload, n int64, limit time.Duration) (int64, error) {
	var over atomic.Bool
	defer time.AfterFunc(limit, func() { over.Store(true) }).Stop()
	var next atomic.Int64
	errs := make([]error, w.writers)
	var wg sync.WaitGroup
	for i := range w.writers {
		wg.Go(func() {
			put := putter(q, w)
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
		return 0, fmt.Errorf("put: %w", err)
	}
	return next.Load(), nil
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
