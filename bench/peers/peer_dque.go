package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/joncrlsn/dque"
)

var dqueQueue = peer{
	name:   "dque",
	module: "github.com/joncrlsn/dque",
	gives: map[promise]string{
		processCrash: "`TurboOn`",
		powerLoss:    "the default; each `Enqueue` syncs for itself, there is no group commit",
	},
	removes: true,
	notes: "1,000 items in a segment, as segments are kept in memory as a whole. Items are encoded by encoding/gob, which is its only format. " +
		"A read is `Dequeue`, in turbo mode.",
	open: openDque,
}

type dqueItem struct{ Body []byte }

type dqueAdapter struct {
	drained
	queue *dque.DQue
}

func openDque(dir string, p promise, _ int) (queue, error) {
	q, err := dque.NewOrOpen("bench", dir, 1000, func() any { return &dqueItem{} })
	if err != nil {
		return nil, err
	}
	if p == processCrash {
		err = q.TurboOn()
	}
	return &dqueAdapter{queue: q}, err
}

// Put copies the body, because the queue keeps what it is given in memory.
func (q *dqueAdapter) Put(body []byte) error { return q.queue.Enqueue(&dqueItem{bytes.Clone(body)}) }

func (q *dqueAdapter) PutBatch([][]byte) error { return errNoBatch }

func (q *dqueAdapter) ReadAll(_ int, yield func([]byte) error) error {
	if !q.queue.Turbo() {
		if err := q.queue.TurboOn(); err != nil {
			return err
		}
	}
	for {
		item, err := q.queue.Dequeue()
		if errors.Is(err, dque.ErrEmpty) {
			return nil
		}
		if err != nil {
			return err
		}
		m, ok := item.(*dqueItem)
		if !ok {
			return fmt.Errorf("item of type %T", item)
		}
		if err := yield(m.Body); err != nil {
			return err
		}
	}
}

func (q *dqueAdapter) Close() error { return q.queue.Close() }
