package pocketmq

import (
	"context"
	"iter"

	"github.com/pocketmq/pocketmq/protocol"
)

// Timers goes through the messages that wait: those with a time of delivery in the
// order of their times, and then those of each delay level. They are read page by
// page: what changes while the loop runs may be missed. The first error ends the
// loop.
func (n *Node) Timers(ctx context.Context) iter.Seq2[protocol.TimerInfo, error] {
	return func(yield func(protocol.TimerInfo, error) bool) {
		page := protocol.ListTimersResponse{More: true}
		for page.More {
			var err error
			if page, err = n.Broker().ListTimers(ctx, protocol.ListTimersRequest{From: page.Next}); err != nil {
				yield(protocol.TimerInfo{}, err)
				return
			}
			for _, t := range page.Timers {
				if !yield(t, nil) {
					return
				}
			}
		}
	}
}
