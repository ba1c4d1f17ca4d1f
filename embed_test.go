package pocketmq_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/mq"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

// dir is where the example keeps its messages.
var dir string

// childDir is the environment variable that makes this program the one that is
// killed: its value is the directory to send into.
const childDir = "POCKETMQ_TEST_CHILD_DIR"

// parts are what a process may do that is this program again, in a directory: the
// environment names both. What is measured of a whole process is measured there.
var parts = map[string]func(ctx context.Context, dir string) error{}

const (
	partVariable = "POCKETMQ_TEST_PART"
	partDir      = "POCKETMQ_TEST_PART_DIR"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir, os.Getenv("POCKETMQ_TEST_CHILD_FLUSH"))
		return
	}
	if part := parts[os.Getenv(partVariable)]; part != nil {
		check(part(context.Background(), os.Getenv(partDir)))
		return
	}
	var err error
	if dir, err = os.MkdirTemp("", "pocketmq-example-"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

func open(t *testing.T, cfg pocketmq.Config) *pocketmq.Node {
	t.Helper()
	node, err := pocketmq.OpenConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { node.Close() })
	return node
}

func smallStore(flush store.FlushMode) store.Config {
	return store.Config{
		Flush: flush, FlushTimeout: 10 * time.Minute, // for a busy machine
		SegmentSize: 1 << 20, ConsumeQueueFileSize: 500 * 20, MaxBodySize: 256 << 10,
	}
}

// TestEmbed is an application's life: topics, messages with tags over all
// queues, a restart, and everything is read back as it was sent.
func TestEmbed(t *testing.T) {
	for _, flush := range []store.FlushMode{store.FlushSync, store.FlushAsync} {
		t.Run(flush.String(), func(t *testing.T) {
			t.Parallel()
			cfg := pocketmq.Config{Dir: t.TempDir(), Store: smallStore(flush)}
			node := open(t, cfg)
			require.NoError(t, node.CreateTopic(t.Context(), pocketmq.TopicConfig{Name: "sensors", ReadQueueNums: 3, WriteQueueNums: 3}))
			sent := sendAll(t, node, 200)
			require.NoError(t, node.Close())
			require.NoError(t, node.Close(), "Close is idempotent")
			_, err := node.Producer("late")
			require.ErrorIs(t, err, pocketmq.ErrClosed)

			node = open(t, cfg)
			topics, err := node.Topics(t.Context())
			require.NoError(t, err)
			require.Len(t, topics, 1)
			consumer, err := node.Consumer(t.Context(), "reader", "sensors")
			require.NoError(t, err)
			got := receive(t, consumer, len(sent))
			requireSame(t, sent, got)
			require.NoError(t, consumer.CommitSync(t.Context()))
			require.NoError(t, node.Close())

			node = open(t, cfg)
			consumer, err = node.Consumer(t.Context(), "reader", "sensors")
			require.NoError(t, err)
			requireNothing(t, consumer)
		})
	}
}

// sentMessage is what was sent, with what Send said.
type sentMessage struct {
	m *pocketmq.Message
	r mq.SendResult
}

func sendAll(t *testing.T, node *pocketmq.Node, n int) []sentMessage {
	t.Helper()
	producer, err := node.Producer("embed")
	require.NoError(t, err)
	var sent []sentMessage
	for i := range n {
		p, err := message.NewProperties(message.PropertyTags, []string{"red", "green"}[i%2], message.PropertyKeys, strconv.Itoa(i))
		require.NoError(t, err)
		m := &pocketmq.Message{Topic: "sensors", Flag: int32(i), Body: body(i), Properties: p}
		r, err := producer.Send(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, mq.SendOK, r.Status)
		sent = append(sent, sentMessage{m, r})
	}
	return sent
}

// body is different for every i, in length too.
func body(i int) []byte {
	r := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), byte(i >> 16)})
	b := make([]byte, 1+i*37%6000)
	_, _ = r.Read(b)
	return b
}

func receive(t *testing.T, consumer *mq.Consumer, n int) []*pocketmq.MessageExt {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []*pocketmq.MessageExt
	for len(got) < n {
		m, err := consumer.Receive(ctx)
		require.NoError(t, err, "after %d messages of %d", len(got), n)
		got = append(got, m)
	}
	return got
}

