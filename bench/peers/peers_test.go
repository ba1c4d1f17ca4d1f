package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be the child of inChild, as the program is, and
// the child that TestKill kills.
func TestMain(m *testing.M) {
	if text := os.Getenv(runVariable); text != "" {
		if err := runChild(text, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if text := os.Getenv(killVariable); text != "" {
		fmt.Println(putAndWait(text))
		return
	}
	os.Exit(m.Run())
}

// allRows are those of every peer that is here.
func allRows(t testing.TB) []*row {
	t.Helper()
	var rows []*row
	for _, g := range allGroups(t) {
		rows = append(rows, g.rows...)
	}
	return rows
}

func allGroups(t testing.TB) []group {
	t.Helper()
	here, err := available("")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := selectGroups(here, "")
	if err != nil {
		t.Fatal(err)
	}
	return groups
}

// TestWorkloads does every measurement that there is with 1,000 messages; each
// reads back what it put and compares it.
func TestWorkloads(t *testing.T) {
	for _, p := range peers {
		if reason := p.missing(); reason != "" {
			t.Run(p.name, func(t *testing.T) { t.Skip(reason) })
		}
	}
	for _, r := range allRows(t) {
		t.Run(r.name(), func(t *testing.T) {
			n := int64(1000)
			if r.promise == powerLoss && r.workload.batch == 1 {
				n = 100 // syncs take their time
			}
			s := spec{Peer: r.peer.name, Workload: r.workload.name, Promise: r.promise, Dir: t.TempDir(),
				Bytes: n * int64(r.workload.size), Limit: 10 * time.Minute} // all of them, however busy the machine is
			do := measure
			if r.peer.java != "" {
				do = func(s spec) (result, error) { return inChild(t.Context(), s, t.TempDir()) }
			}
			result, err := do(s)
			if err != nil {
				t.Fatal(err)
			}
			if result.Messages < n || result.Took <= 0 || result.Drained < result.Took {
				t.Errorf("%+v for %d messages", result, n)
			}
			if timed := r.promise == powerLoss; timed != (result.P50 > 0) || result.P99 < result.P50 || result.P99 > result.Took {
				t.Errorf("latencies of %+v", result)
			}
		})
	}
}

// killVariable makes this program the one that is killed.
const killVariable = "PEERS_TEST_KILL"

// killSpec is what the child does: it puts messages, or batches without end.
type killSpec struct {
	Peer    string
	Promise promise
	Dir     string
	Batches bool
}

const (
	killSize     = 1024 // bytes of a body
	killMessages = 200
	killBatch    = 100
)

var killWorkload = workload{size: killSize, writers: 1, batch: 1}

// putAndWait returns when something goes wrong, else it is killed.
func putAndWait(text string) error {
	var s killSpec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	p, _ := peerNamed(s.Peer)
	w := killWorkload
	if s.Batches {
		w.batch = killBatch
	}
	q, err := openQueue(p, s.Dir, s.Promise, w, killMessages)
	if err != nil {
		return err
	}
	put := putter(q, w)
	for n := int64(0); s.Batches || n < killMessages; n += int64(w.batch) {
		if err := put(n); err != nil {
			return err
		}
		fmt.Println("put")
	}
	select {} // without Close
}

// killAfter starts a child and kills it once it has reported so many puts.
func killAfter(t *testing.T, cmd *exec.Cmd, puts int) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; n < puts; n++ {
		if !lines.Scan() || lines.Text() != "put" {
			t.Errorf("the child said %q, %v", lines.Text(), lines.Err())
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed
}

// afterKill runs a child that is killed, and returns the messages that are there
// afterwards, which it compares with what was put.
func afterKill(t *testing.T, s killSpec, puts int) int64 {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), killVariable+"="+string(text))
	killAfter(t, cmd, puts)

	p, _ := peerNamed(s.Peer)
	q, err := p.open(s.Dir, s.Promise, 1)
	if err != nil {
		t.Fatalf("open after the kill: %v", err)
	}
	c := newChecker(killSize, 1<<20, true)
	if err := q.Drain(); err != nil {
		t.Error(err)
	}
	if err := q.ReadAll(32, c.check); err != nil {
		t.Errorf("after %d messages: %v", c.count, err)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	return c.count
}

// afterKillJava is afterKill for a peer in Java.
func afterKillJava(t *testing.T, s killSpec, puts int) int64 {
	t.Helper()
	p, _ := peerNamed(s.Peer)
	task := spec{Promise: s.Promise, Dir: s.Dir, Bytes: killSize * killMessages}
	command := func(do string) *exec.Cmd {
		cmd, err := javaCommand(t.Context(), p.java, do, task, killWorkload)
		if err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	killAfter(t, command("hold"), puts)
	out, err := command("count").Output()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestKill kills every peer without closing it: what was put with one of the two
// promises that say so is there. It keeps peers in the groups they belong to.
func TestKill(t *testing.T) {
	for _, p := range peers {
		for _, pr := range []promise{processCrash, powerLoss} {
			if _, gives := p.gives[pr]; !gives {
				continue
			}
			t.Run(p.name+"/"+string(pr), func(t *testing.T) {
				if reason := p.missing(); reason != "" {
					t.Skip(reason)
				}
				after := afterKill
				if p.java != "" {
					after = afterKillJava
				}
				s := killSpec{Peer: p.name, Promise: pr, Dir: t.TempDir()}
				if n := after(t, s, killMessages); n != killMessages {
					t.Errorf("%d messages survived, %d were acknowledged", n, killMessages)
				}
			})
		}
	}
}

// TestKillBatch kills peers amid batches: those that say so have all of a batch or nothing.
func TestKillBatch(t *testing.T) {
	for _, p := range peers {
		if !p.atomic {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			s := killSpec{Peer: p.name, Promise: powerLoss, Dir: t.TempDir(), Batches: true}
			const acknowledged = 20
			if n := afterKill(t, s, acknowledged); n < acknowledged*killBatch || n%killBatch != 0 {
				t.Errorf("%d messages survived, of batches of %d, of which %d were acknowledged", n, killBatch, acknowledged)
			}
		})
	}
}

// TestChecker lists what a peer may not do with messages.
func TestChecker(t *testing.T) {
	body := func(n int64) []byte {
		b := make([]byte, 128)
		fillBody(b, n)
		return b
	}
	altered := body(1)
	altered[100] ^= 1
	for _, test := range []struct {
		name   string
		order  bool
		bodies [][]byte
		want   string // in the error; "": none
	}{
		{"all", true, [][]byte{body(0), body(1), body(2)}, ""},
		{"any order", false, [][]byte{body(2), body(0), body(1)}, ""},
		{"order", true, [][]byte{body(0), body(2), body(1)}, "it is the turn of 1"},
		{"missing", true, [][]byte{body(0), body(1)}, "2 messages were read, 3 were put"},
		{"twice", false, [][]byte{body(0), body(0)}, "twice"},
		{"too many", true, [][]byte{body(0), body(1), body(2), body(3)}, "number 3 was read, 3 were put"},
		{"altered", true, [][]byte{body(0), altered}, "another body"},
		{"short", true, [][]byte{body(0)[:100]}, "100 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newChecker(128, 3, test.order)
			var err error
			for _, b := range test.bodies {
				if err == nil {
					err = c.check(b)
				}
			}
			if err == nil {
				err = c.complete()
			}
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
