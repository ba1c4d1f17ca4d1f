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

// lead takes the follower's turn for a round, unless it is dispatching itself, is
// behind, or has to try again what has failed.
func (d *Dispatcher) lead() {
	f := d.cfg.Follower
	if f == nil || !f.turn.TryLock() {
		return
	}
	d.leading = f.keepsUp(d.next)
	if !d.leading {
		f.turn.Unlock()
	}
}

// keepsUp reports whether a follower can be led by who is at the position at. The
// caller has its turn.
func (d *Dispatcher) keepsUp(at int64) bool {
	return d.next >= at && !d.stuck.Load() && !d.stopping.Load()
}

// follow takes a record from the leader, whose position before it is at, and reports
// whether the follower has it, now or already. If not, its own goroutine takes it.
func (d *Dispatcher) follow(at int64, r *message.DispatchRequest) (kept bool) {
	if !d.keepsUp(at) {
		return false
	}
	if d.next > int64(r.LogOffset()) {
		return true // it was ahead
	}
	defer func() {
		if p := recover(); p != nil {
			d.broke(panicked(p))
			kept = false
		}
	}()
	taken, err := d.cfg.Try(r)
	if err != nil {
		d.broke(err)
		return false
	}
	if taken {
		d.next = int64(r.LogOffset()) + int64(r.Size())
		if d.count(r) {
			d.tell()
		}
	}
	return taken
}

// broke leaves a record that a follower could not take to its own goroutine.
func (d *Dispatcher) broke(err error) {
	d.stuck.Store(true)
	d.tell()
	d.report(err)
}

// move sets next to to, the end of a round, and that of the follower that is led.
func (d *Dispatcher) move(to int64) {
	if d.leading {
		d.cfg.Follower.next = max(d.cfg.Follower.next, to)
	}
	d.next = to
}

// part gives the follower its turn back.
func (d *Dispatcher) part() {
	d.leading = false
	d.cfg.Follower.tell()
	d.cfg.Follower.turn.Unlock()
}

// release ends the round for the follower, which goes on by itself when it is
// behind.
func (d *Dispatcher) release() {
	f := d.cfg.Follower
	if f == nil {
		return
	}
	if d.leading {
		d.part()
	}
	if f.stuck.Load() || f.wanted() {
		f.Notify()
	}
}
