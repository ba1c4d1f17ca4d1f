package main

import (
	"errors"
	"fmt"
)

// promise says what a message has survived when its put returns.
type promise string

const (
	// processCrash: the bytes are the kernel's. A kill of the process loses nothing.
	processCrash promise = "process crash"
	// memoryOnly: the bytes may still be in a buffer of the process, and a kill of it
	// loses them. That is less than PocketMQ promises in any mode.
	memoryOnly promise = "memory only until flushed"
	// powerLoss: the bytes were synced.
	powerLoss promise = "power loss"
)

// A read has no promise; what it leaves behind is what sets one apart from another.
const (
	staysThere promise = "messages stay"
	isRemoved  promise = "messages are removed"
)

// peer is one of those that are measured.
type peer struct {
	name     string
	module   string             // whose version the report names; "" if it is of no module
	gives    map[promise]string // its promises, and the setting that makes each
	batch    string             // what its batch is; "" if it has none
	atomic   bool               // a kill leaves all of a batch or nothing
	removes  bool               // a read takes the messages away
	putsOnly bool               // reads of it are not measured
	notes    string             // its other settings, and why
	open     func(dir string, p promise, writers int) (queue, error)

	// A peer in Java has, instead of open, a class that java/ builds.
	java string
}

// queue is an open peer. Put and PutBatch may be called concurrently.
type queue interface {
	// Put stores a body with the promise that the queue was opened for. The
	// body is the caller's again on return.
	Put(body []byte) error
	// PutBatch stores the bodies as one batch, with the same promise.
	PutBatch(bodies [][]byte) error
	// Drain returns when all that was put can be read.
	Drain() error
	// ReadAll calls yield for each message there is, oldest first, and gets them
	// from the peer so many at a time where the peer can do that. A body is valid
	// during the call. It ends with yield's first error.
	ReadAll(batch int, yield func(body []byte) error) error
	Close() error
}

// preparer is a queue that is told, before the time begins, how much will be put.
type preparer interface {
	Prepare(messages int64, size int) error
}

// openQueue opens a peer for so many messages.
func openQueue(p peer, dir string, pr promise, w workload, messages int64) (queue, error) {
	q, err := p.open(dir, pr, w.writers)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	if prepare, ok := q.(preparer); ok {
		if err := prepare.Prepare(messages, w.size); err != nil {
			return nil, errors.Join(fmt.Errorf("prepare: %w", err), q.Close())
		}
	}
	return q, nil
}

// peers in the order of reports; the first is the one that others are compared with.
var peers = []peer{
	pocketmqStore, pocketmqProducer, rocketMQ, chronicleQueue,
	tidwallWAL, raftWAL, etcdWAL, prometheusWAL,
	boltDB, pebbleDB, badgerDB, levelDB,
	dqueQueue, goqiteQueue, victoriaQueue, natsJetStream, natsAsync,
	limitCopy, limitCommit,
}

func peerNamed(name string) (peer, bool) {
	for _, p := range peers {
		if p.name == name {
			return p, true
		}
	}
	return peer{}, false
}

// weakest is the promise that costs the peer least.
func (p peer) weakest() promise {
	for _, w := range []promise{memoryOnly, processCrash} {
		if _, ok := p.gives[w]; ok {
			return w
		}
	}
	return powerLoss
}

// leftOfBatch says what a kill amid a batch may leave of it.
func (p peer) leftOfBatch() string {
	if p.atomic {
		return "all or nothing"
	}
	return "perhaps a part"
}

// drained is for those whose messages can be read when Put returns.
type drained struct{}

func (drained) Drain() error { return nil }

// errNoBatch answers PutBatch of a peer that has none.
var errNoBatch = errors.New("the peer has no batch")
