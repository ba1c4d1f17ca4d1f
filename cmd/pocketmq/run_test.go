package main

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pocketmq/pocketmq"
	"github.com/pocketmq/pocketmq/commitlog"
	"github.com/pocketmq/pocketmq/inspect"
	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/message"
	"github.com/pocketmq/pocketmq/protocol"
	"github.com/pocketmq/pocketmq/store"
)

func TestMain(m *testing.M) {
	if err := os.Setenv("TMPDIR", crashfs.Dir()); err != nil { // where files cost least
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// result is what a run of the program gave.
type result struct {
	code           int
	stdout, stderr string
}

func pocketmqIn(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, strings.NewReader(stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// ok runs the program and wants success.
func ok(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	r := pocketmqIn(t, stdin, args...)
	require.Equal(t, exitOK, r.code, r.stderr)
	return r.stdout
}

// fails runs the program and wants one line on stderr that has the text.
func fails(t *testing.T, text string, args ...string) {
	t.Helper()
	r := pocketmqIn(t, "", args...)
	require.Equal(t, exitFailed, r.code)
	require.Empty(t, r.stdout)
	require.True(t, strings.HasPrefix(r.stderr, "pocketmq: "), r.stderr)
	require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
	require.Contains(t, r.stderr, text)
}

// odd are texts that must come back byte for byte.
func odd() map[string]string {
	random := make([]byte, 100_000)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(random)
	return map[string]string{
		"nothing":          "",
		"one newline":      "\n",
		"empty lines":      "\n\na\n\n\nb\n\n",
		"no final newline": "first\nsecond",
		"CRLF":             "first\r\nsecond\r\n\r\n",
		"lone CR":          "first\rstill first\nsecond\r",
		"NUL bytes":        "\x00\n\x00\x00a\x00\n",
		"separators":       "TAGS\x01x\x02KEYS\x01y\n\x02\n\x01",
		"not UTF-8":        "\xff\xfe\n\xc3\x28\n\xed\xa0\x80",
		"1 MiB line":       strings.Repeat("x", 1<<20) + "\n" + strings.Repeat("y", 1<<20),
		"largest line":     "a\n" + strings.Repeat("z", 4<<20-1) + "\nb\n",
		"many lines":       strings.Repeat("line\n", 30_000),
		"random bytes":     string(random),
	}
}

func TestRoundTrip(t *testing.T) {
	for name, text := range odd() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "input")
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			for _, way := range []struct {
				send, tail []string
				topic      string
			}{
				{[]string{file}, nil, defaultTopic},
				{nil, nil, defaultTopic},
				{[]string{"-", "--batch", "7", "--async"}, nil, defaultTopic},
				{[]string{file, "--queue", "2", "--tag", "t", "--key", "k1 k2"}, []string{"--queue", "2"}, "spread"},
			} {
				dir := filepath.Join(t.TempDir(), "store")
				ok(t, "", "topics", "create", dir, "spread", "--queues", "3")
				ok(t, text, append([]string{"send", dir, "--topic", way.topic}, way.send...)...)
				tail := []string{"tail", dir, "--raw", "--topic", way.topic}
				if text == "" {
					fails(t, "no messages in", append(tail, way.tail...)...)
					continue
				}
				require.True(t, ok(t, "", append(tail, way.tail...)...) == text, way)
				require.True(t, ok(t, "", append(tail, "--group", "g")...) == text, way)
				require.Contains(t, ok(t, "", "verify", dir), ": 0 errors, 0 notes\n")
			}
		})
	}
}

// TestSendSpreadsOverQueues sends in batches to all queues in turn.
func TestSendSpreadsOverQueues(t *testing.T) {
	dir := t.TempDir()
	ok(t, "", "topics", "create", dir, "spread", "--queues", "3")
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	r := pocketmqIn(t, text.String(), "send", dir, "--topic", "spread", "--batch", "10")
	require.Equal(t, exitOK, r.code)
	require.Contains(t, r.stderr, "100 messages acknowledged (SYNC_FLUSH), 790 bytes in ")
	info, err := inspect.Info(dir)
	require.NoError(t, err)
	require.Len(t, info.Topics[0].Queues, 3)
	for _, q := range info.Topics[0].Queues {
		require.Contains(t, []int64{30, 40}, int64(q.Max))
	}
	require.Len(t, ok(t, "", "tail", dir, "--topic", "spread", "--raw"), text.Len())
}

