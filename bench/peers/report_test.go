package main

import (
	"context"
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

// rowsOf are made-up figures: repetitions of so many messages in a second.
func rowsOf(t *testing.T, rates map[string][]int64) []*row {
	t.Helper()
	rows, err := selectRows("")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		for _, n := range append(rates[r.peer.name], 1000) {
			r.results = append(r.results, result{Messages: n, Took: time.Second, Drained: 2 * time.Second})
		}
	}
	return rows
}

// TestReport looks at a report of figures that are known.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	rows := rowsOf(t, map[string][]int64{"PocketMQ store": {9000, 3_000_000}, "bbolt": {4500, 1}})
	opts := options{bytes: 1 << 30, runs: 3, limit: 10 * time.Second, out: dir, dir: dir, args: []string{"-runs", "3"}}
	if err := publish(opts, rows); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, reportName))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| PocketMQ store | 9,000 | 1,000 – 3,000,000 | 4,500 | 4.4 | 8.8 | 1.00 |",
		"| bbolt | 1,000 | 1 – 4,500 | 500 | 0.5 | 1.0 | 9.00 |",
		"| Pebble |  | – | 9.00 |  |",
		"`go run . -runs 3` in `bench/peers`",
		"median of 3 repetitions, each until 1073741824 bytes of bodies or 10s",
		"`MaxBatchSize` is the number of writers and `MaxBatchDelay` 2 ms",
		"- **power loss**: always; there is no mode without sync",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the report does not say %q", want)
		}
	}
	plots := regexp.MustCompile(`\((\S+\.svg)\)`).FindAllStringSubmatch(string(page), -1)
	if groups := groupRows(rows); len(plots) != len(groups) {
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

// TestRun makes two measurements in processes of their own.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	opts := options{bytes: 64 << 10, runs: 2, limit: time.Minute, dir: dir, only: "^(PocketMQ store|goleveldb)/put/size=1024/writers=1/process"}
	rows, err := measureAll(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := failures(rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		if len(r.results) != 2 || r.results[1].Messages != 64 {
			t.Errorf("%s: %+v", r.name(), r.results)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestFailedRow goes on after a failure, and tells of it.
func TestFailedRow(t *testing.T) {
	dir := t.TempDir()
	opts := options{bytes: 1, runs: 2, limit: time.Minute, dir: filepath.Join(dir, "missing"), out: dir, only: "^bbolt/put/size=1024/writers=1/power"}
	rows, err := measureAll(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := failures(rows); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "bbolt/put/size=1024/writers=1/power loss") {
		t.Error(err)
	}
	if groups := groupRows(rows); len(groups) != 0 {
		t.Errorf("tables of what failed: %+v", groups)
	}
	if page := report(opts, rows); !strings.Contains(page, "- bbolt/put/size=1024/writers=1/power loss failed, and is left out\n") {
		t.Errorf("the report does not say so: %s", page)
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
	} {
		if _, err := parseOptions(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
	for _, only := range []string{"(", "nobody"} {
		if _, err := selectRows(only); err == nil || !strings.Contains(err.Error(), "-only") {
			t.Errorf("-only %s: %v", only, err)
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
