package inspect

import (
	"math"

	"github.com/pocketmq/pocketmq/message"
)

// queueKey names a queue.
type queueKey struct {
	topic string
	id    int32
}

// possible reports whether a queue can have that name.
func (k queueKey) possible() bool { return k.id >= 0 && message.CheckStoredTopic(k.topic) == nil }

// numbering is what the log has of one queue.
type numbering struct {
	key     queueKey
	queue   *queue // nil when there are no files
	next    int64  // number of the next message
	damages int    // damaged ranges that were met before the last message
	begun   bool   // there was a message

	// seen are the numbers of messages that were met and have the unit that they
	// should have, ascending.
	seen []numbers

	// Messages in a row that have no unit.
	missing     int64 // how many
	missingFrom int64
	missingPos  int64 // log offset of the first
	reported    bool  // there were such messages
}

// numbers is [from, to).
type numbers struct{ from, to int64 }

// see remembers a number. One that is lower than those before is not kept: its
// unit is looked at again.
func (n *numbering) see(off int64) {
	last := len(n.seen) - 1
	switch {
	case last >= 0 && n.seen[last].to == off:
		n.seen[last].to++
	case last < 0 || n.seen[last].to < off:
		n.seen = append(n.seen, numbers{off, off + 1})
	}
}

// unseen yields the numbers in [from, to) that were not seen, as ranges.
func (n *numbering) unseen(from, to int64, yield func(from, to int64) error) error {
	for _, s := range append(n.seen, numbers{math.MaxInt64, math.MaxInt64}) {
		if end := min(s.from, to); from < end {
			if err := yield(from, end); err != nil {
				return err
			}
		}
		if from = max(from, s.to); from >= to {
			return nil
		}
	}
	return nil
}