func requireNothing(t *testing.T, consumer *mq.Consumer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	m, err := consumer.Receive(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Nil(t, m)
}

func requireSame(t *testing.T, sent []sentMessage, got []*pocketmq.MessageExt) {
	t.Helper()
	type place struct {
		queue  int32
		offset message.QueueOffset
	}
	byPlace := map[place]sentMessage{}
	for _, s := range sent {
		byPlace[place{s.r.Queue.QueueID, s.r.QueueOffset}] = s
	}
	require.Len(t, byPlace, len(sent), "two messages have one place")
	next := map[int32]message.QueueOffset{}
	for _, m := range got {
		require.Equal(t, next[m.QueueID], m.QueueOffset, "order of queue %d", m.QueueID)
		next[m.QueueID]++
		s, ok := byPlace[place{m.QueueID, m.QueueOffset}]
		require.True(t, ok)
		require.Equal(t, s.m.Body, m.Body)
		require.Equal(t, s.m.Flag, m.Flag)
		require.Equal(t, s.m.Tags(), m.Tags())
		require.Equal(t, s.m.Keys(), m.Keys())
		require.Equal(t, s.r.MsgID, m.ID())
		require.Equal(t, s.r.OffsetMsgID, m.OffsetMessageID())
		require.Equal(t, s.r.Queue.BrokerName, m.BrokerName)
	}
}

// TestOneNodePerDirectory wants the second one refused while the first is open.
func TestOneNodePerDirectory(t *testing.T) {
	cfg := pocketmq.Config{Dir: t.TempDir(), Store: smallStore(store.FlushAsync)}
	node := open(t, cfg)
	_, err := pocketmq.OpenConfig(t.Context(), cfg)
	require.ErrorIs(t, err, pocketmq.ErrLocked)
	require.NoError(t, node.Shutdown(t.Context()))
	require.NoError(t, open(t, cfg).Close())
}

// TestTopicsFileLost deletes RocketMQ's topic table: the queues that the store
// has make up for it.
func TestTopicsFileLost(t *testing.T) {
	cfg := pocketmq.Config{Dir: t.TempDir(), Store: smallStore(store.FlushAsync)}
	node := open(t, cfg)
	require.NoError(t, node.CreateTopic(t.Context(), pocketmq.TopicConfig{Name: "sensors", ReadQueueNums: 3, WriteQueueNums: 3}))
	sent := sendAll(t, node, 20)
	require.NoError(t, node.Close())
	files, err := filepath.Glob(filepath.Join(cfg.Dir, "config", "topics.json*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		require.NoError(t, os.Remove(f))
	}

	node = open(t, cfg)
	topics, err := node.Topics(t.Context())
	require.NoError(t, err)
	require.Equal(t, []pocketmq.TopicConfig{{Name: "sensors", ReadQueueNums: 3, WriteQueueNums: 3, Perm: protocol.PermReadWrite}}, topics)
	consumer, err := node.Consumer(t.Context(), "reader", "sensors")
	require.NoError(t, err)
	requireSame(t, sent, receive(t, consumer, len(sent)))
}

// TestDamagedMessage flips a byte of a body on disk: the consumer is told where,
// and gets everything else.
func TestDamagedMessage(t *testing.T) {
	cfg := pocketmq.Config{Dir: t.TempDir(), Store: smallStore(store.FlushAsync)}
	node := open(t, cfg)
	producer, err := node.Producer("embed")
	require.NoError(t, err)
	queue := protocol.MessageQueue{Topic: "letters", BrokerName: node.Broker().Name()}
	for i := range 5 {
		_, err := producer.SendToQueue(t.Context(), &pocketmq.Message{Topic: "letters", Body: fmt.Appendf(nil, "letter number %d", i)}, queue)
		require.NoError(t, err)
	}
	require.NoError(t, node.Store().Flush(t.Context()))
	flip(t, filepath.Join(cfg.Dir, "commitlog", "00000000000000000000"), "letter number 2")

	consumer, err := node.Consumer(t.Context(), "reader", "letters")
	require.NoError(t, err)
	var bodies []string
	for m, err := range consumer.Messages(t.Context()) {
		var skipped *pocketmq.SkippedError
		if errors.As(err, &skipped) {
			require.ErrorIs(t, err, pocketmq.ErrCorrupt)
			require.Equal(t, queue, skipped.Queue)
			bodies = append(bodies, fmt.Sprintf("skipped [%d,%d)", skipped.From, skipped.To))
			continue
		}
		require.NoError(t, err)
		bodies = append(bodies, string(m.Body))
		if len(bodies) == 5 {
			break
		}
	}
	require.Equal(t, []string{"letter number 0", "letter number 1", "skipped [2,3)", "letter number 3", "letter number 4"}, bodies)
}

func flip(t *testing.T, file, text string) {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	at := bytes.Index(content, []byte(text))
	require.GreaterOrEqual(t, at, 0)
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{content[at] ^ 1}, int64(at))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// TestKill kills a process with SIGKILL while it sends from several goroutines,
// again and again in one directory. Afterwards every acknowledged message is
// there, once, in dense and ordered queues, and beside them only messages whose
// acknowledgement was cut off.
func TestKill(t *testing.T) {
	for _, flush := range []store.FlushMode{store.FlushSync, store.FlushAsync} {
		t.Run(flush.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			acked := map[string]string{} // by body: "queue/offset"
			unacked := 0
			for round := range 5 {
				// The first byte of a line may be lost, but no line comes too early.
				for _, line := range runAndKill(t, dir, flush, round, 40+rand.IntN(200)) {
					text, place, _ := strings.Cut(line, " ")
					require.NotContains(t, acked, text)
					acked[text] = place
				}
				found := readAll(t, dir, flush)
				for text, place := range acked {
					require.Equal(t, place, found[text], "round %d: %s", round, text)
				}
				// Each of the child's goroutines has at most one send under way.
				unacked += senders
				require.LessOrEqual(t, len(found), len(acked)+unacked)
			}
		})
	}
}

const senders = 4

// child sends until it is killed, and writes a line for each acknowledgement.
func child(dir, flush string) {
	cfg := pocketmq.Config{Dir: dir, Store: smallStore(store.FlushSync)}
	if flush == store.FlushAsync.String() {
		cfg.Store.Flush = store.FlushAsync
	}
	round := os.Getenv("POCKETMQ_TEST_CHILD_ROUND")
	ctx := context.Background()
	node, err := pocketmq.OpenConfig(ctx, cfg)
	check(err)
	producer, err := node.Producer("child")
	check(err)
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := 0; ; i++ {
				text := fmt.Sprintf("%s-%d-%d", round, s, i)
				body := text + strings.Repeat(".", i*101%3000)
				r, err := producer.Send(ctx, &pocketmq.Message{Topic: "kill", Body: []byte(body)})
				check(err)
				fmt.Printf("%s %d/%d\n", text, r.Queue.QueueID, r.QueueOffset)
			}
		})
	}
	wg.Wait()
}

