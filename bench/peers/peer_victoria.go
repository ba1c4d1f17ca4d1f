package main

import (
	"errors"
	"flag"
	"path/filepath"
	"sync/atomic"

	"github.com/VictoriaMetrics/VictoriaMetrics/lib/persistentqueue"
)

var victoriaQueue = peer{
	name:   "VictoriaMetrics",
	module: "github.com/VictoriaMetrics/VictoriaMetrics",
	gives: map[promise]string{
		memoryOnly: "always: blocks are held in memory, or written through a buffer that is flushed once a second",
	},
	removes: true,
	notes: "Its `lib/persistentqueue`, as a `FastQueue`. " +
		"100 blocks in memory, as there is no reader that takes them at once. A read is `MustReadBlock`.",
	open: openVictoria,
}

type victoriaAdapter struct {
	drained
	queue   *persistentqueue.FastQueue
	pending atomic.Int64
}

// openVictoria counts on a new directory: what a queue from before has is not counted.
func openVictoria(dir string, _ promise, _ int) (queue, error) {
	// The library takes its settings from global flags, and insists that they were parsed.
	if err := flag.CommandLine.Parse([]string{"-loggerLevel=ERROR"}); err != nil {
		return nil, err
	}
	return &victoriaAdapter{queue: persistentqueue.MustOpenFastQueue(filepath.Join(dir, "queue"), "bench", 100, 0, false)}, nil
}

func (q *victoriaAdapter) Put(body []byte) error {
	if !q.queue.TryWriteBlock(body) {
		return errors.New("no room")
	}
	q.pending.Add(1)
	return nil
}

func (q *victoriaAdapter) PutBatch([][]byte) error { return errNoBatch }

// ReadAll counts, because the queue waits when it is empty.
func (q *victoriaAdapter) ReadAll(_ int, yield func([]byte) error) error {
	var block []byte
	for q.pending.Load() > 0 {
		var ok bool
		if block, ok = q.queue.MustReadBlock(block[:0]); !ok {
			return errors.New("the queue is closed")
		}
		q.pending.Add(-1)
		if err := yield(block); err != nil {
			return err
		}
	}
	return nil
}

func (q *victoriaAdapter) Close() error {
	q.queue.UnblockAllReaders()
	q.queue.MustClose()
	return nil
}
