package commitlog

import "github.com/pocketmq/pocketmq/message"

// Follower is a log for the one reader that keeps up with the appends; it
// implements dispatcher.Source. It is used by one goroutine.
type Follower struct {
	log     *Log
	recent  *recent
	pos     int64 // in recent: the next outline
	written int64 // in recent: how far it is known to go
	request message.DispatchRequest
}

// Follow returns the log's Follower. Call it once, before Start.
func (l *Log) Follow() *Follower {
	l.recent = newRecent(leastRecent)
	return &Follower{log: l, recent: l.recent}
}

// End is Visible.
func (f *Follower) End() message.LogOffset { return f.log.Visible() }

// Scan is like Log.Scan, but the View of a request is in most cases the outline of
// its record: it has no body.
func (f *Follower) Scan(from, to message.LogOffset, visit func(*message.DispatchRequest) error) (message.LogOffset, error) {
	defer f.tell()
	for from < to {
		v, ok := f.next()
		switch {
		case ok && v.LogOffset() < from:
			f.drop(v)
		case ok && v.LogOffset() == from:
			f.request.Read(v, f.log.cfg.DelayLevels)
			if err := visit(&f.request); err != nil {
				return from, err
			}
			from += message.LogOffset(v.Size())
			f.drop(v)
		default: // it was left out, or is the end of a file
			upTo := to
			if ok {
				upTo = min(to, v.LogOffset())
			}
			f.grow()
			var err error
			if from, err = f.log.Scan(from, upTo, visit); err != nil {
				return from, err
			}
		}
	}
	return from, nil
}

// next is the next outline.
func (f *Follower) next() (message.View, bool) {
	if f.pos == f.written && !f.more() {
		return message.View{}, false
	}
	return message.ReadOutline(f.recent.at(f.pos)), true
}

// more looks how far the ring goes, and goes on to the next one at the end of one
// that the writer has left.
func (f *Follower) more() bool {
	next := f.recent.next.Load() // before written: after that nothing is put
	if f.written = f.recent.written.Load(); f.pos == f.written && next != nil {
		f.recent, f.pos = next, 0
		f.written = next.written.Load()
	}
	return f.pos < f.written
}

// grow offers a larger ring, where the writer has left something out.
func (f *Follower) grow() {
	q := f.recent
	if q.small.Load() && q.size < mostRecent && q.offer.Load() == nil {
		q.offer.Store(newRecent(min(4*q.size, mostRecent)))
	}
}

// drop leaves the next outline, v.
func (f *Follower) drop(v message.View) {
	f.pos = f.recent.behind(f.pos, len(v.Raw()))
	if f.pos-f.recent.read.Load() > f.recent.size/16 {
		f.tell()
	}
}

// tell lets the writer use the room again.
func (f *Follower) tell() { f.recent.read.Store(f.pos) }
