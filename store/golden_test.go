package store_test

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/pocketmq/pocketmq/internal/golden"
)

// The tests in golden_*_test.go hold PocketMQ against stores that Apache
// RocketMQ 4.9.3 wrote:
//
//	golden_model_test.go  what the right answer is where RocketMQ's is not
//	golden_image_test.go  what the right bytes are where RocketMQ's are not
//	golden_index_test.go  the same for the index
//	golden_query_test.go  why RocketMQ answers otherwise about keys
//	golden_read_test.go   every question about every recorded store
//	golden_write_test.go  every recorded input gives the recorded bytes
//	golden_reopen_test.go what opening a store leaves in its directory
//	golden_seam_test.go   what they need of the inside of this package
//
// What PocketMQ does otherwise is in golden.Differences, and nowhere else.

// outOfScope are the groups and puts for which RocketMQ was configured or
// treated in a way that has no counterpart in this version, with the number of
// their puts and reads. They are no differences: what the answers depend on,
// which is in why, a PocketMQ store does not have, so it can not be asked the
// same and answer otherwise.
var outOfScope = []struct {
	name        string // case/group, or case/put from-to
	puts, reads int
	why         string
}{
	{"statuses/slave_not_available", 2, 0, "brokerRole SYNC_MASTER: a put waits for a replica, of which there is none"},
	{"statuses/flush_slave_timeout", 1, 0, "brokerRole SYNC_MASTER: a put waits for a replica, which does not answer"},
	{"statuses/slave_role", 1, 0, "brokerRole SLAVE: a replica takes no puts"},
	{"statuses/multi_dispatch_too_long", 2, 0, "enableMultiDispatch: a message is put into further queues, and their offsets into its properties"},
	{"statuses/flags", 5, 0, "RunningFlags, and the time since which the log is locked, were set from outside in the running store"},
	{"getstatuses/not_readable", 1, 1, "the bit NOT_READABLE, an administrator's switch, was set in the running store"},
}

// tally counts what the golden tests have covered.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *tally) add(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[string]int)
	}
	c.counts[what] += n
}

// goldenRun is what the subtests of TestGolden share.
type goldenRun struct {
	differences tally // by id
	outside     tally // puts and reads of outOfScope
	done        tally // what was compared
	cases       map[string]*golden.Case
}

// differs notes that an accepted difference was met.
func (r *goldenRun) differs(t *testing.T, id string) {
	t.Helper()
	if !slices.ContainsFunc(golden.Differences, func(d golden.Difference) bool { return d.ID == id && d.MetBy(golden.Recorded) }) {
		t.Errorf("the difference %s is not in golden.Differences", id)
	}
	r.differences.add(id, 1)
}

// TestGolden compares with RocketMQ's recorded stores, and afterwards wants
// everything counted: a test that asks nothing, and an accepted difference that
// is none any more, fail.
func TestGolden(t *testing.T) {
	run := &goldenRun{cases: loadGolden(t)}
	t.Run("cases", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(run.cases)) {
			c := run.cases[name]
			for _, part := range run.parts(c) {
				t.Run(name+"/"+part.name, func(t *testing.T) {
					t.Parallel()
					part.test(t)
					run.done.add("parts", 1)
				})
			}
		}
	})
	want := 0
	for _, c := range run.cases {
		want += len(run.parts(c))
	}
	if run.done.counts["parts"] != want {
		return // a selection was run
	}
	run.checkCounts(t)
}

// goldenPart is one test of one case.
type goldenPart struct {
	name string
	test func(*testing.T)
}

// parts lists the tests of a case.
func (r *goldenRun) parts(c *golden.Case) []goldenPart {
	parts := []goldenPart{{"model", func(t *testing.T) { r.testModel(t, c) }}}
	if c.Case == "crash_file_short" {
		return append(parts, goldenPart{"refused", func(t *testing.T) { r.testRefused(t, c) }})
	}
	parts = append(parts, goldenPart{"open", func(t *testing.T) { r.testOpen(t, c) }})
	if len(c.Edits) == 0 {
		parts = append(parts,
			goldenPart{"write", func(t *testing.T) { r.testWrite(t, c, asGiven) }},
			goldenPart{"write stored", func(t *testing.T) { r.testWrite(t, c, asStored) }})
	}
	for i := range c.Groups {
		parts = append(parts, r.groupParts(c, &c.Groups[i])...)
	}
	return parts
}

func loadGolden(t *testing.T) map[string]*golden.Case {
	t.Helper()
	names, err := golden.Cases()
	if err != nil {
		t.Fatal(err)
	}
	cases := make(map[string]*golden.Case)
	for _, name := range names {
		if cases[name], err = golden.Load(name); err != nil {
			t.Fatal(err)
		}
	}
	return cases
}

// compared is what the tests must have compared, so that they can not pass by
// comparing nothing.
var compared = map[string]int{
	"reads of a store": 5184 + 2446, // the latter by key
	"puts":             6705,
	"second puts":      54,
}

func (r *goldenRun) checkCounts(t *testing.T) {
	t.Helper()
	for _, d := range golden.Differences {
		if d.MetBy(golden.Recorded) && r.differences.counts[d.ID] == 0 {
			t.Errorf("the difference %s was not met: %s", d.ID, d.RocketMQ)
		}
	}
	want := make(map[string]int)
	for _, o := range outOfScope {
		want[o.name+" puts"] += o.puts
		if o.reads > 0 {
			want[o.name+" reads"] += o.reads
		}
	}
	if !maps.Equal(r.outside.counts, want) {
		t.Errorf("out of scope: %v, listed are %v", r.outside.counts, want)
	}
	for what, n := range compared {
		if r.done.counts[what] != n {
			t.Errorf("%s: %d were compared, there are %d", what, r.done.counts[what], n)
		}
	}
}
