package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// twoPeers are a group of two, and a session that measures it.
func twoPeers(t *testing.T) (group, session) {
	t.Helper()
	groups, err := selectGroups([]peer{pocketmqStore, levelDB}, "^put/size=1024/writers=1/process")
	if err != nil || len(groups) != 1 || len(groups[0].rows) != 2 {
		t.Fatalf("%+v, %v", groups, err)
	}
	return groups[0], session{Started: madeUpStart, Runs: 3, Bytes: 65536, Identity: [][2]string{
		{"processor", "Z80"}, {"commit", "c0ffee"}, {idPeers, "PocketMQ store, goleveldb"}}}
}

func openResults(t *testing.T, path string) *results {
	t.Helper()
	r, err := readResults(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestResultsNotMixed lists sessions that are refused, when they begin and where
// two files were put together.
func TestResultsNotMixed(t *testing.T) {
	g, s := twoPeers(t)
	for _, test := range []struct {
		field    string
		identity [][2]string
		want     mixedError
	}{
		{"machine", [][2]string{{"processor", "6502"}, s.Identity[1], s.Identity[2]}, mixedError{field: "processor", have: "Z80", want: "6502"}},
		{"version", [][2]string{s.Identity[0], {"commit", "decaf"}, s.Identity[2]}, mixedError{field: "commit", have: "c0ffee", want: "decaf"}},
		{"peers", [][2]string{s.Identity[0], s.Identity[1], {idPeers, "goleveldb"}},
			mixedError{field: idPeers, have: "PocketMQ store, goleveldb", want: "goleveldb"}},
		{"less", s.Identity[:2], mixedError{field: idPeers, have: "PocketMQ store, goleveldb"}},
		{"more", append(s.Identity[:3:3], [2]string{"version of x", "v1"}), mixedError{field: "version of x", want: "v1"}},
	} {
		t.Run(test.field, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), resultsName)
			test.want.path = path
			r := openResults(t, path)
			must(t, r.begin(s))
			must(t, r.add(measurementOf(g.rows[0], 0, result{})))
			before, err := os.ReadFile(path)
			must(t, err)

			other := s
			other.Identity = test.identity
			var refused *mixedError
			if err := openResults(t, path).begin(other); !errors.As(err, &refused) || *refused != test.want {
				t.Errorf("begin: %v, want %v", err, &test.want)
			}
			after, err := os.ReadFile(path)
			if err != nil || string(after) != string(before) {
				t.Errorf("%v, the file was changed:\n%s", err, after)
			}

			foreign := openResults(t, filepath.Join(t.TempDir(), resultsName))
			must(t, foreign.begin(other))
			text, err := os.ReadFile(foreign.path)
			must(t, err)
			must(t, os.WriteFile(path, append(before, text...), 0o600))
			if _, err := readResults(path); !errors.As(err, &refused) || !strings.Contains(err.Error(), "line 3") {
				t.Errorf("put together: %v", err)
			}
		})
	}
}

// TestResultsOfOtherSize runs with other settings than the file has.
func TestResultsOfOtherSize(t *testing.T) {
	made := madeUp(t, nil)
	for field, args := range map[string][]string{
		idBytes: {"-bytes", "1024", "-limit", "10s"},
		idLimit: {"-bytes", "1048576", "-limit", "9s"},
		idPeers: {"-bytes", "1048576", "-limit", "10s", "-peers", "bbolt"},
	} {
		for _, plan := range []string{"-plan", "-plan=false"} {
			var refused *mixedError
			if err := run(t.Context(), append(args, "-results", made.path, plan)); !errors.As(err, &refused) || refused.field != field {
				t.Errorf("%q: %v", args, err)
			}
		}
	}
}

// TestResultsTornLine cuts a file at each byte of its last line: what is before it
// stays, and the line is written again.
func TestResultsTornLine(t *testing.T) {
	g, s := twoPeers(t)
	path := filepath.Join(t.TempDir(), resultsName)
	r := openResults(t, path)
	must(t, r.begin(s))
	must(t, r.add(measurementOf(g.rows[0], 0, result{Messages: 1})))
	kept := r.end
	last := measurementOf(g.rows[1], 0, result{Messages: 2})
	must(t, r.add(last))
	whole, err := os.ReadFile(path)
	must(t, err)
	for cut := kept; cut < int64(len(whole)); cut++ {
		must(t, os.WriteFile(path, whole[:cut], 0o600))
		torn := openResults(t, path)
		if _, ok := torn.of(g.rows[1], 0); ok || torn.complete(g, 0) || len(torn.measured) != 1 {
			t.Fatalf("cut at %d: %+v", cut, torn.measured)
		}
		must(t, torn.add(last))
		if text, err := os.ReadFile(path); err != nil || string(text) != string(whole) {
			t.Fatalf("cut at %d and written again: %v\n%s", cut, err, text)
		}
	}
}

