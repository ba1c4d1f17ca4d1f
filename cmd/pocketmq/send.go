package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// sendFlags are the flags of send.
type sendFlags struct {
	topic, tag, key string
	queue           int32
	batch           int
	async           bool
}

func (c *cli) send() *cobra.Command {
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send DIR [FILE...]",
		Short: "Send lines of text as messages",
		Long: "send makes each line a message; the body is the line with what ends it. It reads the files,\n" +
			"or standard input when there is none or where a file is -.\n\n" +
			"A topic that does not exist is made with one queue. Messages of one queue keep their order. A batch\n" +
			"goes to one queue and is on disk, with one sync, before the next one is sent; it also ends at 2 MiB,\n" +
			"and where standard input makes us wait.",
		Example: "  pocketmq send /var/lib/queue access.log",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.runSend(cmd.Context(), args[0], args[1:], f)
		},
	}
	cmd.Flags().StringVarP(&f.topic, "topic", "t", defaultTopic, "topic of the messages")
	cmd.Flags().StringVar(&f.tag, "tag", "", "tag of every message")
	cmd.Flags().StringVar(&f.key, "key", "", "index keys of every message, separated by spaces")
	cmd.Flags().Int32VarP(&f.queue, "queue", "q", -1, "queue to send to; all in turn, by batch, when negative")
	cmd.Flags().IntVar(&f.batch, "batch", 1000, "messages that share one sync, 1 to 10000")
	cmd.Flags().BoolVar(&f.async, "async", false, "do not wait for syncs: a crash of the system may take the last half second")
	return cmd
}

func (c *cli) runSend(ctx context.Context, dir string, files []string, f sendFlags) error {
	template, err := f.message()
	if err != nil {
		return err
	}
	if len(files) == 0 {
		files = []string{"-"}
	}
	size, err := inputSize(files)
	if err != nil {
		return err
	}
	flush := store.FlushSync
	if f.async {
		flush = store.FlushAsync
	}
	return c.withNode(ctx, dir, flush, func(node *pocketmq.Node) error {
		send, err := newSender(ctx, node, f.topic, f.queue)
		if err != nil {
			return err
		}
		began := time.Now()
		reading, stop := context.WithCancel(ctx)
		defer stop()
		batches, failed := make(chan batch, 1), make(chan error, 1)
		go func() { // ends after a read: nothing interrupts one from a terminal
			defer close(batches)
			b := batcher{message: template, size: f.batch, pass: func(b batch) error {
				select {
				case batches <- b:
					return nil
				case <-reading.Done():
					return reading.Err()
				}
			}}
			failed <- b.run(files, c.stdin)
		}()
		messages, bytes, err := c.sendAll(ctx, send, batches, size)
		if err == nil {
			err = <-failed
		}
		seconds := time.Since(began).Seconds()
		fmt.Fprintf(c.stderr, "%d messages acknowledged (%v), %d bytes in %.1f s: %.0f messages/s, %.1f MB/s\n",
			messages, flush, bytes, seconds, float64(messages)/seconds, float64(bytes)/1e6/seconds)
		return err
	})
}

// message is what all messages have in common. It refuses what no message can
// have.
func (f sendFlags) message() (pocketmq.Message, error) {
	m := pocketmq.Message{Topic: f.topic}
	if f.batch < 1 || f.batch > maxBatch {
		return m, fmt.Errorf("--batch %d is not within 1 and %d", f.batch, maxBatch)
	}
	if err := errors.Join(protocol.CheckTopic(f.topic), protocol.CheckSendTopic(f.topic)); err != nil {
		return m, err
	}
	for _, p := range [][2]string{{message.PropertyTags, f.tag}, {message.PropertyKeys, f.key}} {
		if p[1] == "" {
			continue
		}
		var err error
		if m.Properties, err = m.Properties.With(p[0], p[1]); err != nil {
			return m, err
		}
	}
	return m, nil
}

// sendAll sends batches until there are no more, and returns what was
// acknowledged.
func (c *cli) sendAll(ctx context.Context, send sender, batches <-chan batch, size int64) (messages int, bytes int64, err error) {
	bar := newProgress(c.stderr, "sending", size)
	if bar != nil {
		defer func() { _ = bar.Finish() }() // wipes the bar away
	}
	for {
		var b batch
		var more bool
		select {
		case b, more = <-batches:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return messages, bytes, ctx.Err()
		}
		if !more {
			return messages, bytes, nil
		}
		n, err := send(ctx, b.messages)
		messages += n
		for _, m := range b.messages[:n] {
			bytes += int64(len(m.Body))
		}
		if err != nil {
			return messages, bytes, err
		}
		if bar != nil {
			_ = bar.Add(b.bytes) // a bar that can not be drawn stops nothing
		}
	}
}
