package store

import (
	"slices"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/message"
)

// numbers are those of a queue's messages that recovery has met: all before next
// but for the gaps. A header has no checksum, so a number may be wrong. One that
// is too high must not stand in the way of those that follow.
type numbers struct {
	next message.QueueOffset
	gaps []gap
}

// gap is [from, to).
type gap struct{ from, to message.QueueOffset }

// contradicts reports whether the record's number can not be right: it was met
// before, or it is too high and the queue knows another message by it, or the
// message by the number that is next.
func (n *numbers) contradicts(q *consumequeue.Queue, r *message.DispatchRequest) bool {
	off := r.QueueOffset()
	if n == nil || off == n.next {
		return false
	}
	u, ok := q.At(off)
	here := ok && u.LogOffset == r.LogOffset()
	if off > n.next {
		next, _ := q.At(n.next)
		return ok && !here && !u.IsBlank() && u != (consumequeue.Unit{}) || next.Size > 0 && next.LogOffset == r.LogOffset()
	}
	if slices.ContainsFunc(n.gaps, func(g gap) bool { return g.from <= off && off < g.to }) {
		return false
	}
	if off == 0 && (here || q.Max() == n.next) { // RocketMQ removed the topic, and numbers anew
		*n = numbers{}
		return false
	}
	return true
}

// missing counts the numbers that no message has.
func (n *numbers) missing() (count int64) {
	for _, g := range n.gaps {
		count += int64(g.to - g.from)
	}
	return count
}

func (n *numbers) add(off message.QueueOffset) {
	if off > n.next {
		n.gaps = append(n.gaps, gap{n.next, off})
	}
	n.next = max(n.next, off+1)
	for i, g := range n.gaps {
		if g.from <= off && off < g.to {
			n.gaps[i] = gap{off + 1, g.to}
			n.gaps = append(n.gaps, gap{g.from, off})
			return
		}
	}
}
