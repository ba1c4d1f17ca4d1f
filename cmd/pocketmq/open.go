package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/store"
)

// defaultTopic is the topic of send and tail.
const defaultTopic = "lines"

// withNode opens the store, says if that was more than opening, and closes it
// after use.
func (c *cli) withNode(ctx context.Context, dir string, flush store.FlushMode, use func(*pocketmq.Node) error) error {
	bar := newOpening(c.stderr)
	node, err := pocketmq.OpenConfig(ctx, pocketmq.Config{Dir: dir, Store: store.Config{Flush: flush, Progress: bar.set}})
	bar.bar.end()
	if err != nil {
		return err
	}
	if found := recovered(node.Store().Recovery()); found != "" {
		fmt.Fprintf(c.stderr, "pocketmq: recovery of %s: %s\n", dir, found)
	}
	err = use(node)
	if closeErr := node.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("close %s: %w", dir, closeErr))
	}
	return err
}

// withExisting is withNode for a directory in which there must be a store.
func (c *cli) withExisting(ctx context.Context, dir string, use func(*pocketmq.Node) error) error {
	if err := inspect.Check(dir); err != nil {
		return err
	}
	return c.withNode(ctx, dir, store.FlushSync, use)
}

// recoverStore repairs what a crash left behind, unless a process is at work
// in the directory: then there is nothing to repair.
func (c *cli) recoverStore(ctx context.Context, dir string) error {
	err := c.withExisting(ctx, dir, func(*pocketmq.Node) error { return nil })
	if errors.Is(err, pocketmq.ErrLocked) || errors.Is(err, store.ErrReadOnly) {
		return nil
	}
	return err
}

// recovered says what there was to repair or to pass over, "" for nothing.
func recovered(r store.Recovery) string {
	var found []string
	if r.CutBytes > 0 {
		cut := fmt.Sprintf("cut %d bytes behind the last whole message", r.CutBytes)
		if r.CutReason != nil {
			cut += fmt.Sprintf(" (%v)", r.CutReason)
		}
		found = append(found, cut)
	}
	if n := len(r.RemovedFiles); n > 0 {
		found = append(found, fmt.Sprintf("removed %d files behind the end of the log", n))
	}
	if n := len(r.Damaged); n > 0 {
		found = append(found, fmt.Sprintf("%d damaged places in the log are passed over, the first at offset %d", n, r.Damaged[0].From))
	}
	if n := len(r.QueuesReset); n > 0 {
		found = append(found, fmt.Sprintf("%d damaged consume queues built again from the log", n))
	}
	return strings.Join(found, "; ")
}
