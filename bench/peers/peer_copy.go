package main

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/edsrzf/mmap-go"
)

// limitCopy is no log that one could use, but what no log of mapped files goes below.
var limitCopy = peer{
	name: "limit (CRC and copy)",
	gives: map[promise]string{
		processCrash: "always: the bytes are in mapped pages",
		memoryOnly:   "as above",
	},
	notes: "CRC-32 of the body, and a copy of length, checksum and body into one mapped file under a mutex. The file is as large as it " +
		"will be, and each page of it is there and writable, before the time begins. " +
		"There is no queue, no index and no second file: the limit that stands beside the others, not a peer.",
	putsOnly: true,
	open:     openCopy,
}

type copyQueue struct {
	drained
	file *os.File

	mu     sync.Mutex
	mapped mmap.MMap
	end    int
}

func openCopy(dir string, _ promise, _ int) (queue, error) {
	f, err := os.OpenFile(filepath.Join(dir, "log"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	q := &copyQueue{file: f}
	info, err := f.Stat()
	if err == nil && info.Size() > 0 {
		q.mapped, err = mmap.Map(f, mmap.RDWR, 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return q, nil
}

// Prepare makes the file, and touches each page.
func (q *copyQueue) Prepare(messages int64, size int) (err error) {
	if err := q.file.Truncate(messages * int64(size+recordHead)); err != nil {
		return err
	}
	if q.mapped, err = mmap.Map(q.file, mmap.RDWR, 0); err != nil {
		return err
	}
	for i := 0; i < len(q.mapped); i += os.Getpagesize() {
		q.mapped[i] = 0
	}
	return nil
}

func (q *copyQueue) Put(body []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := recordHead + len(body)
	if n > len(q.mapped)-q.end {
		return errNoRoom
	}
	putRecord(q.mapped[q.end:], body)
	q.end += n
	return nil
}

// errNoRoom says that more was put than Prepare was told.
var errNoRoom = errors.New("the prepared file is full")

func (q *copyQueue) PutBatch([][]byte) error { return errNoBatch }

func (q *copyQueue) ReadAll(_ int, yield func([]byte) error) error {
	return readRecords(q.mapped, yield)
}

func (q *copyQueue) Close() error {
	var err error
	if q.mapped != nil {
		err = q.mapped.Unmap()
	}
	return errors.Join(err, q.file.Close())
}
