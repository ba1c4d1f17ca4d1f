package main

import (
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

var pebbleDB = peer{
	name:   "Pebble",
	module: "github.com/cockroachdb/pebble/v2",
	gives: map[promise]string{
		memoryOnly: "`NoSync`: its documentation says that a crash of the process may lose recent writes",
		powerLoss:  "`Sync`; writers share syncs",
	},
	batch:  "`Batch.Commit`: atomic",
	atomic: true,
	notes: "Memory tables, compaction and block sizes as in its own benchmark (`cmd/pebble`): `MemTableSize` 64 MiB, " +
		"`MemTableStopWritesThreshold` 4, `L0CompactionThreshold` 2, `L0StopWritesThreshold` 1000, `LBaseMaxBytes` 64 MiB, " +
		"up to 3 compactions, blocks of 32 KiB. Keys are a counter. A read is an iterator.",
	open: openPebble,
}

type pebbleQueue struct {
	drained
	db   *pebble.DB
	sync *pebble.WriteOptions
	next atomic.Uint64
}

func openPebble(dir string, p promise, _ int) (queue, error) {
	opts := &pebble.Options{
		FormatMajorVersion:          pebble.FormatNewest,
		L0CompactionThreshold:       2,
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               64 << 20,
		MemTableSize:                64 << 20,
		MemTableStopWritesThreshold: 4,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 3 },
		Logger:                      silent{},
	}
	for i := range opts.Levels {
		opts.Levels[i].BlockSize, opts.Levels[i].IndexBlockSize = 32<<10, 256<<10
	}
	db, err := pebble.Open(dir, opts)
	if err != nil {
		return nil, err
	}
	q := &pebbleQueue{db: db, sync: pebble.NoSync}
	if p == powerLoss {
		q.sync = pebble.Sync
	}
	return q, q.findEnd()
}

func (q *pebbleQueue) findEnd() error {
	it, err := q.db.NewIter(nil)
	if err != nil {
		return err
	}
	if it.Last() {
		q.next.Store(binary.BigEndian.Uint64(it.Key()))
	}
	return it.Close()
}

func (q *pebbleQueue) key(dst []byte) []byte {
	return binary.BigEndian.AppendUint64(dst, q.next.Add(1))
}

func (q *pebbleQueue) Put(body []byte) error {
	var key [8]byte
	return q.db.Set(q.key(key[:0]), body, q.sync)
}

func (q *pebbleQueue) PutBatch(bodies [][]byte) error {
	b := q.db.NewBatch()
	var key [8]byte
	for _, body := range bodies {
		if err := b.Set(q.key(key[:0]), body, nil); err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return errors.Join(b.Commit(q.sync), b.Close())
}

func (q *pebbleQueue) ReadAll(_ int, yield func([]byte) error) error {
	it, err := q.db.NewIter(nil)
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var body []byte
		if body, err = it.ValueAndErr(); err == nil {
			err = yield(body)
		}
	}
	return errors.Join(err, it.Close())
}

func (q *pebbleQueue) Close() error { return q.db.Close() }

// silent is a logger of nothing but what is fatal.
type silent struct{}

func (silent) Infof(string, ...any)         {}
func (silent) Errorf(string, ...any)        {}
func (silent) Fatalf(f string, args ...any) { pebble.DefaultLogger.Fatalf(f, args...) }