func TestSeveralInputs(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("in the file, without newline"), 0o600))
	ok(t, "from stdin\n", "send", dir, file, "-", file)
	require.Equal(t, "in the file, without newlinefrom stdin\nin the file, without newline", ok(t, "", "tail", dir, "--raw"))
}

func TestTooLongLine(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("one\ntwo\n"+strings.Repeat("x", 4<<20)+"\nfour\n"), 0o600))
	r := pocketmqIn(t, "", "send", dir, file)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "0 messages acknowledged")
	require.Contains(t, r.stderr, "pocketmq: "+file+":3: the line is longer than 4194304 bytes, the limit of a message's body\n")
}

func TestTailForms(t *testing.T) {
	dir := t.TempDir()
	ok(t, "plain text\n\x00\xff\n\"quoted\"\n\n", "send", dir, "--tag", "red", "--key", "k1 k2")
	lines := strings.Split(ok(t, "", "tail", dir), "\n")
	require.Regexp(t, `^0 0 \d{4}-\d\d-\d\dT[0-9:.]+Z tag=red keys="k1 k2" plain text$`, lines[0])
	require.Regexp(t, ` "\\x00\\xff\\n"$`, lines[1])
	require.Regexp(t, ` "\\"quoted\\"\\n"$`, lines[2])
	require.Regexp(t, ` "\\n"$`, lines[3])

	d := json.NewDecoder(strings.NewReader(ok(t, "", "tail", dir, "--json")))
	var ms []jsonMessage
	for {
		var m jsonMessage
		err := d.Decode(&m)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		ms = append(ms, m)
	}
	require.Len(t, ms, 4)
	require.Equal(t, "plain text\n", *ms[0].Body)
	require.Equal(t, "red", ms[0].Tag)
	require.Equal(t, []string{"k1", "k2"}, ms[0].Keys)
	require.Equal(t, []byte("\x00\xff\n"), ms[1].BodyBytes)
	require.Nil(t, ms[1].Body)
	require.EqualValues(t, 3, ms[3].Offset)
}

func TestTailFromAndCount(t *testing.T) {
	dir := t.TempDir()
	ok(t, "0\n1\n2\n3\n4\n", "send", dir)
	for want, args := range map[string][]string{
		"0\n1\n":    {"--count", "2"},
		"3\n4\n":    {"--from", "3"},
		"3\n":       {"--from", "3", "-n", "1"},
		"":          {"--from", "end"},
		"0\n":       {"--from", "begin", "-n", "1", "--queue", "0"},
		"1\n2\n3\n": {"--from", "1", "-n", "3"},
	} {
		require.Equal(t, want, ok(t, "", append([]string{"tail", dir, "--raw"}, args...)...), args)
	}
	require.Empty(t, ok(t, "", "tail", dir, "--raw", "--from", "99"))
}

// TestTailGroup commits what was printed and nothing more.
func TestTailGroup(t *testing.T) {
	dir := t.TempDir()
	ok(t, "0\n1\n2\n3\n4\n", "send", dir)
	tail := []string{"tail", dir, "--raw", "--group", "g"}
	require.Equal(t, "0\n1\n", ok(t, "", append(tail, "-n", "2")...))
	require.Equal(t, "2\n3\n4\n", ok(t, "", tail...))
	require.Empty(t, ok(t, "", tail...))
	require.Equal(t, "0\n1\n2\n3\n4\n", ok(t, "", "tail", dir, "--raw", "--group", "other"))

	code := run(t.Context(), []string{"tail", dir, "--raw", "--group", "third"}, nil, closedPipe{}, io.Discard)
	require.Equal(t, exitOK, code, "nobody wants to read")
	require.Equal(t, "0\n1\n2\n3\n4\n", ok(t, "", "tail", dir, "--raw", "--group", "third"), "what was not printed comes again")
}

// closedPipe is a pipe that nobody reads.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestClosedPipe(t *testing.T) {
	dir := t.TempDir()
	ok(t, strings.Repeat("a line\n", 20_000), "send", dir)
	for _, args := range [][]string{{"tail", dir}, {"tail", dir, "--json"}, {"topics", dir}, {"info", dir}, {"verify", dir}, {"dump", dir}} {
		var stderr bytes.Buffer
		require.Equal(t, exitOK, run(t.Context(), args, nil, closedPipe{}, &stderr), args)
		require.Empty(t, stderr.String(), args)
	}
	requireClosed(t, dir)
}

