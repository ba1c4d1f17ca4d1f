package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/store"
)

const (
	// maxBatch is the most messages that a batch may be asked to have.
	maxBatch = 10_000
	// batchBytes is where a batch is cut whatever its number of messages: it
	// must fit into one request with everything that is added to a message.
	batchBytes    = 2 << 20
	messageExtras = 200
)

// batch is messages that share a sync.
type batch struct {
	messages []*pocketmq.Message
	bytes    int // of bodies
}

// batcher turns lines into batches.
type batcher struct {
	message pocketmq.Message // all but the body
	size    int              // messages
	pass    func(batch) error
	batch   batch
}

// run reads the inputs to their ends; "-" is stdin.
func (b *batcher) run(names []string, stdin io.Reader) error {
	for _, name := range names {
		if err := b.file(name, stdin); err != nil {
			return err
		}
	}
	return b.flush()
}

func (b *batcher) file(name string, stdin io.Reader) (err error) {
	if name == "-" {
		return b.lines(newLineReader(stdin, "standard input", store.DefaultMaxBodySize), true)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return b.lines(newLineReader(f, name, store.DefaultMaxBodySize), false)
}

// lines reads one input. Where it may make us wait, what was read is sent
// before.
func (b *batcher) lines(r *lineReader, waits bool) error {
	for {
		if waits && !r.ready() {
			if err := b.flush(); err != nil {
				return err
			}
		}
		line, err := r.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := b.add(line); err != nil {
			return err
		}
	}
}

func (b *batcher) add(line []byte) error {
	extras := len(b.message.Topic) + len(b.message.Properties) + messageExtras
	if b.batch.bytes+len(line)+(len(b.batch.messages)+1)*extras > batchBytes {
		if err := b.flush(); err != nil {
			return err
		}
	}
	m := b.message
	m.Body = line
	b.batch.messages = append(b.batch.messages, &m)
	b.batch.bytes += len(line)
	if len(b.batch.messages) < b.size {
		return nil
	}
	return b.flush()
}

// flush passes the batch on.
func (b *batcher) flush() error {
	if len(b.batch.messages) == 0 {
		return nil
	}
	full := b.batch
	b.batch = batch{messages: make([]*pocketmq.Message, 0, b.size)}
	return b.pass(full)
}

// inputSize is the bytes of all inputs together, -1 where that is not known.
func inputSize(names []string) (int64, error) {
	var size int64
	for _, name := range names {
		if name == "-" {
			size = -1
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return 0, err
		}
		if info.IsDir() {
			return 0, fmt.Errorf("%s is a directory", name)
		}
		if !info.Mode().IsRegular() || size < 0 {
			size = -1
			continue
		}
		size += info.Size()
	}
	return size, nil
}
