package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// madeUp are results of every group that is here: rounds of so many messages in a second.
func madeUp(t *testing.T, rates map[string][]int64) *results {
	t.Helper()
	here, err := available("")
	if err != nil {
		t.Fatal(err)
	}
	have, err := readResults(filepath.Join(t.TempDir(), resultsName))
	if err != nil {
		t.Fatal(err)
	}
	opts := options{bytes: 1 << 20, limit: 10 * time.Second, dir: t.TempDir()}
	s := session{Started: madeUpStart, Command: "go run . -peers 'a|b'", Runs: 3, Bytes: opts.bytes, Identity: identity(opts, here)}
	if err := have.begin(s); err != nil {
		t.Fatal(err)
	}
	for _, x := range allRows(t) {
		for round, n := range append(rates[x.peer.name], 1000, 1000, 1000)[:3] {
			m := measurementOf(x, round, result{Messages: n, Took: time.Second, Drained: 2 * time.Second})
			if x.promise == powerLoss {
				m.Result.P50, m.Result.P99 = 1500*time.Microsecond, 2*time.Second
			}
			if err := have.add(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	return have
}

var madeUpStart = time.Date(2026, 7, 8, 9, 10, 11, 0, time.UTC)

// measurementOf is one that began so many minutes later as its round says.
func measurementOf(x *row, round int, r result) measurement {
	return measurement{Peer: x.peer.name, Workload: x.workload.name, Promise: x.promise, Round: round,
		At: madeUpStart.Add(time.Duration(round) * time.Minute), Wall: time.Duration(round+1) * time.Second, Result: r}
}

// TestReport looks at a report of figures that are known, made of a file.
func TestReport(t *testing.T) {
	made := madeUp(t, map[string][]int64{"PocketMQ store": {9000, 3_000_000}, "bbolt": {4500, 1}})
	dir := t.TempDir()
	if err := run(t.Context(), []string{"-report", "-results", made.path, "-out", dir}); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, reportName))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| PocketMQ store | 9,000 | 1,000 – 3,000,000 | 4,500 | 4.4 | 8.8, at the limit | 1.00 |\n",
		"| PocketMQ store | 9,000 | 1,000 – 3,000,000 | 4,500 | 4.4 | 8.8, at the limit | 1.00 | 1,500 | 2,000,000 |\n",
		"| bbolt | 1,000 | 1 – 4,500 | 500 | 0.5 | 1.0, at the limit | 9.00 |\n",
		"| Pebble | 1,000 | 1,000 – 1,000 | 500 | 0.5 | 1.0, at the limit | 9.00 |\n",
		"| goqite | 1,000 | 1,000 – 1,000 | 500 | 0.5 | 1.0, at the limit | – |\n",
		"Measured 2026-07-08 09:10 to 2026-07-08 09:12 UTC, 3 rounds.",
		"| limit of a measurement | 10s |",
		"| Java | " + javaVersion() + " |",
		"| 2026-07-08 09:10 UTC | `go run . -peers 'a\\|b'` in `bench/peers` |",
		"median of 3 rounds",
		"`go.etcd.io/bbolt` v",
		"`MaxBatchSize` is the number of writers and `MaxBatchDelay` 2 ms",
		"- **power loss**: always; there is no mode without sync",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the report does not say %q", want)
		}
	}
	plots := regexp.MustCompile(`\((\S+\.svg)\)`).FindAllStringSubmatch(string(page), -1)
	if groups := allGroups(t); len(plots) != len(groups) {
		t.Errorf("%d plots of %d groups", len(plots), len(groups))
	}
	for _, plot := range plots {
		checkXML(t, filepath.Join(dir, plot[1]))
	}
	if t.Failed() {
		t.Logf("%s", page)
	}
}

func checkXML(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	d := xml.NewDecoder(f)
	for n := 0; ; n++ {
		if _, err := d.Token(); errors.Is(err, io.EOF) && n > 10 {
			return
		} else if err != nil {
			t.Errorf("%s, token %d: %v", path, n, err)
			return
		}
	}
}

