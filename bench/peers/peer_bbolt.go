package main

import (
	"encoding/binary"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
)

var boltDB = peer{
	name:   "bbolt",
	module: "go.etcd.io/bbolt",
	gives: map[promise]string{
		processCrash: "`NoSync: true`; what bbolt warns of, a damaged file, takes a crash of the system",
		powerLoss:    "the default; 64 writers share transactions by `Batch`, one writer uses `Update`",
	},
	batch:  "one `Update`: atomic",
	atomic: true,
	notes: "`MaxBatchSize` is the number of writers and `MaxBatchDelay` 2 ms, so that a transaction begins as soon as all writers wait, " +
		"not after the default 10 ms; `FillPercent` 1 for ascending keys; `NoFreelistSync` and the freelist as a hash map. " +
		"Its documentation advises each of these for such a use. Keys are `NextSequence`. A read is a `Cursor` in one transaction.",
	open: openBolt,
}

var boltBucket = []byte("bench")

type boltQueue struct {
	drained
	db      *bbolt.DB
	writers int
}

func openBolt(dir string, p promise, writers int) (queue, error) {
	opts := *bbolt.DefaultOptions
	opts.NoSync = p == processCrash
	opts.NoFreelistSync, opts.FreelistType = true, bbolt.FreelistMapType
	db, err := bbolt.Open(filepath.Join(dir, "bolt"), 0o600, &opts)
	if err != nil {
		return nil, err
	}
	db.MaxBatchSize, db.MaxBatchDelay = writers, 2*time.Millisecond
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(boltBucket)
		return err
	})
	return &boltQueue{db: db, writers: writers}, err
}

func (q *boltQueue) Put(body []byte) error {
	one := [][]byte{body}
	put := func(tx *bbolt.Tx) error { return putBolt(tx, one) }
	if q.writers > 1 {
		return q.db.Batch(put)
	}
	return q.db.Update(put)
}

func (q *boltQueue) PutBatch(bodies [][]byte) error {
	return q.db.Update(func(tx *bbolt.Tx) error { return putBolt(tx, bodies) })
}

func putBolt(tx *bbolt.Tx, bodies [][]byte) error {
	b := tx.Bucket(boltBucket)
	b.FillPercent = 1
	for _, body := range bodies {
		n, err := b.NextSequence()
		if err != nil {
			return err
		}
		if err := b.Put(binary.BigEndian.AppendUint64(nil, n), body); err != nil {
			return err
		}
	}
	return nil
}

func (q *boltQueue) ReadAll(_ int, yield func([]byte) error) error {
	return q.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(boltBucket).Cursor()
		for k, body := c.First(); k != nil; k, body = c.Next() {
			if err := yield(body); err != nil {
				return err
			}
		}
		return nil
	})
}

func (q *boltQueue) Close() error { return q.db.Close() }
