package main

import (
	"errors"
	"sync"

	"github.com/prometheus/prometheus/tsdb/wlog"
	"github.com/prometheus/prometheus/util/compression"
)

var prometheusWAL = peer{
	name:   "Prometheus wlog",
	module: "github.com/prometheus/prometheus",
	gives: map[promise]string{
		processCrash: "`Log`, whose last page is written before it returns",
		powerLoss:    "`Log` and `Sync`; no group commit, so writers take turns",
	},
	batch: "`Log` of 100 records and one `Sync`: no promise about a crash amid it",
	notes: "Defaults (segments of 128 MiB) without compression, as bodies do not compress. " +
		"With `Sync` the segment is changed by `NextSegmentSync`, because the log would sync the one before later. " +
		"A read is `NewReader` over all segments.",
	open: openPrometheus,
}

type prometheusQueue struct {
	drained
	dir  string
	sync bool

	mu  sync.Mutex
	log *wlog.WL
}

func openPrometheus(dir string, p promise, _ int) (queue, error) {
	log, err := wlog.New(nil, nil, dir, compression.None)
	return &prometheusQueue{dir: dir, sync: p == powerLoss, log: log}, err
}

func (q *prometheusQueue) Put(body []byte) error { return q.PutBatch([][]byte{body}) }

func (q *prometheusQueue) PutBatch(bodies [][]byte) error {
	if !q.sync {
		return q.log.Log(bodies...)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.makeRoom(bodies); err != nil {
		return err
	}
	return errors.Join(q.log.Log(bodies...), q.log.Sync())
}

// makeRoom goes on to the next segment if the bodies might not fit into this one.
func (q *prometheusQueue) makeRoom(bodies [][]byte) error {
	const header, page = 7, 32 << 10
	need := page
	for _, body := range bodies {
		need += len(body) + 2*header
	}
	_, at, err := q.log.LastSegmentAndOffset()
	if err == nil && at+need > wlog.DefaultSegmentSize {
		_, err = q.log.NextSegmentSync()
	}
	return err
}

func (q *prometheusQueue) ReadAll(_ int, yield func([]byte) error) error {
	segments, err := wlog.NewSegmentsReader(q.dir)
	if err != nil {
		return err
	}
	r := wlog.NewReader(segments)
	for err == nil && r.Next() {
		err = yield(r.Record())
	}
	return errors.Join(err, r.Err(), segments.Close())
}

func (q *prometheusQueue) Close() error { return q.log.Close() }
