package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/message"
)

// A child is this test binary, started again with a part to play.
const (
	childVariable = "POCKETMQ_TEST_CHILD" // the name of the part
	childDir      = "POCKETMQ_TEST_DIR"
	childSeed     = "POCKETMQ_TEST_SEED"
)

// childParts are those that not every system has.
var childParts = map[string]func() error{}

func runChild(name string) int {
	var err error
	switch name {
	case "SYNC_FLUSH":
		err = childWrites(FlushSync)
	case "ASYNC_FLUSH":
		err = childWrites(FlushAsync)
	case "open":
		var s *DefaultMessageStore
		if s, err = Open(context.Background(), os.Getenv(childDir), Config{}); err == nil {
			err = s.Close()
		}
		fmt.Println(errors.Is(err, message.ErrLocked), err)
		return 0
	default:
		part := childParts[name]
		if part == nil {
			part = func() error { return fmt.Errorf("no part %q", name) }
		}
		if err = part(); err == nil {
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// child prepares a child; it is skipped where the binary can not start itself.
func child(t *testing.T, name, dir string, seed uint64) *exec.Cmd {
	t.Helper()
	if testing.Short() {
		t.Skip("needs to start its own binary again, which an emulator can not")
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childVariable+"="+name, childDir+"="+dir, fmt.Sprint(childSeed, "=", seed))
	cmd.Stderr = os.Stderr
	return cmd
}

// childWrites puts messages until it is killed. It says on standard output
// which it sends, and what it was answered.
func childWrites(mode FlushMode) error {
	cfg := smallConfig(mode)
	cfg.FlushInterval = 20 * time.Millisecond
	s, err := Open(context.Background(), os.Getenv(childDir), cfg)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	say("open")
	failed := make(chan error)
	for w := range 3 {
		go func() {
			for i := 0; ; i++ {
				// The body begins with all that the parent needs to know.
				body := fmt.Sprintf("%s-%d-%d-%d ", os.Getenv(childSeed), os.Getpid(), w, i)
				m := childMessage(body, w, i)
				say("sent %s %d %d", body, w, i)
				r, err := s.PutMessage(context.Background(), m)
				if err != nil {
					failed <- err
					return
				}
				say("kept %s %d %d", body, r.QueueOffset, r.LogOffset)
			}
		}()
	}
	return <-failed
}

// childMessage is the i-th message of writer w.
func childMessage(body string, w, i int) *message.MessageExtBrokerInner {
	m := inner(fmt.Sprint("topic", w%2), int32(i%2), body+strings.Repeat("x", i*37%700))
	m.Properties = message.Properties("TAGS\x01" + fmt.Sprint("tag", i%3))
	return m
}

// killedAfter lets a child write until it got some answers, kills it, and adds
// what it said to the truth.
func killedAfter(t *testing.T, tr *truth, mode FlushMode, dir string, seed uint64, answers int) {
	t.Helper()
	cmd := child(t, mode.String(), dir, seed)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	kept := 0
	lines := bufio.NewReader(out)
	bodies := make(map[string]string) // by what the child calls them
	for {
		line, err := lines.ReadString('\n')
		if err != nil { // a last line may be cut off
			require.ErrorIs(t, err, io.EOF)
			break
		}
		f := strings.Fields(line)
		switch f[0] {
		case "sent":
			var w, i int
			_, err := fmt.Sscan(f[2]+" "+f[3], &w, &i)
			require.NoError(t, err)
			m := childMessage(f[1]+" ", w, i)
			bodies[f[1]] = string(m.Body)
			tr.send(m.QueueID, m.Message)
		case "kept":
			var q message.QueueOffset
			var off message.LogOffset
			_, err := fmt.Sscan(f[2]+" "+f[3], &q, &off)
			require.NoError(t, err)
			tr.answered(PutMessageResult{QueueOffset: q, LogOffset: off}, true, message.Message{Body: []byte(bodies[f[1]])})
			if kept++; kept == answers {
				require.NoError(t, cmd.Process.Kill())
			}
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.False(t, exit.Exited(), "the child ended by itself: %v", err)
}

// TestKilledProcessLosesNothing: the page cache survives the process, so both
// modes keep what they answered.
func TestKilledProcessLosesNothing(t *testing.T) {
	for _, mode := range bothModes {
		t.Run(mode.String(), func(t *testing.T) {
			const seed = 5
			r := rand.New(rand.NewPCG(seed, uint64(mode)))
			dir, tr := scratch(t), newTruth()
			for round := range 5 {
				killedAfter(t, tr, mode, dir, uint64(round), 20+r.IntN(150))
				_, kept := tr.mark()
				copied := copyTree(t, dir)
				if _, err := tr.verifyDir(copied, smallConfig(mode), kept); err != nil {
					t.Fatalf("seed %d, round %d: %v", seed, round, err)
				}
			}
		})
	}
}

// TestDerivedFilesMayBeLost: the log is the truth; what is derived from it can
// be missing or damaged, after a kill and after a clean stop.
func TestDerivedFilesMayBeLost(t *testing.T) {
	killed := func(t *testing.T) (string, *truth) {
		dir, tr := scratch(t), newTruth()
		killedAfter(t, tr, FlushSync, dir, 9, 300)
		return dir, tr
	}
	clean := func(t *testing.T) (string, *truth) {
		dir, tr := scratch(t), newTruth()
		s := openStore(t, dir, smallConfig(FlushSync))
		sc := &scene{cfg: smallConfig(FlushSync), truth: tr, rand: rand.New(rand.NewPCG(9, 9))}
		require.NoError(t, sc.work(s, 20))
		closeStore(t, s)
		return dir, tr
	}
	for name, made := range map[string]func(*testing.T) (string, *truth){"killed": killed, "clean": clean} {
		t.Run(name, func(t *testing.T) {
			dir, tr := made(t)
			_, kept := tr.mark()
			whole, err := tr.verifyDir(copyTree(t, dir), smallConfig(FlushSync), kept)
			require.NoError(t, err)
			for _, l := range derivedLosses(t, dir) {
				t.Run(l.name, func(t *testing.T) {
					d := copyTree(t, dir)
					l.lose(t, d)
					f, err := tr.verifyDir(d, smallConfig(FlushSync), kept)
					require.NoError(t, err)
					require.Equal(t, whole.queues, f.queues)
					require.Equal(t, whole.messages, f.messages)
				})
			}
		})
	}
}

type derivedLoss struct {
	name string
	lose func(t *testing.T, dir string)
}

// derivedLosses lists what can happen to the derived files of a store.
func derivedLosses(t *testing.T, dir string) []derivedLoss {
	t.Helper()
	var losses []derivedLoss
	add := func(name string, lose func(path string) error, parts ...string) {
		losses = append(losses, derivedLoss{name, func(t *testing.T, dir string) {
			require.NoError(t, lose(filepath.Join(append([]string{dir}, parts...)...)))
		}})
	}
	random := func(path string) error {
		b := make([]byte, 64)
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		return os.WriteFile(path, b, 0o600)
	}
	half := func(path string) error {
		b, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(path, b[:len(b)/2], 0o600))
	}
	empty := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	for _, file := range [][]string{{"checkpoint"}, {ownDir, pointFile}, {ownDir, ownerFile}} {
		name := strings.Join(file, "/")
		add(name+" missing", os.RemoveAll, file...)
		add(name+" empty", empty, file...)
		add(name+" random", random, file...)
		if _, err := os.Stat(filepath.Join(append([]string{dir}, file...)...)); err == nil {
			add(name+" half", half, file...)
		}
	}
	add("all queues missing", os.RemoveAll, "consumequeue")
	add("a topic missing", func(path string) error {
		topics, err := os.ReadDir(path)
		return errors.Join(err, os.RemoveAll(filepath.Join(path, topics[0].Name())))
	}, "consumequeue")
	queues, err := filepath.Glob(filepath.Join(dir, "consumequeue", "*", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, queues)                              // after a kill perhaps not all of them
	queues = slices.DeleteFunc(queues, func(q string) bool { // made, and killed before its first file
		files, err := os.ReadDir(q)
		return err == nil && len(files) == 0
	})
	require.NotEmpty(t, queues)
	for _, q := range slices.Compact([]string{queues[0], queues[len(queues)-1]}) {
		rel, err := filepath.Rel(dir, q)
		require.NoError(t, err)
		add("one queue missing, "+filepath.Base(filepath.Dir(q)), os.RemoveAll, rel)
		add("the last file of one queue missing, "+filepath.Base(filepath.Dir(q)), func(path string) error {
			files, err := filepath.Glob(filepath.Join(path, "*"))
			slices.Sort(files)
			return errors.Join(err, os.Remove(files[len(files)-1]))
		}, rel)
		add("the last file of one queue empty, "+filepath.Base(filepath.Dir(q)), func(path string) error {
			files, err := filepath.Glob(filepath.Join(path, "*"))
			slices.Sort(files)
			return errors.Join(err, os.Truncate(files[len(files)-1], 0))
		}, rel)
		add("the last file of one queue all zero, "+filepath.Base(filepath.Dir(q)), func(path string) error {
			files, err := filepath.Glob(filepath.Join(path, "*"))
			slices.Sort(files)
			last := files[len(files)-1]
			return errors.Join(err, os.WriteFile(last, make([]byte, testQueueFile), 0o600))
		}, rel)
	}
	return losses
}
