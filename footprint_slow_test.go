//go:build slow && linux

package pocketmq_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/store"
)

// What a process with a node in it takes: memory, processor, and writes while
// nothing happens. Each is measured in a process of its own, whose output a test
// shows with -v.

func init() {
	parts["memory"] = memoryPart
	parts["edge"] = edgePart
	parts["idle store"] = idleStorePart
	parts["idle node"] = idleNodePart
}

// Variables of the parts.
const (
	footprintBytes = "POCKETMQ_TEST_BYTES"  // of bodies, for TestMemoryOfManyQueues
	footprintGroup = "POCKETMQ_TEST_CGROUP" // whose memory is limited
)

// playPart runs a part in a directory and shows what it prints.
func playPart(t *testing.T, name, dir string, env ...string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(append(os.Environ(), partVariable+"="+name, partDir+"="+dir), env...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s:\n%s", name, out)
	require.NoError(t, err)
}

// TestMemoryOfManyQueues: however much is stored, in 1,000 queues, a process
// that sends, is started again and receives takes less than 64 MiB of memory,
// apart from pages of files. It stores 1 GiB; POCKETMQ_TEST_BYTES says otherwise.
func TestMemoryOfManyQueues(t *testing.T) { playPart(t, "memory", t.TempDir()) }

func memoryPart(ctx context.Context, dir string) error {
	total := int64(1 << 30)
	if text := os.Getenv(footprintBytes); text != "" {
		var err error
		if total, err = strconv.ParseInt(text, 10, 64); err != nil {
			return err
		}
	}
	const queues, size = 1000, 1024
	cfg := pocketmq.Config{Dir: dir, Store: store.Config{Flush: store.FlushAsync, MaxMappedFiles: queues + 100}} // all are in use at once
	var most memoryPeak
	node, err := pocketmq.OpenConfig(ctx, cfg)
	if err != nil {
		return err
	}
	err = errors.Join(func() error {
		if err := node.CreateTopic(ctx, pocketmq.TopicConfig{Name: "t", ReadQueueNums: queues, WriteQueueNums: queues}); err != nil {
			return err
		}
		p, err := node.Producer("p")
		if err != nil {
			return err
		}
		m := &pocketmq.Message{Topic: "t", Body: make([]byte, size)}
		for i := range total / size {
			if _, err := p.Send(ctx, m); err != nil {
				return err
			}
			most.look(i)
		}
		return node.Store().WaitDispatched(ctx, node.Store().MaxOffset())
	}(), node.Close())
	if err != nil {
		return err
	}
	if err := most.report("sent", node.Store().Stats().Bytes); err != nil {
		return err
	}
	most = memoryPeak{}
	if node, err = pocketmq.OpenConfig(ctx, cfg); err != nil {
		return err
	}
	err = func() error {
		for round := range int64(100) {
			for queue := range int32(queues) {
				r, err := node.Store().GetMessage(ctx, store.GetQuery{Topic: "t", QueueID: queue, MaxCount: 32, Verify: true})
				if err != nil {
					return err
				}
				r.Release()
			}
			most.look(round * 4096)
		}
		return nil
	}()
	return errors.Join(err, most.report("opened again, 100 gets from each queue", int64(node.Store().MaxOffset())), node.Close())
}

// memoryPeak is the most memory of this process that was seen, in KiB, without
// what are pages of files.
type memoryPeak struct{ kib int64 }

// look is called for each i, and looks at some.
func (p *memoryPeak) look(i int64) {
	if i%4096 != 0 {
		return
	}
	text, err := os.ReadFile("/proc/self/status")
	check(err)
	_, value, _ := strings.Cut(string(text), "RssAnon:")
	var kib int64
	_, err = fmt.Sscan(value, &kib)
	check(err)
	p.kib = max(p.kib, kib)
}

func (p *memoryPeak) report(what string, stored int64) error {
	p.look(0)
	fmt.Printf("%s: %.1f MiB of memory with %.1f GiB stored\n", what, float64(p.kib)/1024, float64(stored)/(1<<30))
	if p.kib > 64<<10 {
		return fmt.Errorf("%s: %d KiB", what, p.kib)
	}
	return nil
}

// TestEdgeConfigIn32MiB: a process that may have 32 MiB of memory, pages of files
// and the kernel's own counted, sends and receives 200 MiB through a store of
// EdgeConfig.
func TestEdgeConfigIn32MiB(t *testing.T) {
	group := limitedMemory(t, 32<<20)
	dir := filepath.Join(t.TempDir(), "store")
	playPart(t, "edge", dir, footprintGroup+"="+group)
	for _, name := range []string{"memory.peak", "memory.events", "memory.max_usage_in_bytes", "memory.failcnt", "memory.oom_control"} {
		if text, err := os.ReadFile(filepath.Join(group, name)); err == nil {
			t.Logf("%s: %s", name, strings.TrimSpace(string(text)))
		}
	}
	require.LessOrEqual(t, onDisk(t, dir), int64(8<<20))
}

// limitedMemory makes a control group that may have so much memory.
func limitedMemory(t *testing.T, limit int64) (group string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: a limit of memory; missing: root")
	}
	top, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes" // version 1
	if controllers, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		if !strings.Contains(string(controllers), "memory") {
			t.Skip("NOT TESTED: a limit of memory; missing: the memory controller")
		}
		top, file = "/sys/fs/cgroup", "memory.max"
		if err := os.WriteFile(filepath.Join(top, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
			t.Skip("NOT TESTED: a limit of memory; missing: the right to set it: " + err.Error())
		}
	}
	group, err := os.MkdirTemp(top, "pocketmq-test-") //nolint:usetesting // it is no directory of files
	if err != nil {
		t.Skip("NOT TESTED: a limit of memory; missing: a control group: " + err.Error())
	}
	t.Cleanup(func() { require.NoError(t, os.Remove(group)) })
	require.NoError(t, os.WriteFile(filepath.Join(group, file), []byte(strconv.FormatInt(limit, 10)), 0))
	return group
}

