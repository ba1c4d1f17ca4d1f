package mq

import "slices"

// pick chooses the next queue in turn, whose broker works and was not tried by
// this send. Concurrent calls share one rotation, of which each takes one step.
// What is left when there is no such queue, in this order: a broker that was
// not tried, though it is kept away from; one that works, though it was tried;
// any, the one first that is soonest to be used again.
func (r *publishRoute) pick(tried []string, now int64) int {
	start := int(r.counter.Add(1) % uint32(len(r.queues)))
	if !r.several {
		return start
	}
	if r.health == nil {
		return r.rotate(start, tried)
	}
	untried := func(i int) bool { return !slices.Contains(tried, r.queues[i].BrokerName) }
	if i := r.first(start, func(i int) bool { return r.health[i].available(now) && untried(i) }); i >= 0 {
		return i
	}
	if i := r.best(start, func(i int) bool { return r.health[i].reachable(now) && untried(i) }); i >= 0 {
		return i
	}
	if i := r.first(start, func(i int) bool { return r.health[i].available(now) && r.queues[i].BrokerName != last(tried) }); i >= 0 {
		return i
	}
	if i := r.first(start, func(i int) bool { return r.health[i].available(now) }); i >= 0 {
		return i
	}
	return r.best(start, func(int) bool { return true })
}

// rotate is pick where nothing is known about brokers but what this send tried.
func (r *publishRoute) rotate(start int, tried []string) int {
	if i := r.first(start, func(i int) bool { return !slices.Contains(tried, r.queues[i].BrokerName) }); i >= 0 {
		return i
	}
	return r.first(start, func(i int) bool { return r.queues[i].BrokerName != last(tried) })
}

func last(tried []string) string {
	if len(tried) == 0 {
		return ""
	}
	return tried[len(tried)-1]
}

// first goes round from start to the first queue that fits; -1 for none.
func (r *publishRoute) first(start int, fits func(i int) bool) int {
	for k := range r.queues {
		if i := (start + k) % len(r.queues); fits(i) {
			return i
		}
	}
	return -1
}

// best is first, among the queues of the broker that is the best of those that
// fit.
func (r *publishRoute) best(start int, fits func(i int) bool) int {
	best := -1
	for k := range r.queues {
		i := (start + k) % len(r.queues)
		if fits(i) && (best < 0 || r.health[i].compare(r.health[best]) < 0) {
			best = i
		}
	}
	return best
}

// others reports whether there is a broker beside the one named.
func (r *publishRoute) others(name string) bool {
	return r.several || r.queues[0].BrokerName != name
}
