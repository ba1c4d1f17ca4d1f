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

// histories are the sizes that BenchmarkOpen fills stores with; -histories=1,4,10
// takes about a minute and 10 GiB of disk.
var histories = flag.String("histories", "1", "sizes of the log for BenchmarkOpen, in GiB, comma-separated")

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

// BenchmarkOpen opens a store after the process that wrote to it was killed: each
// time it had added 8 MiB to what was there. The size of the history should not
// matter.
func BenchmarkOpen(b *testing.B) {
	for size := range strings.SplitSeq(*histories, ",") {
		n, err := strconv.Atoi(size)
		check(b, err)
		b.Run(fmt.Sprintf("after=kill/history=%dGiB", n), func(b *testing.B) { benchmarkOpen(b, n<<10) })
	}
}

func benchmarkOpen(b *testing.B, history int) {
	dir := b.TempDir()
	killed(b, dir, history)
	read := int64(0)
	for b.Loop() {
		b.StopTimer()
		killed(b, dir, 8)
		b.StartTimer()
		s, err := store.Open(context.Background(), dir, store.Config{Flush: store.FlushAsync})
		b.StopTimer()
		check(b, err)
		if r := s.Recovery(); r.Clean || !r.FromPoint {
			b.Fatalf("not the recovery that is measured: %+v", r)
		}
		read += s.Recovery().Bytes
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
