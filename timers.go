package pocketmq

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/pocketmq/pocketmq/protocol"
)

// Timers goes through the messages that wait on all disks that are open: those with
// a time of delivery in the order of their times, and then those of each delay
// level. They are read page by page: what is sent, rescheduled or ended while the
// loop runs may be missed. The first error ends the loop.
func (n *Node) Timers(ctx context.Context) iter.Seq2[protocol.TimerInfo, error] {
	return func(yield func(protocol.TimerInfo, error) bool) {
		var disks []*timersOfDisk
		for _, d := range n.open() {
			disks = append(disks, &timersOfDisk{disk: d, page: protocol.ListTimersResponse{More: true}})
		}
		if len(disks) == 0 {
			yield(protocol.TimerInfo{}, ErrClosed)
			return
		}
		for {
			for _, d := range disks {
				if err := d.fill(ctx); err != nil {
					yield(protocol.TimerInfo{}, err)
					return
				}
			}
			disks = slices.DeleteFunc(disks, (*timersOfDisk).ended)
			if len(disks) == 0 {
				return
			}
			next := slices.MinFunc(disks, (*timersOfDisk).compare)
			if !yield(next.take(), nil) {
				return
			}
		}
	}
}

// timersOfDisk is where a loop over the messages that wait is on one disk.
type timersOfDisk struct {
	disk Disk
	page protocol.ListTimersResponse // with what is left of it
}

func (d *timersOfDisk) ended() bool { return len(d.page.Timers) == 0 && !d.page.More }

// fill gets the next page that has anything, if there is nothing left of this one.
func (d *timersOfDisk) fill(ctx context.Context) error {
	for len(d.page.Timers) == 0 && d.page.More {
		page, err := d.disk.Broker.ListTimers(ctx, protocol.ListTimersRequest{From: d.page.Next})
		if err != nil {
			return fmt.Errorf("%s: %w", d.disk.Dir, err)
		}
		d.page = page
	}
	return nil
}

// compare says which of two comes first, each of which has a message left.
func (d *timersOfDisk) compare(other *timersOfDisk) int {
	a, b := &d.page.Timers[0], &other.page.Timers[0]
	return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.DeliverAt, b.DeliverAt))
}

func (d *timersOfDisk) take() protocol.TimerInfo {
	t := d.page.Timers[0]
	d.page.Timers = d.page.Timers[1:]
	return t
}
