// Command quickstart sends text, line by line, as messages, closes the store,
// opens it again, consumes everything, and compares what came back with what
// was sent: how many, in which order, and every byte.
//
//	go run ./examples/quickstart                # the sources of Go's standard library
//	go run ./examples/quickstart FILE or DIR…   # files, and *.go below directories
//
// A send that returns without an error is on disk: that is the default.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

const (
	topic     = "lines"
	queues    = 4
	batchSize = 1000 // messages that share one sync, at most
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "quickstart:", err)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("dir", "", "directory of the store (default a temporary one, which is kept)")
	remove := flags.Bool("rm", false, "remove the directory at the end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	files, err := findFiles(ctx, flags.Args())
	if err != nil {
		return err
	}
	if *dir == "" {
		if *dir, err = os.MkdirTemp("", "pocketmq-quickstart-"); err != nil {
			return err
		}
	}
	if *remove {
		if entries, err := os.ReadDir(*dir); len(entries) > 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
			return errors.Join(fmt.Errorf("%s is not empty: -rm would remove more than this run makes", *dir), err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(*dir)) }()
	}
	progress := newProgress(stderr, totalSize(files))

	began := time.Now()
	sent, err := sendAll(ctx, *dir, files, progress)
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	fmt.Fprintf(stdout, "sent      %s, under %v: each batch of up to %d on disk before the next one\n",
		sent.rate(time.Since(began)), store.FlushSync, batchSize)

	began = time.Now()
	received, err := consumeAll(ctx, *dir, sent.count(), progress)
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	fmt.Fprintf(stdout, "consumed  %s, after closing the store and opening it again\n", received.rate(time.Since(began)))

	if err := compare(sent, received); err != nil {
		return err
	}
	for q := range sent {
		fmt.Fprintf(stdout, "queue %d   %s\n", q, sent[q].verdict())
	}
	if !*remove {
		fmt.Fprintf(stdout, "the store is in %s\n", *dir)
	}
	return nil
}

// sendAll sends every line of the files and closes the store.
func sendAll(ctx context.Context, dir string, files []sourceFile, progress *progress) (sums *digests, err error) {
	sums = new(digests)
	node, err := pocketmq.Open(ctx, dir)
	if err != nil {
		return sums, err
	}
	defer func() { err = errors.Join(err, node.Close()) }()

	if err := node.CreateTopic(ctx, pocketmq.TopicConfig{Name: topic, ReadQueueNums: queues, WriteQueueNums: queues}); err != nil {
		return sums, err
	}
	for q := range queues {
		if node.Store().MaxOffsetInQueue(topic, int32(q)) > 0 {
			return sums, fmt.Errorf("%s has messages of an earlier run", dir)
		}
	}
	producer, err := node.Producer("quickstart-producer")
	if err != nil {
		return sums, err
	}

	// A batch goes to one queue, the next one to the next queue, and so on. The
	// first batches are small, so that a small input reaches all queues too.
	limit := 1
	batch := make([]*pocketmq.Message, 0, batchSize)
	send := func() error {
		if len(batch) == 0 {
			return nil
		}
		results, err := producer.SendBatch(ctx, batch)
		if err != nil {
			return err // the messages of results, if any, are stored all the same
		}
		for i, m := range batch {
			sums[results[i].Queue.QueueID].add(m)
			progress.add(len(m.Body))
		}
		batch = batch[:0]
		limit = sums.nextBatch()
		return nil
	}
	progress.start("sending")
	defer progress.end()
	for _, f := range files {
		text, err := os.ReadFile(f.path)
		if err != nil {
			return sums, err
		}
		properties, err := message.NewProperties(message.PropertyTags, f.tag)
		if err != nil {
			return sums, fmt.Errorf("%s: %w", f.path, err)
		}
		for line := range bytes.Lines(text) { // each with what ends it
			batch = append(batch, &pocketmq.Message{Topic: topic, Body: line, Properties: properties})
			if len(batch) < limit {
				continue
			}
			if err := send(); err != nil {
				return sums, err
			}
		}
	}
	return sums, send()
}

// consumeAll opens the store again and reads count messages from all queues.
func consumeAll(ctx context.Context, dir string, count int64, progress *progress) (sums *digests, err error) {
	sums = new(digests)
	node, err := pocketmq.Open(ctx, dir)
	if err != nil {
		return sums, err
	}
	defer func() { err = errors.Join(err, node.Close()) }()

	var stored int64
	for q := range queues {
		stored += int64(node.Store().MaxOffsetInQueue(topic, int32(q)))
	}
	if stored != count {
		return sums, fmt.Errorf("%d messages were sent, the store has %d", count, stored)
	}
	consumer, err := node.Consumer(ctx, "quickstart-consumer", topic)
	if err != nil {
		return sums, err
	}
	progress.start("consuming")
	defer progress.end()
	for count > 0 {
		batch, err := consumer.ReceiveBatch(ctx, batchSize)
		if err != nil {
			return sums, err
		}
		for _, m := range batch {
			sums[m.QueueID].add(&m.Message)
			progress.add(len(m.Body))
		}
		count -= int64(len(batch))
	}
	return sums, consumer.CommitSync(ctx) // the next consumer of the group goes on here
}