func requireClosed(t *testing.T, dir string) {
	t.Helper()
	info, err := inspect.Info(dir)
	require.NoError(t, err)
	require.False(t, info.Marked, "the store was closed")
}

func TestTopics(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	ok(t, "", "topics", "create", dir, "orders", "--queues", "8")
	ok(t, "a\nb\n", "send", dir)
	require.Equal(t, "TOPIC   READ QUEUES  WRITE QUEUES  PERM  MESSAGES  MAX DEPTH\n"+
		"lines   1            1             RW-   2         -\n"+
		"orders  8            8             RW-   0         -\n", ok(t, "", "topics", dir))
	var lines []topicLine
	require.NoError(t, json.Unmarshal([]byte(ok(t, "", "topics", dir, "--json")), &lines))
	require.Equal(t, []topicLine{{"lines", 1, 1, "RW-", 2, 0}, {"orders", 8, 8, "RW-", 0, 0}}, lines)
	fails(t, "orders has no queue 8: its queues are 0 to 7", "send", dir, "--topic", "orders", "--queue", "8")
}

func TestInfo(t *testing.T) {
	dir := t.TempDir()
	ok(t, "a\nb\n", "send", dir)
	text := ok(t, "", "info", dir)
	require.Contains(t, text, "closed properly")
	require.Regexp(t, `(?m)^lines +0 +0 +2 +2 +1 +6000000$`, text)
	var s inspect.Store
	require.NoError(t, json.Unmarshal([]byte(ok(t, "", "info", dir, "--json")), &s))
	want, err := inspect.Info(dir)
	require.NoError(t, err)
	require.Equal(t, want, s)
}

func TestVerify(t *testing.T) {
	dir := t.TempDir()
	ok(t, "a\nb\n", "send", dir)
	require.Equal(t, "2 records in 1 log files, 2 units in 1 queues, 2 entries in 1 index files: 0 errors, 0 notes\n", ok(t, "", "verify", dir))

	logFile := filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", 0))
	f, err := os.OpenFile(logFile, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("A"), 88) // the first message's body
	require.NoError(t, err)
	require.NoError(t, f.Close())
	r := pocketmqIn(t, "", "verify", dir)
	require.Equal(t, exitFindings, r.code)
	require.Empty(t, r.stderr)
	require.Contains(t, r.stdout, "error: "+logFile+" at byte 0: message 0 of queue lines/0: corrupt data: body checksum ")
	require.Contains(t, r.stdout, " (record-body; run: pocketmq repair --output NEW DIR)\n")
	require.Contains(t, r.stdout, ": 1 errors, 0 notes\n")

	r = pocketmqIn(t, "", "verify", dir, "--json")
	require.Equal(t, exitFindings, r.code)
	d := json.NewDecoder(strings.NewReader(r.stdout))
	var finding inspect.Finding
	var sum jsonSummary
	require.NoError(t, d.Decode(&finding))
	require.NoError(t, d.Decode(&sum))
	require.Equal(t, inspect.Error, finding.Severity)
	require.Equal(t, inspect.RecordBody, finding.Kind)
	require.Equal(t, logFile, finding.File)
	require.EqualValues(t, 1, sum.Summary.Errors)

	r = pocketmqIn(t, "", "tail", dir, "--raw")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "b\n", r.stdout)
	require.Contains(t, r.stderr, "skipped: ")
	require.Contains(t, r.stderr, "1 messages of topic lines could not be read")
}