// TestRun makes two rounds of two measurements in processes of their own, and nothing when it is called again.
func TestRun(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	args := []string{"-bytes", "65536", "-runs", "2", "-limit", "1m", "-dir", dir, "-out", out,
		"-peers", "^(PocketMQ store|goleveldb)$", "-only", "^put/size=1024/writers=1/process"}
	path := filepath.Join(out, resultsName)
	var first []byte
	for n := range 2 {
		if err := run(t.Context(), args); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 && string(text) != string(first) {
			t.Errorf("measured again:\n%s", text[len(first):])
		}
		first = text
	}
	var turns []string
	for line := range strings.Lines(string(first)) {
		var l resultsLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if m := l.Measurement; m != nil {
			turns = append(turns, m.Peer)
			if m.Result.Messages != 64 || m.Wall < m.Result.Drained {
				t.Errorf("%+v", m)
			}
		}
	}
	if got := strings.Join(turns, ", "); got != "PocketMQ store, goleveldb, PocketMQ store, goleveldb" {
		t.Errorf("turns of %s", got)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(out, reportName)); err != nil {
		t.Error(err)
	}
}

// TestFailedRow goes on after a failure, tells of it, and does not measure it again.
func TestFailedRow(t *testing.T) {
	dir := t.TempDir()
	args := []string{"-bytes", "1", "-runs", "2", "-dir", filepath.Join(dir, "missing"), "-out", dir,
		"-peers", "bbolt", "-only", "^put/size=1024/writers=1/power"}
	for range 2 {
		err := run(t.Context(), args)
		if err == nil || !strings.Contains(err.Error(), "bbolt/put/size=1024/writers=1/power loss: ") || !strings.Contains(err.Error(), "missing") {
			t.Error(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, resultsName))
	if err != nil || strings.Count(string(text), "\n") != 2 {
		t.Errorf("%v, results:\n%s", err, text)
	}
	page, err := os.ReadFile(filepath.Join(dir, reportName))
	if err != nil || !strings.Contains(string(page), "- bbolt/put/size=1024/writers=1/power loss failed, and is left out\n") {
		t.Errorf("%v, the report does not say so:\n%s", err, page)
	}
}

// TestRunFails wants the reason of a child that fails.
func TestRunFails(t *testing.T) {
	_, err := inChild(context.Background(), spec{Peer: "bbolt", Workload: "put/size=1024/writers=1", Promise: memoryOnly}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "bbolt does not take put/size=1024/writers=1") {
		t.Error(err)
	}
}

// TestOptionsRefused lists what the command does not take.
func TestOptionsRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"-bytes 0":          {"-bytes", "0"},
		"-runs -1":          {"-runs", "-1"},
		"-limit 0s":         {"-limit", "0s"},
		`argument "pebble"`: {"pebble"},
		"-results or -out":  {},
		"-only: error":      {"-only", "("},
		"-only nobody":      {"-only", "nobody"},
		"-peers nobody":     {"-peers", "nobody"},
		"-peers: error":     {"-peers", "("},
		"no measurements":   {"-report"},
	} {
		if want != "-results or -out" {
			args = append(args, "-results", filepath.Join(t.TempDir(), resultsName))
		}
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestLimit wants a measurement that takes too long to end early, and to say what it did.
func TestLimit(t *testing.T) {
	s := spec{Peer: "goleveldb", Workload: "put/size=1024/writers=1", Promise: processCrash, Dir: t.TempDir(),
		Bytes: 1 << 40, Limit: 50 * time.Millisecond}
	r, err := measure(s)
	if err != nil || r.Messages == 0 || r.Messages >= 1<<30 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestMountOf reads a table of mounts.
func TestMountOf(t *testing.T) {
	const mounts = "1 0 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n" +
		"2 1 0:2 / /tmp rw,nosuid shared:2 - tmpfs tmpfs rw\n" +
		"3 1 8:2 / /data rw,noatime - xfs /dev/sdb rw\n"
	for path, want := range map[string]string{
		"/home": "ext4 (rw,relatime)", "/tmp": "tmpfs (rw,nosuid)", "/data/x": "xfs (rw,noatime)", "/database": "ext4 (rw,relatime)",
	} {
		if got := mountOf(mounts, path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
