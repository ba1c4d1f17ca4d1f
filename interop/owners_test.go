package interop

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// refusals are what a side says that finds the directory owned.
var refusals = [...]string{rocket: "Lock failed,MQ already started", pocket: "directory is in use"}

// testOwned lets one side own directories, and the other one want them too, while
// the owner writes and while it does not. The second is refused. The owner goes
// on, or stops with an error; what it has acknowledged is kept.
func testOwned(t *testing.T, owner side, seed uint64, n int) {
	all := directories(t, seed, n)
	p := start(t, owner)
	second := start(t, owner.other())
	each(t, all, fmt.Sprintf("%v owns", owner), func(d *directory) error {
		d.writer = owner
		if err := p.open(d); err != nil {
			return err
		}
		if err := p.put(d, d.workload(30), d.want.add); err != nil {
			return err
		}
		var writing sync.WaitGroup
		var stopped error
		if d.seed%2 == 0 {
			d.sent = d.workload(300)
			writing.Go(func() { stopped = d.putSent(p) })
		}
		err := second.open(d)
		writing.Wait()
		if err == nil || !strings.Contains(err.Error(), refusals[second.side]) {
			return fmt.Errorf("%v owns, and %v is not refused: %w", owner, second.side, err)
		}
		if stopped == nil {
			d.sent = d.workload(100)
			stopped = d.putSent(p)
		}
		stopped = errors.Join(stopped, p.close(d))
		if stopped == nil || owner == rocket {
			return stopped
		}
		d.before = killedBefore // and it leaves the marker
		t.Logf("seed %d: the owner stopped: %v", d.seed, stopped)
		return nil
	})
	if err := errors.Join(p.stop(), second.stop()); err != nil {
		t.Fatal(err)
	}
	tellOfCopies(t, owner, all)
	for _, d := range all {
		d.crashed = d.before == killedBefore || owner == pocket // RocketMQ has had its hands on the index
	}
	answerTold(t, all, owner.other())
}

// putSent puts d.sent, of which it leaves what was not acknowledged.
func (d *directory) putSent(p *process) error {
	return p.put(d, d.sent, func(m *put, at placement) error {
		d.sent = d.sent[1:]
		return d.want.add(m, at)
	})
}