// TestRepair makes a new store without what was damaged.
func TestRepair(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	ok(t, "a\nb\nc\n", "send", dir)
	ok(t, "", "tail", dir, "--group", "g")
	logFile := filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", 0))
	info, err := inspect.Info(dir)
	require.NoError(t, err)
	size := int(info.Log.End) / 3 // of a record
	poke(t, dir, int64(size), "\x00\x00\x00\x00XXXX")
	r := pocketmqIn(t, "", "repair", "--output", out, dir)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Equal(t, fmt.Sprintf("lost: %s at byte %d: log offsets [%d, %d): corrupt data: magic number 0x58585858\n"+
		"missing: messages [1, 2) of queue lines/0\n"+
		"2 records of %d bytes kept, log offsets [0, %d); 1 ranges of %d bytes lost, their places held by 1 fillers; 3 files copied\n",
		logFile, size, size, 2*size, 2*size, 3*size, size), r.stdout)
	require.Equal(t, "a\nc\n", ok(t, "", "tail", out, "--raw"))
	require.Empty(t, ok(t, "", "tail", out, "--raw", "--group", "g"), "consumer offsets mean what they meant")
	require.Contains(t, ok(t, "", "verify", out), ": 0 errors, 1 notes\n")
	fails(t, "not a place for the output: "+out+" is not empty", "repair", "--output", out, dir)
	fails(t, "lies inside", "repair", "--output", filepath.Join(dir, "out"), dir)
	fails(t, "required flag(s) \"output\" not set", "repair", dir)
}

// TestRepairNamesMessages says which message is lost where its header can be read.
func TestRepairNamesMessages(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	ok(t, "a\nb\n", "send", dir)
	poke(t, dir, 88, "A") // the first message's body
	require.Contains(t, ok(t, "", "repair", "--output", out, dir), ", message 0 of queue lines/0 by its own account: corrupt data: body checksum ")
}

func TestDump(t *testing.T) {
	dir := t.TempDir()
	ok(t, "a\nb\nc\n", "send", dir, "--tag", "red")
	logFile := filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", 0))
	lines := strings.Split(ok(t, "", "dump", logFile), "\n")
	require.Len(t, lines, 6)
	require.Equal(t, "file @0 "+logFile+" is=commitlog size=67108864", lines[0])
	require.Regexp(t, `^record @0 logOffset=0 size=\d+ topic=lines queueId=0 queueOffset=0 .* body="a\\n"$`, lines[1])
	require.Regexp(t, `^unused @\d+ size=\d+$`, lines[4])
	queueFile := filepath.Join(dir, "consumequeue", "lines", "0", fmt.Sprintf("%020d", 0))
	require.Regexp(t, `^file @0 .*\nunit @20 queueOffset=1 logOffset=\d+ size=\d+ tagsCode=112785\n$`, ok(t, "", "dump", queueFile, "--from", "1", "--limit", "1"))
	kinds := map[string]int{}
	for line := range strings.Lines(ok(t, "", "dump", dir, "--json")) {
		var e struct{ Kind, File string }
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		require.True(t, strings.HasPrefix(e.File, dir))
		kinds[e.Kind]++
	}
	require.Equal(t, map[string]int{
		"file": 11, "record": 3, "unit": 3, "unused": 4, "checkpoint": 1, "json": 3, "queue": 1, "text": 2,
		"index-head": 1, "index-slots": 1, "index-entry": 3,
	}, kinds)
	fails(t, "not known as a file of a store", "dump", writeFile(t, "text"))
	fails(t, "no such file", "dump", filepath.Join(dir, "missing"))
	fails(t, "neither may be negative", "dump", dir, "--from", "-1")
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	ok(t, "a\n", "send", dir)
	empty, missing := t.TempDir(), filepath.Join(t.TempDir(), "missing")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	fails(t, "unknown command", "nonsense")
	fails(t, "unknown flag: --nonsense", "info", dir, "--nonsense")
	fails(t, "accepts 1 arg(s), received 0", "verify")
	fails(t, "requires at least 1 arg(s)", "send")
	fails(t, "--batch 0 is not within 1 and 10000", "send", dir, "--batch", "0")
	fails(t, "has a character other than", "send", dir, "--topic", "a b")
	fails(t, "is reserved", "send", dir, "--topic", "SCHEDULE_TOPIC_XXXX")
	fails(t, "no such file", "send", dir, missing)
	fails(t, "is a directory", "send", dir, dir)
	fails(t, "no queue 1", "send", dir, "--queue", "1")
	fails(t, "not a directory", "send", file)
	fails(t, "topic unknown has no messages in "+dir, "tail", dir, "--topic", "unknown")
	fails(t, "queue 5 of topic lines has no messages", "tail", dir, "--queue", "5")
	fails(t, "TOPIC_NOT_EXIST", "tail", dir, "--topic", "unknown", "--group", "g")
	fails(t, "neither begin, end nor an offset", "tail", dir, "--from", "-3")
	fails(t, "raw json", "tail", dir, "--raw", "--json")
	fails(t, "from group", "tail", dir, "--group", "g", "--from", "end")
	for _, command := range []string{"tail", "topics", "info", "verify"} {
		fails(t, "there is no store in "+missing, command, missing)
		fails(t, "there is no store in "+empty, command, empty)
		fails(t, "there is no store in "+file, command, file)
	}
	require.NoDirExists(t, missing)
}

