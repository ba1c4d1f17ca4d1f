package interop

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pocketmq/pocketmq/internal/golden"
)

var (
	onlySeed  = flag.Uint64("only", 0, "run only the directory with this seed")
	seedShift = flag.Uint64("shift", 0, "add this to every seed: other workloads")
)

// rounds counts the workloads that one side wrote and the other answered.
var rounds atomic.Int64

// leastRounds must have been run by the whole of the tests.
const leastRounds = 200

// TestInterop runs everything, and then wants every accepted difference met that
// these tests are said to meet.
func TestInterop(t *testing.T) {
	parts := []struct {
		name string
		test func(t *testing.T)
	}{
		{"RocketMQ writes", func(t *testing.T) { testWrites(t, rocket, 1, 30) }},
		{"PocketMQ writes", func(t *testing.T) { testWrites(t, pocket, 101, 30) }},
		{"turns from RocketMQ", func(t *testing.T) { testTurns(t, rocket, 201, 8) }},
		{"turns from PocketMQ", func(t *testing.T) { testTurns(t, pocket, 301, 8) }},
		{"damage to RocketMQ", func(t *testing.T) { testDamage(t, rocket, 401, 2) }},
		{"damage to PocketMQ", func(t *testing.T) { testDamage(t, pocket, 501, 2) }},
		{"RocketMQ owns", func(t *testing.T) { testOwned(t, rocket, 601, 8) }},
		{"PocketMQ owns", func(t *testing.T) { testOwned(t, pocket, 701, 8) }},
	}
	passed := 0
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			part.test(t)
			passed++
		})
	}
	t.Logf("%d rounds; accepted differences met: %v", rounds.Load(), met.counts)
	if passed < len(parts) || *onlySeed != 0 {
		return // failed, or a selection was run
	}
	if rounds.Load() < leastRounds {
		t.Errorf("%d rounds, want %d", rounds.Load(), leastRounds)
	}
	for _, d := range golden.Differences {
		if d.MetBy(golden.Interop) && met.counts[d.ID] == 0 {
			t.Errorf("the difference %s was not met: %s", d.ID, d.RocketMQ)
		}
	}
}

// directories draws n of them, with seeds from first on. Their paths must not have
// a comma: RocketMQ would take it for the end of one of several paths.
func directories(t *testing.T, first uint64, n int) []*directory {
	t.Helper()
	root := t.TempDir()
	var all []*directory
	for i := range uint64(n) {
		if seed := first + i + *seedShift; *onlySeed == 0 || *onlySeed == seed {
			all = append(all, newDirectory(root, seed))
		}
	}
	if len(all) == 0 {
		t.Skip("not the seed of -only")
	}
	t.Logf("seeds %d to %d", all[0].seed, all[len(all)-1].seed)
	return all
}

