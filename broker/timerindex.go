package broker

import (
	"cmp"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/pocketmq/pocketmq/message"
)

// timer is a message that waits in the timer topic.
type timer struct {
	offset message.QueueOffset // of its record
	due    int64               // ms since the Unix epoch
	key    uint64              // keyOf its id
}

// keyOf is the hash by which a timer is found. Who has found one looks into its
// record, so that two ids with one hash do no harm.
func keyOf(id string) uint64 { return xxhash.Sum64String(id) }

// timerIndex is what waits, in three orders. A timer takes 56 to about 75 bytes.
type timerIndex struct {
	byOffset sorted[timer]
	byDue    sorted[dueTimer] // without those that were claimed
	byKey    sorted[keyTimer]
	hidden   map[message.QueueOffset]timer // not in byDue, but to be listed: claimed, or see replaced
}

type dueTimer struct {
	due    int64
	offset message.QueueOffset
}

type keyTimer struct {
	key    uint64
	offset message.QueueOffset
}

func newTimerIndex() timerIndex {
	return timerIndex{
		byOffset: sorted[timer]{compare: func(a, b timer) int { return cmp.Compare(a.offset, b.offset) }},
		byDue: sorted[dueTimer]{compare: func(a, b dueTimer) int {
			return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.offset, b.offset))
		}},
		byKey: sorted[keyTimer]{compare: func(a, b keyTimer) int {
			return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.offset, b.offset))
		}},
		hidden: map[message.QueueOffset]timer{},
	}
}

func (x *timerIndex) len() int { return x.byOffset.n }

// add adds a timer; one that is there stays.
func (x *timerIndex) add(t timer) {
	if x.byOffset.add(t) {
		x.byDue.add(dueTimer{t.due, t.offset})
		x.byKey.add(keyTimer{t.key, t.offset})
	}
}

// end removes the timer at an offset, and reports whether it was there.
func (x *timerIndex) end(offset message.QueueOffset) bool {
	delete(x.hidden, offset)
	t, ok := x.byOffset.remove(timer{offset: offset})
	if ok {
		x.byDue.remove(dueTimer{t.due, t.offset})
		x.byKey.remove(keyTimer{t.key, t.offset})
	}
	return ok
}

// claim takes a timer for who wants to end it: until unclaim, nobody else gets it.
func (x *timerIndex) claim(t timer) bool {
	_, ok := x.byDue.remove(dueTimer{t.due, t.offset})
	if ok {
		x.hidden[t.offset] = t
	}
	return ok
}

// replaced is end for a timer in whose stead another record waits. It is listed until
// that was read, and end is called again.
func (x *timerIndex) replaced(t timer) bool {
	ok := x.end(t.offset)
	if ok { // else the other one was read already
		x.hidden[t.offset] = t
	}
	return ok
}

// listFrom returns the first of those that wait from a place on, claimed or not.
func (x *timerIndex) listFrom(from dueTimer, most int) (found []dueTimer) {
	for d := range x.byDue.from(from) {
		if len(found) == most {
			break
		}
		found = append(found, d)
	}
	for _, t := range x.hidden {
		if d := (dueTimer{t.due, t.offset}); x.byDue.compare(d, from) >= 0 {
			found = append(found, d)
		}
	}
	slices.SortFunc(found, x.byDue.compare)
	return found[:min(len(found), most)]
}

// unclaim gives a timer back that was claimed, unless it has ended.
func (x *timerIndex) unclaim(t timer) {
	delete(x.hidden, t.offset)
	if _, ok := x.at(t.offset); ok {
		x.byDue.add(dueTimer{t.due, t.offset})
	}
}

// at is the timer at an offset.
func (x *timerIndex) at(offset message.QueueOffset) (timer, bool) {
	for t := range x.byOffset.from(timer{offset: offset}) {
		return t, t.offset == offset
	}
	return timer{}, false
}

// earliest is the time at which the first one is due that nobody has claimed;
// never if there is none.
func (x *timerIndex) earliest() int64 {
	if t, ok := x.byDue.first(); ok {
		return t.due
	}
	return never
}

// claimDue claims the one that is due first, if it is by now.
func (x *timerIndex) claimDue(now int64) (timer, bool) {
	d, ok := x.byDue.first()
	if !ok || d.due > now {
		return timer{}, false
	}
	t, ok := x.at(d.offset)
	x.claim(t)
	return t, ok
}

// withKey lists the timers of a key, in order.
func (x *timerIndex) withKey(key uint64) (found []timer) {
	for k := range x.byKey.from(keyTimer{key, math.MinInt64}) {
		if k.key != key {
			break
		}
		if t, ok := x.at(k.offset); ok {
			found = append(found, t)
		}
	}
	return found
}
