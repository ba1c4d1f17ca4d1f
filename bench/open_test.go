package bench

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/store"
)

// histories are the sizes that BenchmarkOpen fills stores with; those of
// moreHistories are run, too, if -large is given: that takes 13 GiB of disk and a
// minute or two.
var histories = flag.String("histories", "1", "sizes of the log for BenchmarkOpen, in GiB, comma-separated")

var moreHistories = []int{2, 10}

// fillVariable makes this process the one that writes and is killed.
const fillVariable = "POCKETMQ_BENCH_FILL"

func TestMain(m *testing.M) {
	if dir := os.Getenv(fillVariable); dir != "" {
		fill(dir)
	}
	os.Exit(m.Run())
}

// fill adds what the second argument says, in MiB, and then waits to be killed.
func fill(dir string) {
	dir, size, _ := strings.Cut(dir, "|")
	n, err := strconv.Atoi(size)
	if err == nil {
		err = fillStore(dir, int64(n)<<20)
	}
	fmt.Println("filled", err)
	select {} // the parent kills it
}

func fillStore(dir string, bytes int64) error {
	ctx := context.Background()
	s, err := store.Open(ctx, dir, store.Config{Flush: store.FlushAsync})
	if err != nil {
		return err
	}
	body := make([]byte, 16<<10)
	for i, end := 0, int64(s.MaxOffset())+bytes; int64(s.MaxOffset()) < end; i++ {
		m := &message.MessageExtBrokerInner{}
		m.Topic, m.QueueID, m.Body = "bench", int32(i%4), body
		m.Properties = message.Properties("UNIQ_KEY\x01" + fmt.Sprintf("%032d", i))
		if _, err := s.PutMessage(ctx, m); err != nil {
			return err
		}
	}
	return s.WaitDispatched(ctx, s.MaxOffset())
}

// BenchmarkOpen opens a store after it was closed, and after the process that wrote
// to it was killed: then it had added 8 MiB each time. The size of the history should
// not matter.
func BenchmarkOpen(b *testing.B) {
	asked := make(map[int]bool)
	for size := range strings.SplitSeq(*histories, ",") {
		n, err := strconv.Atoi(size)
		check(b, err)
		asked[n] = true
		benchmarkHistory(b, n, func(*testing.B) {})
	}
	for _, n := range moreHistories {
		if !asked[n] {
			benchmarkHistory(b, n, func(b *testing.B) {
				onlyLarge(b, fmt.Sprintf("%d GiB of disk", n), int64(n+1)<<30)
			})
		}
	}
}

// benchmarkHistory opens one store with so many GiB in all ways, if the condition
// does not skip it.
func benchmarkHistory(b *testing.B, history int, condition func(*testing.B)) {
	dir := ""
	for _, after := range []struct {
		name string
		run  func(b *testing.B, dir string)
	}{{"kill", openAfterKill}, {"close", openAfterClose}} {
		b.Run(fmt.Sprintf("after=%s/history=%dGiB", after.name, history), func(sub *testing.B) {
			condition(sub)
			if dir == "" {
				dir = b.TempDir()
				killed(sub, dir, history<<10)
				check(sub, reopen(sub, dir).Close()) // what was not synced then is none of what is measured
			}
			after.run(sub, dir)
		})
	}
}

func openAfterKill(b *testing.B, dir string) {
	b.ReportAllocs()
	read := int64(0)
	for b.Loop() {
		b.StopTimer()
		killed(b, dir, 8)
		b.StartTimer()
		s := reopen(b, dir)
		b.StopTimer()
		r := s.Recovery()
		if r.Clean || !r.FromPoint {
			b.Fatalf("not the recovery that is measured: %+v", r)
		}
		read += r.Bytes
		check(b, s.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(read)/float64(b.N)/(1<<20), "MiB-read/op")
}

func openAfterClose(b *testing.B, dir string) {
	check(b, reopen(b, dir).Close())
	b.ReportAllocs()
	read := int64(0)
	for b.Loop() {
		s := reopen(b, dir)
		b.StopTimer()
		r := s.Recovery()
		if !r.Clean {
			b.Fatalf("not the recovery that is measured: %+v", r)
		}
		read += r.Bytes
		check(b, s.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(read)/float64(b.N)/(1<<20), "MiB-read/op")
}

// killed adds size MiB to the store in dir, in a process that is killed.
func killed(b *testing.B, dir string, size int) {
	b.Helper()
	exe, err := os.Executable()
	check(b, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%d", fillVariable, dir, size))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check(b, err)
	check(b, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	check(b, err)
	check(b, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	if line != "filled <nil>\n" {
		b.Fatal(line)
	}
}