// TestLockedDirectory has the directory in use: what only reads works.
func TestLockedDirectory(t *testing.T) {
	dir := t.TempDir()
	ok(t, "a\n", "send", dir)
	node, err := pocketmq.Open(t.Context(), dir)
	require.NoError(t, err)
	defer node.Close()
	owner := fmt.Sprintf("directory is in use by process %d on ", os.Getpid())
	fails(t, owner, "send", dir)
	fails(t, owner, "topics", "create", dir, "orders")
	fails(t, owner, "tail", dir, "--group", "g")
	require.Equal(t, "a\n", ok(t, "", "tail", dir, "--raw"))
	require.Contains(t, ok(t, "", "info", dir), "in use, or not closed properly")
	require.Contains(t, ok(t, "", "verify", dir), ": 0 errors, 0 notes\n")
}

// poke writes into the first file of the log.
func poke(t *testing.T, dir string, at int64, data string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", 0)), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte(data), at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// TestRecoveryIsReported has every command that opens a store say what it cut,
// once, and what it passes over.
func TestRecoveryIsReported(t *testing.T) {
	for _, args := range [][]string{{"send"}, {"tail"}, {"tail", "--group", "g"}, {"topics"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "store")
			ok(t, "a\nb\nc\n", "send", dir)
			info, err := inspect.Info(dir)
			require.NoError(t, err)
			args := append(append([]string{}, args[0], dir), args[1:]...)

			poke(t, dir, int64(info.Log.End), "torn")
			require.NoError(t, os.WriteFile(filepath.Join(dir, "abort"), nil, 0o600))
			r := pocketmqIn(t, "", args...)
			require.Equal(t, exitOK, r.code, r.stderr)
			line := "pocketmq: recovery of " + dir + ": cut 4 bytes behind the last whole message (corrupt data: size 1953460846 without a magic number)\n"
			require.True(t, strings.HasPrefix(r.stderr, line), r.stderr)
			require.NotContains(t, pocketmqIn(t, "", args...).stderr, "recovery")

			poke(t, dir, 4, "\x00") // the first message's magic number
			require.NoError(t, os.Remove(filepath.Join(dir, "pocketmq", "recovery.json")))
			r = pocketmqIn(t, "", args...)
			require.Contains(t, r.stderr, "pocketmq: recovery of "+dir+": 1 damaged places in the log are passed over, the first at offset 0\n")
		})
	}
}

func TestRecovered(t *testing.T) {
	require.Empty(t, recovered(store.Recovery{Records: 7, UnitsDropped: 1}))
	require.Equal(t, "cut 1 bytes behind the last whole message (torn); removed 2 files behind the end of the log; "+
		"1 damaged places in the log are passed over, the first at offset 7; 3 damaged consume queues built again from the log",
		recovered(store.Recovery{
			CutBytes: 1, CutReason: errors.New("torn"), RemovedFiles: make([]string, 2), Damaged: []commitlog.Damage{{From: 7, To: 9}}, QueuesReset: make([]string, 3),
		}))
}