// runAndKill starts the child, kills it after a number of acknowledgements, and
// returns all that it wrote as whole lines.
func runAndKill(t *testing.T, dir string, flush store.FlushMode, round, after int) []string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childDir+"="+dir, "POCKETMQ_TEST_CHILD_FLUSH="+flush.String(),
		"POCKETMQ_TEST_CHILD_ROUND="+strconv.Itoa(round))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var lines []string
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
		if lines = append(lines, strings.TrimSuffix(line, "\n")); len(lines) == after {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	require.Error(t, cmd.Wait(), "the child ended by itself")
	require.GreaterOrEqual(t, len(lines), after, "the child died too early")
	return lines
}

// readAll reads the topic with a group of its own and returns the places of all
// messages by body, having compared the bodies to their last byte.
func readAll(t *testing.T, dir string, flush store.FlushMode) map[string]string {
	t.Helper()
	node, err := pocketmq.OpenConfig(t.Context(), pocketmq.Config{Dir: dir, Store: smallStore(flush)})
	require.NoError(t, err)
	defer node.Close()
	reader, err := node.NewReader(t.Context(), mq.ReaderConfig{Topic: "kill"})
	require.NoError(t, err)
	found := map[string]string{}
	next := map[int32]message.QueueOffset{}
	last := map[string]int{} // by queue, round and sender: number of the last message
	for m, err := range reader.Messages(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, next[m.QueueID], m.QueueOffset, "queue %d", m.QueueID)
		next[m.QueueID]++

		text := strings.TrimRight(string(m.Body), ".")
		var round, sender, i int
		_, err := fmt.Sscanf(text, "%d-%d-%d", &round, &sender, &i)
		require.NoError(t, err, text)
		require.Len(t, m.Body, len(text)+i*101%3000)
		require.NotContains(t, found, text, "twice")
		found[text] = fmt.Sprintf("%d/%d", m.QueueID, m.QueueOffset)

		key := fmt.Sprint(m.QueueID, round, sender)
		if before, ok := last[key]; ok {
			require.Greater(t, i, before, "order of one sender in queue %d", m.QueueID)
		}
		last[key] = i
	}
	return found
}
