package broker

import (
	"context"
	"errors"
	"time"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// Limits of one pull.
const (
	defaultPullMessages = 32
	maxPullMessages     = 4096
	defaultPullBytes    = 256 << 10
	maxPullBytes        = 8 << 20
)

// PullMessage reads from a queue, and waits up to req.Suspend when there is
// nothing for the request. While it waits, it passes over messages that the
// filter refuses, and answers PullRetryImmediately with the offset that it
// reached. When ctx ends it returns its error; when the broker is closed, one
// that matches message.ErrClosed.
func (b *Broker) PullMessage(ctx context.Context, req protocol.PullMessageRequest) (protocol.PullMessageResponse, error) {
	if err := b.mayRead(); err != nil {
		return protocol.PullMessageResponse{Code: protocol.CodeOf(err)}, err
	}
	if err := b.checkConsume(req.Group); err != nil {
		return protocol.PullMessageResponse{Code: protocol.CodeOf(err)}, err
	}
	if err := b.checkReadQueue(req.Topic, req.QueueID); err != nil {
		return protocol.PullMessageResponse{Code: protocol.CodeOf(err)}, err
	}
	q := store.GetQuery{
		Group: req.Group, Topic: req.Topic, QueueID: req.QueueID, Offset: req.Offset,
		MaxCount:  limit(req.MaxMessages, defaultPullMessages, maxPullMessages),
		MaxBytes:  limit(req.MaxBytes, defaultPullBytes, maxPullBytes),
		TagFilter: message.ParseTagFilter(req.TagExpression),
	}
	resp, err := b.read(ctx, &q)
	if err != nil || req.Suspend <= 0 || !waits(&resp) {
		return resp, err
	}
	return b.hold(ctx, q, req.Suspend)
}

// waits reports whether a client that is willing to wait should.
func waits(resp *protocol.PullMessageResponse) bool {
	switch resp.Code {
	case protocol.PullNotFound:
		return true
	case protocol.PullRetryImmediately:
		return resp.Lost == nil
	}
	return false
}

// hold waits for something that answers q.
func (b *Broker) hold(ctx context.Context, q store.GetQuery, suspend time.Duration) (protocol.PullMessageResponse, error) {
	arrived := make(chan struct{}, 1)
	defer b.store.NotifyArrival(q.Topic, arrived)()
	timer := time.NewTimer(suspend)
	defer timer.Stop()

	began := q.Offset
	for {
		resp, err := b.read(ctx, &q)
		if err != nil || !waits(&resp) {
			return resp, err
		}
		if resp.Code == protocol.PullRetryImmediately && resp.NextBeginOffset > q.Offset {
			q.Offset = resp.NextBeginOffset
			continue
		}
		if q.Offset > began {
			resp.Code, resp.NextBeginOffset = protocol.PullRetryImmediately, q.Offset
		}
		if again, err := b.await(ctx, &q, arrived, timer.C); err != nil || !again {
			return resp, err
		}
	}
}

// await returns true when q's queue has grown beyond q.Offset, false when the
// time is over. Arrivals in other queues of the topic cost a look.
func (b *Broker) await(ctx context.Context, q *store.GetQuery, arrived <-chan struct{}, timeout <-chan time.Time) (bool, error) {
	for {
		select {
		case <-arrived:
			if b.store.MaxOffsetInQueue(q.Topic, q.QueueID) > q.Offset {
				return true, nil
			}
		case <-timeout:
			return false, nil
		case <-b.closing:
			return false, b.open()
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// read answers q with what is there now.
func (b *Broker) read(ctx context.Context, q *store.GetQuery) (protocol.PullMessageResponse, error) {
	res, err := b.store.GetMessage(ctx, *q)
	if res == nil {
		if ctx.Err() == nil {
			err = readError(err)
		}
		return protocol.PullMessageResponse{Code: protocol.CodeOf(err)}, err
	}
	if b.topics.deletedBefore(q.Topic) > 0 { // after the read, which can have found no more than is known now
		if refusal, deleted, err := b.passDeleted(q, res); deleted || err != nil {
			res.Release()
			return refusal, err
		}
	}
	resp := protocol.PullMessageResponse{
		Code:            pullCode(res, q.Offset),
		Status:          res.Status.String(),
		NextBeginOffset: res.NextBeginOffset,
		MinOffset:       res.MinOffset,
		MaxOffset:       res.MaxOffset,
		Lost:            lost(res, q.Offset, err),
	}
	if resp.Lost != nil {
		resp.Code = protocol.PullRetryImmediately
	}
	if len(res.Messages) == 0 {
		res.Release()
		return resp, nil
	}
	resp.Messages, resp.Release = res.Messages, res.Release
	return resp, nil
}

// passDeleted tells a client that asks for messages of a topic that was deleted
// where those begin of the topic as it is now. Else it makes the answer's bounds
// those of the topic.
func (b *Broker) passDeleted(q *store.GetQuery, res *store.GetMessageResult) (protocol.PullMessageResponse, bool, error) {
	lowest, highest, err := b.bounds(q.Topic, q.QueueID)
	if err != nil {
		return protocol.PullMessageResponse{Code: protocol.CodeOf(err)}, false, err
	}
	if q.Offset >= lowest {
		res.MinOffset = max(res.MinOffset, lowest)
		return protocol.PullMessageResponse{}, false, nil
	}
	return protocol.PullMessageResponse{
		Code: protocol.PullOffsetMoved, Status: store.GetOffsetTooSmall.String(),
		NextBeginOffset: lowest, MinOffset: lowest, MaxOffset: highest,
	}, true, nil
}

// lost says why a client has to pass over records, nil when it has not.
func lost(res *store.GetMessageResult, offset message.QueueOffset, err error) error {
	switch {
	case res.NextBeginOffset <= offset:
		return nil
	case err != nil:
		return err
	case res.Status == store.GetMessageWasRemoving, res.Status == store.GetOffsetFoundNull:
		return errGone
	}
	return nil
}

// errGone is all that is known about records whose files are gone.
var errGone = errors.New("no longer in the store")

// checkReadQueue wants a queue that consumers may read.
func (b *Broker) checkReadQueue(topic string, queueID int32) error {
	cfg, ok := b.topics.get(topic)
	switch {
	case !ok:
		return topicNotExist(topic)
	case !cfg.Perm.Readable():
		return refuse(protocol.NoPermission, "topic "+topic+" can not be read: "+cfg.Perm.String(), nil)
	case queueID < 0 || queueID >= cfg.ReadQueueNums:
		return refuse(protocol.SystemError, "topic "+topic, queueIDError(queueID, cfg.ReadQueueNums))
	}
	return nil
}

func limit(n, def, highest int) int {
	if n <= 0 {
		return def
	}
	return min(n, highest)
}
