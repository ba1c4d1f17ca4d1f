package main

import (
	"sync"

	"github.com/tidwall/wal"
)

var tidwallWAL = peer{
	name:   "tidwall/wal",
	module: "github.com/tidwall/wal",
	gives: map[promise]string{
		processCrash: "`NoSync: true`",
		powerLoss:    "the default; each write syncs for itself, there is no group commit",
	},
	batch: "`WriteBatch`: one write, and no promise about a crash amid it",
	notes: "Defaults (segments of 20 MB), and `NoCopy: true`, which its documentation calls an optimization of reads. " +
		"The log wants consecutive indexes from its caller, so writers take turns. A read is `Read` of the next index.",
	open: openTidwall,
}

type tidwallQueue struct {
	drained
	log *wal.Log

	mu    sync.Mutex
	next  uint64
	batch wal.Batch
}

func openTidwall(dir string, p promise, _ int) (queue, error) {
	log, err := wal.Open(dir, &wal.Options{NoSync: p == processCrash, NoCopy: true})
	if err != nil {
		return nil, err
	}
	last, err := log.LastIndex()
	return &tidwallQueue{log: log, next: last + 1}, err
}

func (q *tidwallQueue) Put(body []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.log.Write(q.next, body)
	if err == nil {
		q.next++
	}
	return err
}

func (q *tidwallQueue) PutBatch(bodies [][]byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.batch.Clear()
	for i, body := range bodies {
		q.batch.Write(q.next+uint64(i), body)
	}
	err := q.log.WriteBatch(&q.batch)
	if err == nil {
		q.next += uint64(len(bodies))
	}
	return err
}

func (q *tidwallQueue) ReadAll(_ int, yield func([]byte) error) error {
	for i := uint64(1); i < q.next; i++ {
		body, err := q.log.Read(i)
		if err != nil {
			return err
		}
		if err := yield(body); err != nil {
			return err
		}
	}
	return nil
}

func (q *tidwallQueue) Close() error { return q.log.Close() }
