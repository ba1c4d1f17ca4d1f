package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/store"
)

// defaultTopic is the topic of send and tail.
const defaultTopic = "lines"

// withNode opens the store and closes it after use.
func withNode(ctx context.Context, dir string, flush store.FlushMode, use func(*pocketmq.Node) error) error {
	node, err := pocketmq.OpenConfig(ctx, pocketmq.Config{Dir: dir, Store: store.Config{Flush: flush}})
	if err != nil {
		return err
	}
	err = use(node)
	if closeErr := node.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("close %s: %w", dir, closeErr))
	}
	return err
}

// withExisting is withNode for a directory in which there must be a store.
func withExisting(ctx context.Context, dir string, use func(*pocketmq.Node) error) error {
	if err := inspect.Check(dir); err != nil {
		return err
	}
	return withNode(ctx, dir, store.FlushSync, use)
}

// recoverStore repairs what a crash left behind, unless a process is at work
// in the directory: then there is nothing to repair.
func recoverStore(ctx context.Context, dir string) error {
	err := withExisting(ctx, dir, func(*pocketmq.Node) error { return nil })
	if errors.Is(err, pocketmq.ErrLocked) || errors.Is(err, store.ErrReadOnly) {
		return nil
	}
	return err
}
