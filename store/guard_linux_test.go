package store

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// What the calling thread has done so far.
const (
	minorFaults = iota
	majorFaults
	threadWaits    // voluntary context switches: it gave its processor away
	readsAndWrites // system calls that read or write
	threadCounts
)

// TestGuardThread counts what the thread of a goroutine does that puts 1 KiB
// under FlushAsync, into space that is ready ahead of it. Limits are for 1,000
// puts, which write 290 pages of 4 KiB. What others do to the thread is in some
// rounds, what a put does is in all of them: the least of each count is compared.
func TestGuardThread(t *testing.T) {
	notEmulated(t)
	if raceEnabled {
		t.Skip("the race detector's own memory takes page faults")
	}
	const rounds, puts = 16, 250            // of a round: they fit into half of what is ready
	var least, counting [threadCounts]int64 // what the counting itself takes
	synctest.Test(t, func(t *testing.T) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
		s := openStore(t, scratch(t), guardConfig(FlushAsync, 16<<20))
		m := tagged("t", string(make([]byte, 1000)), "TagA")
		for round := range 2 * rounds {
			synctest.Wait() // what is ahead is ready
			before, begin := threadSoFar(t), threadSoFar(t)
			for range puts {
				if _, err := s.PutMessage(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			end := threadSoFar(t)
			if round == rounds { // what is ready has grown until here
				least, counting = since(end, begin), since(begin, before)
			}
			least, counting = lesser(least, since(end, begin)), lesser(counting, since(begin, before))
		}
		closeStore(t, s)
	})
	for what, c := range map[string]struct {
		count int
		limit int64
	}{
		"major faults":     {majorFaults, 0},
		"minor faults":     {minorFaults, 20}, // now and then the edge of what is ready; without preparation 290
		"waits":            {threadWaits, 8},  // for a lock that another goroutine holds for a moment
		"reads and writes": {readsAndWrites, 0},
	} {
		t.Run(what, func(t *testing.T) {
			if c.count == readsAndWrites && !threadIOCounted() {
				t.Skip("this kernel does not count the reads and writes of a thread")
			}
			n := least[c.count] - counting[c.count]
			t.Log(n, "in a round")
			require.LessOrEqual(t, n*1000/puts, c.limit)
		})
	}
}

func since(a, b [threadCounts]int64) [threadCounts]int64 {
	for i := range a {
		a[i] -= b[i]
	}
	return a
}

func lesser(a, b [threadCounts]int64) [threadCounts]int64 {
	for i := range a {
		a[i] = min(a[i], b[i])
	}
	return a
}

const threadIO = "/proc/thread-self/io"

func threadIOCounted() bool {
	_, err := os.ReadFile(threadIO)
	return err == nil
}

// threadSoFar reads itself, about the same each time.
func threadSoFar(t *testing.T) (n [threadCounts]int64) {
	t.Helper()
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &u))
	n[minorFaults], n[majorFaults], n[threadWaits] = int64(u.Minflt), int64(u.Majflt), int64(u.Nvcsw) //nolint:unconvert // shorter on some processors
	if text, err := os.ReadFile(threadIO); err == nil {
		n[readsAndWrites] = ioCount(t, string(text), "syscr") + ioCount(t, string(text), "syscw")
	}
	return n
}

func ioCount(t *testing.T, text, field string) (n int64) {
	t.Helper()
	_, value, _ := strings.Cut(text, field+":")
	_, err := fmt.Sscan(value, &n)
	require.NoError(t, err, text)
	return n
}
