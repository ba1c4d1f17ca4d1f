package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// limitCommit is no log that one could use, but what no log goes below that syncs before it answers.
var limitCommit = peer{
	name:  "limit (bare group commit)",
	gives: map[promise]string{powerLoss: "always; writers share syncs"},
	batch: "one write and one sync: no promise about a crash amid it",
	notes: "Length, CRC-32 and body are written at the end of one file under a mutex; who finds no sync under way syncs for all who wait " +
		"(fdatasync, on Linux). The file was written with zeros, as large as it will be, and synced before the time begins, so that a sync has " +
		"nothing to say to the file system. There is no queue, no index and no second file: the limit that stands beside the others, not a peer.",
	putsOnly: true,
	open:     openCommit,
}

type commitQueue struct {
	drained
	file *os.File
	room int64

	mu      sync.Mutex
	changed *sync.Cond // synced, syncing or err
	record  []byte     // used again and again
	end     int64
	synced  int64
	syncing bool
	err     error // of the sync that failed; there is none after it
}

func openCommit(dir string, _ promise, _ int) (queue, error) {
	f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	q := &commitQueue{file: f}
	q.changed = sync.NewCond(&q.mu)
	return q, nil
}

// Prepare makes the file, so that its blocks are there and a sync is of data alone.
func (q *commitQueue) Prepare(messages int64, size int) error {
	q.room = messages * int64(size+recordHead)
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < q.room; at += int64(len(zeros)) {
		if _, err := q.file.WriteAt(zeros[:min(int64(len(zeros)), q.room-at)], at); err != nil {
			return err
		}
	}
	return q.file.Sync()
}

func (q *commitQueue) Put(body []byte) error { return q.PutBatch([][]byte{body}) }

func (q *commitQueue) PutBatch(bodies [][]byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, body := range bodies {
		n += recordHead + len(body)
	}
	if len(q.record) < n {
		q.record = make([]byte, n)
	}
	if int64(n) > q.room-q.end {
		return errNoRoom
	}
	at := 0
	for _, body := range bodies {
		putRecord(q.record[at:], body)
		at += recordHead + len(body)
	}
	if _, err := q.file.WriteAt(q.record[:n], q.end); err != nil {
		return err
	}
	q.end += int64(n)
	return q.wait(q.end)
}

// wait returns when the file is synced up to an offset. The caller has the mutex.
func (q *commitQueue) wait(end int64) error {
	for q.synced < end && q.err == nil {
		if q.syncing {
			q.changed.Wait()
			continue
		}
		q.syncing = true
		upTo := q.end
		q.mu.Unlock()
		err := syncData(q.file)
		q.mu.Lock()
		q.syncing = false
		if err != nil {
			q.err = err
		} else {
			q.synced = upTo
		}
		q.changed.Broadcast()
	}
	return q.err
}

func (q *commitQueue) ReadAll(_ int, yield func([]byte) error) error {
	data, err := io.ReadAll(io.NewSectionReader(q.file, 0, 1<<62))
	if err != nil {
		return err
	}
	return readRecords(data, yield)
}

func (q *commitQueue) Close() error {
	return errors.Join(q.err, q.file.Close())
}
