package main

import (
	"context"
	"errors"
	"math"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/protocol"
)

// groupBatch is how many messages are printed between two commits.
const groupBatch = 1000

// tailGroup reads for a group, and commits what was printed.
func tailGroup(ctx context.Context, node *pocketmq.Node, f tailFlags, out *output) error {
	waiting, err := unread(ctx, node, f)
	if err != nil {
		return err
	}
	consumer, err := node.Consumer(ctx, f.group, f.topic)
	if err != nil {
		return err
	}
	for waiting > 0 && out.left > 0 {
		ms, err := consumer.ReceiveBatch(ctx, int(min(groupBatch, out.left, waiting)))
		var skipped *mq.SkippedError
		if errors.As(err, &skipped) {
			n := int64(skipped.To - skipped.From)
			out.skip(n, skipped)
			waiting -= n
			continue
		}
		if err != nil {
			return err
		}
		for _, m := range ms {
			if err := out.message(m); err != nil {
				return err
			}
		}
		waiting -= int64(len(ms))
		if err := out.w.Flush(); err != nil {
			return err
		}
		if err := consumer.Commit(ctx); err != nil {
			return err
		}
	}
	return consumer.CommitSync(ctx)
}

// unread counts the messages that wait for the group; no end of them when
// following.
func unread(ctx context.Context, node *pocketmq.Node, f tailFlags) (int64, error) {
	b := node.Broker()
	topic, err := b.GetTopic(ctx, f.topic)
	if err != nil {
		return 0, err
	}
	if f.follow {
		return math.MaxInt64, nil
	}
	var n int64
	for id := range topic.ReadQueueNums {
		from, err := b.QueryConsumerOffset(ctx, protocol.QueryConsumerOffsetRequest{Group: f.group, Topic: f.topic, QueueID: id})
		if errors.Is(err, protocol.QueryNotFound) {
			from, err = b.GetMinOffset(ctx, f.topic, id)
		}
		if err != nil {
			return 0, err
		}
		to, err := b.GetMaxOffset(ctx, f.topic, id)
		if err != nil {
			return 0, err
		}
		n += int64(to - from)
	}
	return n, nil
}
