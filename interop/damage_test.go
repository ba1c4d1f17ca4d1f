package interop

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// harm is something that happens to a directory between two owners.
type harm struct {
	name  string
	crash bool // the writer was killed, else it had stopped
	do    func(d *directory) error
}

// lastRecords returns the places of the last n records of the log, in order.
func (d *directory) lastRecords(n int) []*seen {
	var all []*seen
	for _, m := range d.told.looks() {
		if m != nil {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b *seen) int { return int(a.LogOffset - b.LogOffset) })
	return all[max(0, len(all)-n):]
}

// zero overwrites a range of the log, which is not across files, and forgets the
// messages from lost on.
func (d *directory) zero(from, to, lost int64) error {
	start := from - from%d.args.SegmentSize
	f, err := os.OpenFile(filepath.Join(d.path, "commitlog", fmt.Sprintf("%020d", start)), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, to-from), from-start)
	d.want.lose(lost)
	return errors.Join(err, f.Close())
}

// harms are done to directories of both writers.
var harms = []harm{
	{"nothing", true, func(*directory) error { return nil }},
	{"torn tail", true, func(d *directory) error {
		m := d.lastRecords(1)[0]
		end := m.LogOffset + int64(m.Size)
		return d.zero(end-int64(m.Size)/2, end, m.LogOffset)
	}},
	{"zero tail", true, func(d *directory) error {
		last := d.lastRecords(3)
		for _, m := range slices.Backward(last) {
			if err := d.zero(m.LogOffset, m.LogOffset+int64(m.Size), m.LogOffset); err != nil {
				return err
			}
		}
		return nil
	}},
	{"consume queues missing, after a kill", true, func(d *directory) error { return os.RemoveAll(filepath.Join(d.path, "consumequeue")) }},
	{"consume queues missing", false, func(d *directory) error { return os.RemoveAll(filepath.Join(d.path, "consumequeue")) }},
	{"a consume queue missing", false, func(d *directory) error {
		keys := slices.SortedFunc(maps.Keys(d.want.queues), queueKey.compare)
		d.lost = oneOf(d.rand, keys)
		return os.RemoveAll(filepath.Join(d.path, "consumequeue", d.lost.Topic, strconv.Itoa(int(d.lost.QueueID))))
	}},
	{"index missing, after a kill", true, func(d *directory) error { return os.RemoveAll(filepath.Join(d.path, "index")) }},
	{"index missing", false, func(d *directory) error {
		d.crashed = true // no more of it is left
		return os.RemoveAll(filepath.Join(d.path, "index"))
	}},
	{"checkpoint missing", true, func(d *directory) error { return os.RemoveAll(filepath.Join(d.path, "checkpoint")) }},
	{"queues, index and checkpoint missing", true, func(d *directory) error {
		var errs []error
		for _, name := range []string{"consumequeue", "index", "checkpoint"} {
			errs = append(errs, os.RemoveAll(filepath.Join(d.path, name)))
		}
		return errors.Join(errs...)
	}},
	{"a file without a length", true, func(d *directory) error {
		if d.writer == pocket {
			return nil // it makes none
		}
		q := oneOf(d.rand, d.told.list.Queues)
		next := q.Max*20 - 1 + d.args.QueueFileSize
		next -= next % d.args.QueueFileSize
		path := filepath.Join(d.path, "consumequeue", q.Topic, strconv.Itoa(int(q.QueueID)), fmt.Sprintf("%020d", next))
		return os.WriteFile(path, nil, 0o600)
	}},
}

const copied = "-copy" // behind the path of a directory

// testDamage lets one side write and does harm. Each side opens a copy, and both
// must answer the same, and right.
func testDamage(t *testing.T, writer side, seed uint64, n int) {
	all := directories(t, seed, n*len(harms))
	harmed := make(map[*directory]harm)
	for _, d := range all {
		harmed[d] = harms[(d.seed-seed-*seedShift)%uint64(len(harms))]
		d.crashed, d.writer, d.before = harmed[d].crash, writer, damagedBefore
	}
	p := start(t, writer)
	each(t, all, fmt.Sprintf("%v writes", writer), func(d *directory) error {
		if err := p.open(d); err != nil {
			return err
		}
		if err := p.put(d, d.workload(10+d.rand.IntN(60)), d.want.add); err != nil {
			return err
		}
		if err := d.interview(p); err != nil || harmed[d].crash {
			return err
		}
		return p.close(d)
	})
	if err := p.kill(); err != nil {
		t.Fatal(err)
	}
	each(t, all, "harm", func(d *directory) error {
		if err := harmed[d].do(d); err != nil {
			return err
		}
		return os.CopyFS(d.path+copied, os.DirFS(d.path))
	})
	phase(t, pocket, all, "repairs", func(p *process, d *directory) error {
		if err := d.interview(p); err != nil {
			return fmt.Errorf("%s: %w", harmed[d].name, err)
		}
		return nil
	})
	for _, d := range all {
		d.path += copied
	}
	phase(t, rocket, all, "repairs", func(p *process, d *directory) error {
		rounds.Add(1)
		if err := d.compare(p); err != nil {
			return fmt.Errorf("%s: %w", harmed[d].name, err)
		}
		return nil
	})
}
