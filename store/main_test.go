package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pocketmq/pocketmq/consumequeue"
	"github.com/pocketmq/pocketmq/internal/crashfs"
	"github.com/pocketmq/pocketmq/message"
)

// The tests of this package:
//
//	crash_test.go       loss of power at many moments, quick; crash_slow_test.go for long
//	truth_test.go       what was sent, and how a store is held against it
//	nthfailure_test.go  every operation of the file system fails once
//	fault_test.go       failed syncs, full disks, a sync that hangs
//	kill_test.go        a child process that is killed
//	damage_test.go      damaged logs and derived files
//	rot_test.go         one byte of a store changes, any one; rot_slow_test.go all of them
//	odd_test.go         odd contents, odd file systems, files changed from outside
//	badput_test.go, badopen_test.go  what is refused
//	put_test.go, get_test.go, wait_test.go, life_test.go, config_test.go  behaviour
//	guard_test.go       limits for what operations cost, in counts
//	model_test.go       random operations beside a plain map; concurrent histories

// TestMain runs a child's part where this process is one; see child.
func TestMain(m *testing.M) {
	if name := os.Getenv(childVariable); name != "" {
		os.Exit(runChild(name))
	}
	goleak.VerifyTestMain(m)
}

// small sizes, so that files roll within a few messages.
const (
	testSegment   = 16 << 10
	testQueueFile = 400 // 20 units

	testIndexSlots   = 7 // so that keys share them
	testIndexEntries = 31
)

// patient is a FlushTimeout for tests that have nothing to do with it: a machine may
// be so busy that a sync takes longer than the default.
const patient = 10 * time.Minute

func smallConfig(mode FlushMode) Config {
	return Config{
		Flush: mode, FlushTimeout: patient, SegmentSize: testSegment, ConsumeQueueFileSize: testQueueFile,
		IndexSlots: testIndexSlots, IndexEntries: testIndexEntries,
	}
}

var bothModes = []FlushMode{FlushSync, FlushAsync}

// openStore opens dir and closes it at the end of the test.
func openStore(t testing.TB, dir string, cfg Config) *DefaultMessageStore {
	t.Helper()
	s, err := Open(context.Background(), dir, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func closeStore(t testing.TB, s *DefaultMessageStore) {
	t.Helper()
	require.NoError(t, s.Close())
}

func inner(topic string, queueID int32, body string) *message.MessageExtBrokerInner {
	m := &message.MessageExtBrokerInner{}
	m.Topic, m.QueueID, m.Body = topic, queueID, []byte(body)
	return m
}

func tagged(topic, body, tag string) *message.MessageExtBrokerInner {
	m := inner(topic, 0, body)
	m.Properties = message.Properties("TAGS\x01" + tag)
	return m
}

func batchOf(t testing.TB, topic string, queueID int32, messages ...message.Message) *message.MessageExtBatch {
	t.Helper()
	b := &message.MessageExtBatch{}
	b.Topic, b.QueueID = topic, queueID
	for i := range messages {
		var err error
		b.Body, err = message.AppendBatchElement(b.Body, &messages[i])
		require.NoError(t, err)
	}
	return b
}

func put(t testing.TB, s *DefaultMessageStore, topic string, queueID int32, body string) PutMessageResult {
	t.Helper()
	r, err := s.PutMessage(context.Background(), inner(topic, queueID, body))
	require.NoError(t, err)
	require.Equal(t, PutOK, r.Status)
	return r
}

// putN puts body0, body1 … into queue 0 of topic.
func putN(t testing.TB, s *DefaultMessageStore, topic string, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		r := put(t, s, topic, 0, fmt.Sprint("body", i))
		require.EqualValues(t, i, r.QueueOffset)
	}
}

// dispatched waits until everything that is visible can be read.
func dispatched(t testing.TB, s *DefaultMessageStore) {
	t.Helper()
	require.NoError(t, s.WaitDispatched(context.Background(), s.MaxOffset()))
}

// indexed waits until the keys of everything that is visible can be found.
func indexed(t testing.TB, s *DefaultMessageStore) {
	t.Helper()
	require.NoError(t, s.WaitIndexed(context.Background(), s.MaxOffset()))
}

// bodies reads a queue from its start, following NextBeginOffset.
func bodies(t testing.TB, s *DefaultMessageStore, topic string, queueID int32) []string {
	t.Helper()
	dispatched(t, s)
	var out []string
	next := s.MinOffsetInQueue(topic, queueID)
	for {
		r, err := s.GetMessage(context.Background(), GetQuery{Topic: topic, QueueID: queueID, Offset: next, MaxCount: 32, Verify: true})
		require.NoError(t, err)
		for i, v := range r.Messages {
			require.EqualValues(t, int(next)+i, v.QueueOffset())
			out = append(out, string(v.Body()))
		}
		status, after := r.Status, r.NextBeginOffset
		r.Release()
		if status != GetFound {
			require.Contains(t, []GetMessageStatus{GetOffsetOverflowOne, GetNoMessageInQueue}, status)
			return out
		}
		require.Greater(t, after, next)
		next = after
	}
}

func findQueue(t testing.TB, s *DefaultMessageStore, topic string, queueID int32) *consumequeue.Queue {
	t.Helper()
	q, err := consumequeue.Find(s.queues, topic, queueID)
	require.NoError(t, err)
	return q
}

// sequence is body0 … body(n-1).
func sequence(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint("body", i)
	}
	return out
}

