package main

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

var etcdWAL = peer{
	name:   "etcd wal",
	module: "go.etcd.io/etcd/server/v3",
	gives: map[promise]string{
		processCrash: "`SetUnsafeNoFsync`, which is etcd's own option `--unsafe-no-fsync`",
		powerLoss:    "the default; no group commit, as Raft has one writer",
	},
	batch: "`Save` of 100 entries: one sync, and no promise about a crash amid it",
	notes: "Defaults (segments of 64 MB, which are allocated ahead). Raft wants consecutive indexes, so writers take turns. " +
		"A read is `OpenForRead` and `ReadAll`, which returns everything at once.",
	open: openEtcdWAL,
}

type etcdQueue struct {
	drained
	dir string
	log *wal.WAL

	mu   sync.Mutex
	next uint64
}

func openEtcdWAL(parent string, p promise, _ int) (queue, error) {
	q := &etcdQueue{dir: filepath.Join(parent, "wal"), next: 1}
	if err := q.openOrCreate(); err != nil {
		return nil, err
	}
	if p == processCrash {
		q.log.SetUnsafeNoFsync()
	}
	return q, nil
}

func (q *etcdQueue) openOrCreate() (err error) {
	if _, err := os.Stat(q.dir); errors.Is(err, os.ErrNotExist) {
		q.log, err = wal.Create(zap.NewNop(), q.dir, nil)
		return err
	}
	if q.log, err = wal.Open(zap.NewNop(), q.dir, &walpb.Snapshot{}); err != nil {
		return err
	}
	_, _, entries, err := q.log.ReadAll() // required before the first Save
	q.next += uint64(len(entries))
	return err
}

func (q *etcdQueue) Put(body []byte) error { return q.PutBatch([][]byte{body}) }

func (q *etcdQueue) PutBatch(bodies [][]byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	entries := make([]*raftpb.Entry, len(bodies))
	term := uint64(1)
	for i, body := range bodies {
		index := q.next + uint64(i)
		entries[i] = &raftpb.Entry{Term: &term, Index: &index, Data: body}
	}
	err := q.log.Save(&raftpb.HardState{Term: &term}, entries)
	if err == nil {
		q.next += uint64(len(bodies))
	}
	return err
}

func (q *etcdQueue) ReadAll(_ int, yield func([]byte) error) error {
	log, err := wal.OpenForRead(zap.NewNop(), q.dir, &walpb.Snapshot{})
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // after ReadAll it has nothing to close, and says so by an error
	_, _, entries, err := log.ReadAll()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := yield(e.Data); err != nil {
			return err
		}
	}
	return nil
}

func (q *etcdQueue) Close() error { return q.log.Close() }
