package store

import (
	"context"
	"iter"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/message"
)

// Messages goes through a queue from query.Offset to what is its end when the
// loop begins, and yields the messages that the filters of query let through, in
// order. It does not wait for more: see NotifyArrival. Every loop over what it
// returns begins anew.
//
// A View, and everything taken from it without a copy, is valid until the loop's
// next round only; View.Message copies. MaxCount and MaxBytes say how much is
// held at a time; 0 means the Config's maximum.
//
// Messages before the queue's minimum are gone, and so may be others that are
// removed while the loop runs: the loop goes on with the first that is left. An
// offset at or behind the end, and an unknown queue, yield nothing. The first
// error ends the loop and comes with an empty View; errors are those of
// GetMessage, which says at the offset where the loop ended how to go on.
func (s *DefaultMessageStore) Messages(ctx context.Context, query GetQuery) iter.Seq2[message.View, error] {
	return func(yield func(message.View, error) bool) {
		q, end := query, message.QueueOffset(0)
		if queue := consumequeue.Find(s.queues, q.Topic, q.QueueID); queue != nil {
			end = queue.Max()
		}
		if q.MaxCount <= 0 {
			q.MaxCount = s.cfg.MaxTransferCount
		}
		for more := true; more; {
			r, err := s.GetMessage(ctx, q)
			if err == nil {
				q.Offset = r.NextBeginOffset
				more = q.Offset < end && r.Status != GetOffsetOverflowOne && r.Status != GetNoMessageInQueue
			}
			if !each(r, end, yield) {
				return
			}
			if err != nil {
				yield(message.View{}, err)
				return
			}
		}
	}
}

// each yields the messages of r before end and releases r. It returns false when
// the loop is over.
func each(r *GetMessageResult, end message.QueueOffset, yield func(message.View, error) bool) bool {
	if r == nil {
		return true
	}
	defer r.Release()
	for _, v := range r.Messages {
		if v.QueueOffset() >= end {
			return false
		}
		if !yield(v, nil) {
			return false
		}
	}
	return true
}
