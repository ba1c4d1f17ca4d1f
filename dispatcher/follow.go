package dispatcher

import "github.com/pocketmq/pocketmq/message"

// wanted reports whether there is something that the goroutine has to dispatch: a
// follower leaves to its leader what that one has still before it.
func (d *Dispatcher) wanted() bool {
	leader := d.leader.Load()
	if leader == nil || leader.stuck.Load() {
		return d.Lag() > 0
	}
	return d.position.Load() < leader.position.Load()
}

// lead takes the follower's turn for a round, unless it is dispatching itself, or
// has to try again what has failed.
func (d *Dispatcher) lead() {
	f := d.cfg.Follower
	d.leading = f != nil && f.turn.TryLock()
	if d.leading && f.stuck.Load() {
		f.turn.Unlock()
		d.leading = false
	}
}

// follow takes a record from the leader, whose position before it is at. A
// follower that is elsewhere leaves it: what is behind it dispatches itself.
func (d *Dispatcher) follow(at int64, r *message.DispatchRequest) {
	if at != d.next || d.stuck.Load() {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			d.broke(panicked(p))
		}
	}()
	if d.stopping.Load() {
		return
	}
	taken, err := d.cfg.Try(r)
	switch {
	case err != nil:
		d.broke(err)
	case taken:
		d.next = int64(r.LogOffset()) + int64(r.Size())
		d.count(r)
	}
}

// broke leaves a record that a follower could not take to its own goroutine.
func (d *Dispatcher) broke(err error) {
	d.stuck.Store(true)
	d.tell()
	d.report(err)
}

// move sets next to to, the end of a round, and that of the follower that is as
// far.
func (d *Dispatcher) move(to int64) {
	if f := d.cfg.Follower; d.leading && f.next == d.next && !f.stuck.Load() {
		f.next = to
	}
	d.next = to
}

// release ends the round for the follower, which goes on by itself when it is
// behind.
func (d *Dispatcher) release() {
	f := d.cfg.Follower
	if f == nil {
		return
	}
	if d.leading {
		d.leading = false
		f.tell()
		f.turn.Unlock()
	}
	if f.stuck.Load() || f.wanted() {
		f.Notify()
	}
}