// read asks for up to 32 messages, checked, and releases them at the end.
func read(t testing.TB, s *DefaultMessageStore, topic string, queueID int32, off message.QueueOffset) *GetMessageResult {
	t.Helper()
	return query(t, s, GetQuery{Topic: topic, QueueID: queueID, Offset: off, MaxCount: 32, Verify: true})
}

func query(t testing.TB, s *DefaultMessageStore, q GetQuery) *GetMessageResult {
	t.Helper()
	r, err := s.GetMessage(context.Background(), q)
	require.NoError(t, err)
	t.Cleanup(r.Release)
	return r
}

// tree returns the files below dir with what is in them, by path.
func tree(dir string) (map[string]string, error) {
	files := make(map[string]string)
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		rel = filepath.ToSlash(rel)
		if info.IsDir() {
			files[rel+"/"] = ""
			return nil
		}
		if info.Mode()&os.ModeSymlink != 0 {
			to, err := os.Readlink(path)
			files[rel] = "link to " + to
			return err
		}
		b, err := os.ReadFile(path)
		files[rel] = string(b)
		return err
	})
	return files, err
}

// contents is tree without what every Open writes anew.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	files, err := tree(dir)
	require.NoError(t, err)
	delete(files, ownDir+"/"+ownerFile)
	return files
}

// requireSameFiles names the paths that differ rather than printing files.
func requireSameFiles(t testing.TB, want, got map[string]string) {
	t.Helper()
	require.Empty(t, difference(want, got))
}

func difference(want, got map[string]string) string {
	var out []string
	for path, b := range want {
		if g, ok := got[path]; !ok {
			out = append(out, path+" is gone")
		} else if g != b {
			out = append(out, path+" has changed")
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			out = append(out, path+" is new")
		}
	}
	return strings.Join(out, ", ")
}

// copyTree copies a directory that nobody writes to.
func copyTree(t testing.TB, from string) string {
	t.Helper()
	to := scratch(t)
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	return to
}

// newCrashFS returns the double over a new directory, and a path in it for a
// store.
func newCrashFS(t testing.TB) (fs *crashfs.FS, dir string) {
	t.Helper()
	return crashFSOver(t, scratch(t))
}

func crashFSOver(t testing.TB, root string) (fs *crashfs.FS, dir string) {
	t.Helper()
	fs, err := crashfs.New(root)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fs.Close()) })
	return fs, filepath.Join(root, "store")
}

// scratch is t.TempDir where files cost least.
func scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(crashfs.Dir(), "pocketmq-test-") //nolint:usetesting // t.TempDir can not be told where
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func withFS(cfg Config, fs *crashfs.FS) Config {
	cfg.fs = fs
	return cfg
}

func mkdir(t testing.TB, dir string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	return dir
}

// notEmulated leaves out, under -short, what an emulator would take minutes for:
// sweeps whose every case other tests have as well.
func notEmulated(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a long sweep; run without -short")
	}
}