func edgePart(ctx context.Context, dir string) error {
	procs := filepath.Join(os.Getenv(footprintGroup), "cgroup.procs")
	if err := os.WriteFile(procs, []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return err
	}
	cfg := pocketmq.Config{Dir: dir, Store: store.EdgeConfig()}
	cfg.Store.Flush, cfg.Store.WhenFull = store.FlushAsync, store.BlockWhenFull
	node, err := pocketmq.OpenConfig(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(passThrough(ctx, node, 200<<20), node.Close())
}

// passThrough sends so many bytes, and receives them.
func passThrough(ctx context.Context, node *pocketmq.Node, total int) error {
	const size = 10 << 10
	if err := node.CreateTopic(ctx, pocketmq.TopicConfig{Name: "sensors", ReadQueueNums: 2, WriteQueueNums: 2}); err != nil {
		return err
	}
	consumer, err := node.NewConsumer(ctx, mq.ConsumerConfig{Group: "uplink", Topic: "sensors", AutoCommit: true})
	if err != nil {
		return err
	}
	producer, err := node.Producer("device")
	if err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		m := &pocketmq.Message{Topic: "sensors", Body: make([]byte, size)}
		for range total / size {
			if _, err := producer.Send(ctx, m); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	var most memoryPeak
	for i := range total / size {
		if _, err := consumer.Receive(ctx); err != nil {
			return err
		}
		most.look(int64(i))
	}
	fmt.Printf("%d messages sent and received, %.1f MiB of memory without pages of files\n", total/size, float64(most.kib)/1024)
	return <-sent
}

// TestIdleTakesNothing: for 5 seconds a store, and a node with a consumer that
// waits, write nothing and take less than 0.5 percent of one processor.
func TestIdleTakesNothing(t *testing.T) {
	for _, part := range []string{"idle store", "idle node"} {
		t.Run(part, func(t *testing.T) { playPart(t, part, t.TempDir()) })
	}
}

func idleStorePart(ctx context.Context, dir string) error {
	s, err := store.Open(ctx, dir, store.Config{})
	if err != nil {
		return err
	}
	m := &message.MessageExtBrokerInner{}
	m.Topic, m.Body = "t", []byte("x")
	put := func() error {
		_, err := s.PutMessage(ctx, m)
		return err
	}
	return errors.Join(idle(put), s.Close())
}

func idleNodePart(ctx context.Context, dir string) error {
	node, err := pocketmq.Open(ctx, dir)
	if err != nil {
		return err
	}
	return errors.Join(func() error {
		if err := node.CreateTopic(ctx, pocketmq.TopicConfig{Name: "t", ReadQueueNums: 4, WriteQueueNums: 4}); err != nil {
			return err
		}
		producer, err := node.Producer("p")
		if err != nil {
			return err
		}
		consumer, err := node.NewConsumer(ctx, mq.ConsumerConfig{Group: "g", Topic: "t", AutoCommit: true})
		if err != nil {
			return err
		}
		received := make(chan error)
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				_, err := consumer.Receive(ctx)
				if errors.Is(err, pocketmq.ErrClosed) {
					return
				}
				received <- err
			}
		})
		send := func() error {
			if _, err := producer.Send(ctx, &pocketmq.Message{Topic: "t", Body: []byte("x")}); err != nil {
				return err
			}
			return <-received
		}
		err = errors.Join(idle(send), consumer.Close())
		wg.Wait()
		return err
	}(), node.Close())
}

// idle does something, waits until all that follows is done, looks for 5 seconds
// what happens, and does something again, to see that it would have been seen. It
// looks again when there was something: on a busy machine what follows may be late.
func idle(do func() error) error {
	if err := do(); err != nil {
		return err
	}
	time.Sleep(12 * time.Second) // what is due after a message: offsets are saved every 5 seconds
	var written, writtenAfter int64
	var busy, busyAfter time.Duration
	for range 4 {
		written, busy = use()
		time.Sleep(5 * time.Second)
		writtenAfter, busyAfter = use()
		if writtenAfter == written && busyAfter-busy <= idleMost {
			break
		}
	}
	if err := do(); err != nil {
		return err
	}
	seen, _ := use()
	took := float64((busyAfter - busy).Microseconds()) / 1000
	fmt.Printf("%d bytes written, %.2f ms of a processor in 5 s (%.3f %%); by one message %d bytes\n",
		writtenAfter-written, took, took/50, seen-writtenAfter)
	switch {
	case seen == writtenAfter:
		fmt.Println("NOT TESTED: writes, which are not counted on this file system")
	case writtenAfter != written:
		return fmt.Errorf("%d bytes were written", writtenAfter-written)
	}
	if busyAfter-busy > idleMost {
		return fmt.Errorf("%v of a processor", busyAfter-busy)
	}
	return nil
}

// idleMost is how long an idle process may use a processor in 5 seconds.
const idleMost = 25 * time.Millisecond

// use is what this process has written to disks, and how long it ran.
func use() (written int64, busy time.Duration) {
	text, err := os.ReadFile("/proc/self/io")
	check(err)
	_, value, _ := strings.Cut(string(text), "\nwrite_bytes:")
	_, err = fmt.Sscan(value, &written)
	check(err)
	var u unix.Rusage
	check(unix.Getrusage(unix.RUSAGE_SELF, &u))
	return written, time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
