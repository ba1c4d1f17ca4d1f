package main

import (
	"sync"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

var raftWAL = peer{
	name:   "raft-wal",
	module: "github.com/hashicorp/raft-wal",
	gives: map[promise]string{
		powerLoss: "always; there is no mode without sync, and no group commit, as Raft has one writer",
	},
	batch:  "`StoreLogs`: atomic, its last frame commits it",
	atomic: true,
	notes: "Defaults (segments of 64 MiB, which are allocated ahead). Raft wants consecutive indexes, so writers take turns. " +
		"A read is `GetLog` of the next index.",
	open: openRaftWAL,
}

type raftQueue struct {
	drained
	log *wal.WAL

	mu   sync.Mutex
	next uint64
}

func openRaftWAL(dir string, _ promise, _ int) (queue, error) {
	log, err := wal.Open(dir)
	if err != nil {
		return nil, err
	}
	last, err := log.LastIndex()
	return &raftQueue{log: log, next: last + 1}, err
}

func (q *raftQueue) Put(body []byte) error { return q.PutBatch([][]byte{body}) }

func (q *raftQueue) PutBatch(bodies [][]byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	logs := make([]*raft.Log, len(bodies))
	for i, body := range bodies {
		logs[i] = &raft.Log{Index: q.next + uint64(i), Term: 1, Data: body}
	}
	err := q.log.StoreLogs(logs)
	if err == nil {
		q.next += uint64(len(bodies))
	}
	return err
}

func (q *raftQueue) ReadAll(_ int, yield func([]byte) error) error {
	var l raft.Log
	for i := uint64(1); i < q.next; i++ {
		if err := q.log.GetLog(i, &l); err != nil {
			return err
		}
		if err := yield(l.Data); err != nil {
			return err
		}
	}
	return nil
}

func (q *raftQueue) Close() error { return q.log.Close() }