// TestTailInflates prints bodies that a producer compressed, and passes over
// those that do not inflate.
func TestTailInflates(t *testing.T) {
	dir := t.TempDir()
	node, err := pocketmq.Open(t.Context(), dir)
	require.NoError(t, err)
	var body bytes.Buffer
	w := zlib.NewWriter(&body)
	_, err = w.Write([]byte("once compressed\n"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, node.CreateTopic(t.Context(), pocketmq.TopicConfig{Name: defaultTopic, ReadQueueNums: 1, WriteQueueNums: 1}))
	for _, flag := range []message.SysFlag{message.FlagCompressed, message.FlagCompressed | 0x100} {
		_, err = node.Broker().SendMessage(t.Context(), protocol.SendMessageRequest{
			Message: message.Message{Topic: defaultTopic, Body: body.Bytes()}, SysFlag: flag,
		})
		require.NoError(t, err)
	}
	require.NoError(t, node.Close())
	for _, group := range [][]string{nil, {"--group", "g"}} {
		r := pocketmqIn(t, "", append([]string{"tail", dir, "--raw"}, group...)...)
		require.Equal(t, exitFailed, r.code)
		require.Equal(t, "once compressed\n", r.stdout)
		require.Contains(t, r.stderr, "compressor 1 is not known")
	}
}

// TestSendInterrupted cancels while standard input gives nothing more.
func TestSendInterrupted(t *testing.T) {
	dir := t.TempDir()
	stdin, typing := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	var stderr bytes.Buffer
	done := make(chan int)
	go func() { done <- run(ctx, []string{"send", dir}, stdin, io.Discard, &stderr) }()
	_, err := io.WriteString(typing, "first\nsecond\nnot fini")
	require.NoError(t, err)
	require.Eventually(t, func() bool { // what was read is sent without waiting for more
		info, err := inspect.Info(dir)
		return err == nil && len(info.Topics) == 1 && info.Topics[0].Queues[0].Max == 2
	}, time.Minute, 5*time.Millisecond)
	cancel()
	require.Equal(t, exitInterrupted, <-done)
	require.NoError(t, typing.Close()) // ends the goroutine that reads
	require.Contains(t, stderr.String(), "2 messages acknowledged (SYNC_FLUSH), 13 bytes in ")
	require.Contains(t, stderr.String(), "pocketmq: interrupted\n")
	requireClosed(t, dir)
	require.Equal(t, "first\nsecond\n", ok(t, "", "tail", dir, "--raw"))
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestTailFollow prints what another one sends, until Ctrl-C.
func TestTailFollow(t *testing.T) {
	dir := t.TempDir()
	ok(t, "", "topics", "create", dir, defaultTopic, "--queues", "1")
	ctx, cancel := context.WithCancel(t.Context())
	var out lockedBuffer
	done := make(chan int)
	go func() { done <- run(ctx, []string{"tail", dir, "--raw", "--follow"}, nil, &out, io.Discard) }()
	want := ""
	for i := range 3 {
		line := fmt.Sprintf("line %d\n", i)
		require.Eventually(t, func() bool { return pocketmqIn(t, line, "send", dir).code == exitOK }, time.Minute, time.Millisecond)
		want += line
		require.Eventually(t, func() bool { return out.String() == want }, time.Minute, 5*time.Millisecond)
	}
	cancel()
	require.Equal(t, exitOK, <-done)
}

func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	ok(t, "a\n", "send", dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{{"verify", dir}, {"dump", dir}, {"repair", "-o", filepath.Join(t.TempDir(), "out"), dir}, {"tail", dir}, {"tail", dir, "--group", "g"}, {"topics", dir}, {"send", dir}} {
		var stderr bytes.Buffer
		require.Equal(t, exitInterrupted, run(ctx, args, strings.NewReader(""), io.Discard, &stderr), args)
		require.Contains(t, stderr.String(), "pocketmq: interrupted\n", args)
	}
}

func TestVersionAndHelp(t *testing.T) {
	require.Regexp(t, `^pocketmq version \S+\n$`, ok(t, "", "--version"))
	require.Contains(t, ok(t, "", "--help"), "Available Commands:")
	for _, command := range []string{"send", "tail", "topics", "info", "verify", "dump", "repair"} {
		help := ok(t, "", command, "--help")
		require.Contains(t, help, "Examples:\n  pocketmq "+command+" ")
		require.Less(t, strings.Count(help, "\n"), 40)
	}
}

func TestBackup(t *testing.T) {
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	ok(t, "one\ntwo\n", "send", dir, "-")
	out := ok(t, "", "backup", "--output", copied, dir)
	require.Contains(t, out, "2 messages")
	require.Equal(t, "one\ntwo\n", ok(t, "", "tail", copied, "--raw"))
	require.Contains(t, ok(t, "", "verify", copied), "0 errors")
	fails(t, "is not empty", "backup", "--output", copied, dir)
	fails(t, "there is no store", "backup", "--output", filepath.Join(t.TempDir(), "x"), t.TempDir())
	fails(t, "output", "backup", dir)
}
