package main

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"
)

var badgerDB = peer{
	name:   "Badger",
	module: "github.com/dgraph-io/badger/v4",
	gives: map[promise]string{
		processCrash: "`SyncWrites: false`, the default: its log is written through mapped memory",
		powerLoss:    "`SyncWrites: true`; each transaction is synced for itself",
	},
	batch:  "one transaction: atomic",
	atomic: true,
	notes: "Defaults, and `DetectConflicts: false`, which its documentation advises where transactions can not conflict, " +
		"and no metrics. Its `WriteBatch` promises nothing before `Flush`, so a put is a transaction. Keys are a counter. " +
		"A read is an iterator with `PrefetchSize` 32.",
	open: openBadger,
}

type badgerQueue struct {
	drained
	db   *badger.DB
	next atomic.Uint64
}

func openBadger(dir string, p promise, _ int) (queue, error) {
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithSyncWrites(p == powerLoss).
		WithDetectConflicts(false).WithMetricsEnabled(false))
	if err != nil {
		return nil, err
	}
	q := &badgerQueue{db: db}
	return q, db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{Reverse: true})
		defer it.Close()
		if it.Rewind(); it.Valid() {
			q.next.Store(binary.BigEndian.Uint64(it.Item().Key()))
		}
		return nil
	})
}

func (q *badgerQueue) Put(body []byte) error { return q.PutBatch([][]byte{body}) }

func (q *badgerQueue) PutBatch(bodies [][]byte) error {
	return q.db.Update(func(tx *badger.Txn) error {
		for _, body := range bodies {
			if err := tx.Set(binary.BigEndian.AppendUint64(nil, q.next.Add(1)), body); err != nil {
				return err
			}
		}
		return nil
	})
}

func (q *badgerQueue) ReadAll(batch int, yield func([]byte) error) error {
	return q.db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{PrefetchValues: true, PrefetchSize: batch})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if err := it.Item().Value(yield); err != nil {
				return err
			}
		}
		return nil
	})
}

func (q *badgerQueue) Close() error { return q.db.Close() }
