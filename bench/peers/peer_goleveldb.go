package main

import (
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

var levelDB = peer{
	name:   "goleveldb",
	module: "github.com/syndtr/goleveldb",
	gives: map[promise]string{
		processCrash: "`Sync: false`, the default: the journal is written before a put returns",
		powerLoss:    "`WriteOptions.Sync`; writers share syncs",
	},
	batch:  "`Write` of a `Batch`: atomic",
	atomic: true,
	notes:  "Defaults. Keys are a counter. A read is an iterator.",
	open:   openLevelDB,
}

type levelQueue struct {
	drained
	db    *leveldb.DB
	write *opt.WriteOptions
	next  atomic.Uint64
}

func openLevelDB(dir string, p promise, _ int) (queue, error) {
	db, err := leveldb.OpenFile(dir, nil)
	if err != nil {
		return nil, err
	}
	q := &levelQueue{db: db, write: &opt.WriteOptions{Sync: p == powerLoss}}
	it := db.NewIterator(nil, nil)
	defer it.Release()
	if it.Last() {
		q.next.Store(binary.BigEndian.Uint64(it.Key()))
	}
	return q, it.Error()
}

func (q *levelQueue) key() []byte { return binary.BigEndian.AppendUint64(nil, q.next.Add(1)) }

func (q *levelQueue) Put(body []byte) error { return q.db.Put(q.key(), body, q.write) }

func (q *levelQueue) PutBatch(bodies [][]byte) error {
	b := leveldb.MakeBatch(len(bodies) * (len(bodies[0]) + 32))
	for _, body := range bodies {
		b.Put(q.key(), body)
	}
	return q.db.Write(b, q.write)
}

func (q *levelQueue) ReadAll(_ int, yield func([]byte) error) error {
	it := q.db.NewIterator(nil, nil)
	defer it.Release()
	var err error
	for err == nil && it.Next() {
		err = yield(it.Value())
	}
	return errors.Join(err, it.Error())
}

func (q *levelQueue) Close() error { return q.db.Close() }
