package interop

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// side is one of the two stores.
type side int

const (
	rocket side = iota
	pocket
)

func (s side) String() string { return [...]string{"RocketMQ", "PocketMQ"}[s] }

func (s side) other() side { return 1 - s }

// childVariable makes the test binary serve PocketMQ's stores.
const childVariable = "POCKETMQ_INTEROP_SERVE"

// javaFlags let RocketMQ unmap files, for which it reaches into the Java
// runtime, and start fast. Only a full disk stops its puts: the disk of a
// developer may be fuller than a broker's.
var javaFlags = []string{
	"--add-opens=java.base/java.nio=ALL-UNNAMED",
	"--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
	"--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
	"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx1g", "-Dfile.encoding=UTF-8", "-Duser.timezone=UTC",
	"-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.999", "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.999",
}

// process holds stores of one side. Its methods may be called concurrently.
type process struct {
	side side
	logs string // directory of RocketMQ's logs
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{} // closed after its last reply

	writing sync.Mutex // held while a command is written; replies are read meanwhile

	mu      sync.Mutex
	lastID  int64
	waiting map[int64]chan reply // nil when no more replies will come
}

// errGone is the answer of a process that has ended.
var errGone = errors.New("the process has ended")

// start runs a process; it is killed at the end of the test at the latest.
func start(t *testing.T, s side) *process {
	t.Helper()
	p := &process{side: s, logs: t.TempDir(), done: make(chan struct{}), waiting: make(map[int64]chan reply)}
	if s == rocket {
		classes := filepath.Join("java", "target", "classes") + string(os.PathListSeparator) + filepath.Join("java", "target", "lib", "*")
		p.cmd = exec.Command("java", append(javaFlags, "-cp", classes, "pocketmq.interop.Driver", p.logs)...)
		p.cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8") // names of files are UTF-8
	} else {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		p.cmd = exec.Command(exe)
		p.cmd.Env = append(os.Environ(), childVariable+"=1")
	}
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in = in
	go p.receive(out)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		_ = p.cmd.Wait()
	})
	return p
}

// receive hands out the replies.
func (p *process) receive(out io.Reader) {
	defer close(p.done)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil { // a line that a kill has cut off is no reply
			break
		}
		var r reply
		if err := json.Unmarshal(line, &r); err != nil {
			r.Error = fmt.Sprintf("reply %.200s: %v", line, err)
		}
		p.mu.Lock()
		p.waiting[r.ID] <- r
		delete(p.waiting, r.ID)
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waiting {
		close(w)
	}
	p.waiting = nil
}

// send gives the process a command; the channel gives its reply, or is closed.
func (p *process) send(c command) <-chan reply {
	w := make(chan reply, 1)
	p.mu.Lock()
	p.lastID++
	c.ID = p.lastID
	gone := p.waiting == nil
	if !gone {
		p.waiting[c.ID] = w
	}
	p.mu.Unlock()
	if gone {
		close(w)
		return w
	}
	text, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_, _ = p.in.Write(append(text, '\n')) // that of a process that has ended fails, and so do its replies
	return w
}

// result waits for a reply and reads it into v, if that is not nil.
func (p *process) result(store string, w <-chan reply, v any) error {
	r, ok := <-w
	switch {
	case !ok:
		return fmt.Errorf("%v: %w", p.side, errGone)
	case r.Error != "":
		return fmt.Errorf("%v: %s%s", p.side, r.Error, p.warnings(store))
	case v == nil:
		return nil
	}
	return json.Unmarshal(r.Result, v)
}

func (p *process) open(d *directory) error {
	args := d.args
	args.Dir = d.path
	return p.result(d.name, p.send(command{Store: d.name, Op: "open", Open: &args}), nil)
}

func (p *process) close(d *directory) error {
	return p.result(d.name, p.send(command{Store: d.name, Op: "close"}), nil)
}

func (p *process) list(d *directory) (l listing, err error) {
	err = p.result(d.name, p.send(command{Store: d.name, Op: "list"}), &l)
	l.settle()
	return l, err
}

func (p *process) ask(d *directory, questions []question) (answers []answer, err error) {
	err = p.result(d.name, p.send(command{Store: d.name, Op: "ask", Questions: questions}), &answers)
	if err == nil && len(answers) != len(questions) {
		err = fmt.Errorf("%v: %d answers to %d questions", p.side, len(answers), len(questions))
	}
	return answers, err
}

// put sends messages, all at once, and gives acknowledged the answers, in order.
// It returns errGone when the process ends before it has answered all.
func (p *process) put(d *directory, puts []*put, acknowledged func(*put, placement) error) error {
	replies := make(chan (<-chan reply), len(puts))
	go func() {
		defer close(replies)
		for _, m := range puts {
			replies <- p.send(command{Store: d.name, Op: "put", Message: m})
		}
	}()
	var failed error
	for i := 0; ; i++ {
		w, ok := <-replies
		if !ok {
			return failed
		}
		if failed != nil {
			continue // the goroutine goes on to its end
		}
		var at placement
		if failed = p.result(d.name, w, &at); failed == nil {
			failed = acknowledged(puts[i], at)
		}
	}
}

// stop ends the process, whose stores were closed.
func (p *process) stop() error {
	_ = p.in.Close()
	<-p.done
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%v: %w", p.side, err)
	}
	return nil
}

// kill ends the process as a power button does, for the process.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	<-p.done
	var exit *exec.ExitError
	if wait := p.cmd.Wait(); !errors.As(wait, &exit) || exit.Exited() {
		err = errors.Join(err, fmt.Errorf("%v ended by itself: %w", p.side, wait))
	}
	return err
}

// log returns the lines that RocketMQ wrote about a store.
func (p *process) log(store string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(p.logs, store+".log"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), err
}

// warnings are the last of them in the log of a store, to be shown with an error.
func (p *process) warnings(store string) string {
	lines, _ := p.log(store)
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "INFO") })
	text := ""
	for _, line := range lines[max(0, len(lines)-5):] {
		text += "\n\t" + line
	}
	return text
}