// each does something with all directories side by side: RocketMQ spends seconds
// asleep when it starts and stops.
func each(t *testing.T, all []*directory, what string, do func(d *directory) error) {
	t.Helper()
	var wg sync.WaitGroup
	for _, d := range all {
		wg.Go(func() {
			if err := do(d); err != nil {
				t.Errorf("%s, -only %d (%+v): %v", what, d.seed, d.args, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// phase runs a process from start to stop; do gets each directory, open.
func phase(t *testing.T, s side, all []*directory, what string, do func(p *process, d *directory) error) {
	t.Helper()
	p := start(t, s)
	each(t, all, fmt.Sprintf("%v %s", s, what), func(d *directory) error {
		if err := d.open(p); err != nil {
			return err
		}
		if err := do(p, d); err != nil {
			return err
		}
		return p.close(d)
	})
	if err := p.stop(); err != nil {
		t.Fatal(what, err)
	}
	each(t, all, fmt.Sprintf("%v %s", s, what), func(d *directory) error { return p.checkLog(d, d.before) })
	for _, d := range all {
		d.fresh = false
	}
}

// testWrites lets one side write. The other side must answer the same, and after
// it the first side again.
func testWrites(t *testing.T, writer side, first uint64, n int) {
	all := directories(t, first, n)
	for _, d := range all {
		d.writer = writer
	}
	phase(t, writer, all, "writes", func(p *process, d *directory) error {
		if err := p.put(d, d.workload(10+d.rand.IntN(60)), d.want.add); err != nil {
			return err
		}
		return d.interview(p)
	})
	for _, reader := range []side{writer.other(), writer} {
		phase(t, reader, all, "answers", func(p *process, d *directory) error {
			if reader != writer {
				rounds.Add(1)
			}
			return d.compare(p)
		})
	}
}

// interview lets a side tell what is in the directory, which must be the truth.
func (d *directory) interview(p *process) (err error) {
	d.teller = p.side
	if d.told, err = p.interview(d); err != nil {
		return err
	}
	err = d.truth(p.side).check(d.told)
	if p.side == pocket && !d.crashed {
		err = errors.Join(err, d.want.checkQueries(d.told))
	}
	return err
}

// truth is what a side must answer.
func (d *directory) truth(s side) *truth {
	if s == pocket || d.lost == (queueKey{}) {
		return &d.want
	}
	without := maps.Clone(d.want.queues)
	delete(without, d.lost)
	return &truth{without, d.want.unqueued}
}

// compare asks the same questions again, the other side or the same one.
func (d *directory) compare(p *process) error {
	iv, err := p.again(d, d.told)
	if err != nil {
		return err
	}
	differ := func() error { return compare(d, d.told, iv) }
	if p.side == rocket {
		differ = func() error { return compare(d, iv, d.told) }
	}
	if p.side == d.teller {
		differ = func() error { return unchanged(d.told, iv) }
	}
	return errors.Join(d.truth(p.side).check(iv), differ())
}

// testTurns lets both sides write in turn. A turn ends with a clean stop of a
// directory, or with a kill during puts. What the next side answers must be what
// the last one answered before it stopped, or answers on a copy of the directory
// after the kill.
func testTurns(t *testing.T, first side, seed uint64, n int) {
	all := directories(t, seed, n)
	r := rand.New(rand.NewPCG(seed+*seedShift, 2))
	s := first
	for range 10 {
		turn(t, all, s, r)
		s = s.other()
	}
	answerTold(t, all, s)
}

// answerTold lets a side answer what the other one has told.
func answerTold(t *testing.T, all []*directory, s side) {
	t.Helper()
	phase(t, s, all, "answers", func(p *process, d *directory) error {
		rounds.Add(1)
		return d.compare(p)
	})
}

func selected(all []*directory, before situation) []*directory {
	var some []*directory
	for _, d := range all {
		if d.before == before {
			some = append(some, d)
		}
	}
	return some
}

// turn lets a side take over the directories, write, and stop or be killed.
func turn(t *testing.T, all []*directory, s side, r *rand.Rand) {
	t.Helper()
	p := start(t, s)
	each(t, all, fmt.Sprintf("%v takes its turn", s), func(d *directory) error {
		if err := d.open(p); err != nil {
			return err
		}
		if d.told != nil {
			rounds.Add(1)
			if err := d.compare(p); err != nil {
				return err
			}
		}
		return p.put(d, d.workload(d.rand.IntN(30)), d.want.add)
	})
	before := make(map[*directory]situation)
	var dying []*directory
	for _, d := range all {
		before[d] = d.before
		d.before = situation(d.fate.IntN(2))
		if d.before == killedBefore {
			dying = append(dying, d)
		}
	}
	each(t, selected(all, cleanStop), fmt.Sprintf("%v stops", s), func(d *directory) error {
		return errors.Join(d.interview(p), p.close(d))
	})
	if len(dying) == 0 {
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
	} else {
		killDuringPuts(t, p, dying, int64(1+r.IntN(30*len(dying))))
	}
	each(t, all, fmt.Sprintf("%v had its turn", s), func(d *directory) error { return p.checkLog(d, before[d]) })
	for _, d := range all {
		d.fresh, d.writer = false, s
	}
	if len(dying) > 0 {
		for _, d := range dying {
			d.crashed = true
		}
		tellOfCopies(t, s, dying)
	}
}

// killDuringPuts kills a process when it has acknowledged so many messages.
func killDuringPuts(t *testing.T, p *process, dying []*directory, after int64) {
	t.Helper()
	var acknowledged atomic.Int64
	each(t, dying, fmt.Sprintf("%v is killed", p.side), func(d *directory) error {
		d.sent = slices.DeleteFunc(d.workload(40), func(m *put) bool {
			return !m.contents[0].queued() // whether it survives, no queue tells
		})
		err := p.put(d, d.sent, func(m *put, at placement) error {
			d.sent = d.sent[1:]
			if acknowledged.Add(1) == after {
				_ = p.cmd.Process.Kill()
			}
			return d.want.add(m, at)
		})
		if errors.Is(err, errGone) {
			return nil
		}
		return err
	})
	if err := p.kill(); err != nil {
		t.Fatal(err)
	}
}

// tellOfCopies opens copies of the directories with the side that had them.
func tellOfCopies(t *testing.T, s side, all []*directory) {
	t.Helper()
	paths := make(map[*directory]string)
	for _, d := range all {
		if s == rocket {
			if err := d.undoTorn(); err != nil {
				t.Fatal(err)
			}
		}
		paths[d] = d.path
		d.copies++
		d.path = fmt.Sprintf("%s-%d", d.path, d.copies)
		if err := os.CopyFS(d.path, os.DirFS(paths[d])); err != nil {
			t.Fatal(err)
		}
	}
	phase(t, s, all, "tells of a copy", func(p *process, d *directory) error {
		list, err := p.list(d)
		if err != nil {
			return err
		}
		d.want.survive(d.sent, list)
		return d.interview(p)
	})
	for _, d := range all {
		d.path = paths[d]
	}
}

// open opens the directory. A file that RocketMQ made and had not yet given its
// length when it was killed, RocketMQ itself does not get over.
func (d *directory) open(p *process) error {
	err := p.open(d)
	if err == nil || p.side == pocket || d.writer == pocket {
		return err
	}
	empty, lookErr := emptyFiles(filepath.Join(d.path, "consumequeue"), filepath.Join(d.path, "commitlog"))
	if lookErr != nil || len(empty) == 0 {
		return errors.Join(err, lookErr)
	}
	for _, path := range empty {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return errors.Join(accept("F9"), p.open(d))
}

func emptyFiles(roots ...string) (paths []string, err error) {
	var errs []error
	for _, root := range roots {
		errs = append(errs, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			info, err := entry.Info()
			if err == nil && info.Size() == 0 {
				paths = append(paths, path)
			}
			return err
		}))
	}
	return paths, errors.Join(errs...)
}