// TestResultsDamaged lists whole lines that are not what this program writes.
func TestResultsDamaged(t *testing.T) {
	for text, want := range map[string]string{
		"{\"Session\":{}}\nnothing\n":                "line 2: invalid character",
		"{\"Session\":{}}\n{}\n{\"Session\":{}}\n":   "line 2: neither a session nor a measurement",
		"{\"Measurement\":{\"Peer\":\"bbolt\"}}\n":   "line 1: a measurement before any session",
		"{\"Session\":{}}\n{\"Measurement\":true}\n": "line 2: json",
	} {
		path := filepath.Join(t.TempDir(), resultsName)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := readResults(path); err == nil || !strings.Contains(err.Error(), path+", "+want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestResumeDoesWhatIsMissing takes up a run that was interrupted in its second round.
func TestResumeDoesWhatIsMissing(t *testing.T) {
	g, s := twoPeers(t)
	path := filepath.Join(t.TempDir(), resultsName)
	r := openResults(t, path)
	must(t, r.begin(s))
	for round, of := range [][]*row{g.rows, g.rows[:1]} {
		for _, x := range of {
			must(t, r.add(measurementOf(x, round, result{Messages: 7, Took: time.Second, Drained: time.Second})))
		}
	}
	r = openResults(t, path)
	if missing := r.missing(g, 3); !reflect.DeepEqual(missing, []int{1, 2}) {
		t.Errorf("missing before: %v", missing)
	}
	if filled := r.fill([]group{g}); len(filled) != 1 || filled[0].rounds != 1 || len(g.rows[0].results) != 1 {
		t.Errorf("of the round that is complete: %+v", filled)
	}

	opts := options{bytes: 1024, limit: time.Minute, runs: 3, dir: t.TempDir()}
	must(t, measureAll(t.Context(), opts, r, s, []group{g}))
	r = openResults(t, path)
	for round, want := range []int64{7, 1, 1} {
		for _, x := range g.rows {
			if m, ok := r.of(x, round); !ok || m.Result.Messages != want {
				t.Errorf("%s, round %d: %+v", x.name(), round, m)
			}
		}
	}
	if missing := r.missing(g, 3); missing != nil {
		t.Errorf("missing after: %v", missing)
	}
	if missing := r.missing(g, 4); !reflect.DeepEqual(missing, []int{3}) {
		t.Errorf("missing of one more: %v", missing)
	}
}

// TestInterrupted ends a run before its second measurement: the first is kept.
func TestInterrupted(t *testing.T) {
	g, s := twoPeers(t)
	r := openResults(t, filepath.Join(t.TempDir(), resultsName))
	opts := options{bytes: 1024, limit: time.Minute, runs: 1, dir: t.TempDir()}
	must(t, r.begin(s))
	must(t, r.add(measureRow(t.Context(), opts, g.rows[0], 0)))
	ended, end := context.WithCancel(t.Context())
	end()
	if err := measureAll(ended, opts, r, s, []group{g}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r = openResults(t, r.path)
	m, ok := r.of(g.rows[0], 0)
	if !ok || m.Error != "" || m.Result.Messages != 1 || len(r.measured) != 1 {
		t.Errorf("%+v", r.measured)
	}
}

// TestPlan adds up what is missing, by what was measured where there is something.
func TestPlan(t *testing.T) {
	g, s := twoPeers(t)
	r := openResults(t, filepath.Join(t.TempDir(), resultsName))
	must(t, r.begin(s))
	for _, x := range g.rows {
		must(t, r.add(measurementOf(x, 0, result{}))) // 1 s
		must(t, r.add(measurementOf(x, 1, result{}))) // 2 s
	}
	other, err := selectGroups([]peer{pocketmqStore, rocketMQ}, "^read/.*stay$")
	must(t, err)
	var out strings.Builder
	must(t, printPlan(&out, options{runs: 4, limit: 4 * time.Second}, r, append(other, g)))
	for _, want := range []string{
		"read/size=1024/batch=32/messages stay  2      4 of 4        1m24s\n", // 7.5 s, and 13.5 s in Java
		"put/size=1024/writers=1/process crash  2      2 of 4        6s\n",
		"all                                                         1m30s\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the plan does not say %q:\n%s", want, out.String())
		}
	}
}
