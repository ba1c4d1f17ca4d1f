package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// countFS counts what is open and mapped, and how much that was at most.
type countFS struct {
	segment.FS

	mu                   sync.Mutex
	open, mapped         int
	mostOpen, mostMapped int
}

func (c *countFS) add(open, mapped int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += open
	c.mapped += mapped
	c.mostOpen, c.mostMapped = max(c.mostOpen, c.open), max(c.mostMapped, c.mapped)
}

func (c *countFS) handle(h segment.Handle, err error) (segment.Handle, error) {
	if err != nil {
		return nil, err
	}
	c.add(1, 0)
	return &countHandle{h, c}, nil
}

func (c *countFS) Create(path string, perm os.FileMode) (segment.Handle, error) {
	return c.handle(c.FS.Create(path, perm))
}
func (c *countFS) Open(path string) (segment.Handle, error) { return c.handle(c.FS.Open(path)) }

func (c *countFS) OpenRead(path string) (segment.Handle, error) { return c.handle(c.FS.OpenRead(path)) }

type countHandle struct {
	segment.Handle

	fs *countFS
}

func (h *countHandle) Map(n int64) (segment.Mapping, error) {
	m, err := h.Handle.Map(n)
	if err != nil {
		return nil, err
	}
	h.fs.add(0, 1)
	return &countMapping{m, h.fs}, nil
}

func (h *countHandle) Close() error {
	h.fs.add(-1, 0)
	return h.Handle.Close()
}

type countMapping struct {
	segment.Mapping

	fs *countFS
}

func (m *countMapping) Unmap() error {
	m.fs.add(0, -1)
	return m.Mapping.Unmap()
}

// scale is a store with many queues of one message each.
type scale struct {
	dir            string
	cfg            Config
	fs             *countFS
	topics, queues int // queues of each topic
}

func newScale(t testing.TB, dir string, limit, topics, queues int) *scale {
	t.Helper()
	fs := &countFS{FS: segment.OS}
	return &scale{dir: dir, fs: fs, topics: topics, queues: queues, cfg: Config{Flush: FlushAsync, MaxMappedFiles: limit, fs: fs}}
}

func (sc *scale) name(topic, queue int) (string, int32, string) {
	return fmt.Sprintf("topic-%d", topic), int32(queue), fmt.Sprintf("%d/%d", topic, queue)
}

func (sc *scale) each(visit func(topic string, queue int32, body string)) {
	for topic := range sc.topics {
		for queue := range sc.queues {
			visit(sc.name(topic, queue))
		}
	}
}

// fill puts one message into each queue.
func (sc *scale) fill(t testing.TB, s *DefaultMessageStore) {
	t.Helper()
	sc.each(func(topic string, queue int32, body string) { put(t, s, topic, queue, body) })
	dispatched(t, s)
}

// check reads the n messages of each queue.
func (sc *scale) check(t testing.TB, s *DefaultMessageStore, n int) {
	t.Helper()
	sc.each(func(topic string, queue int32, body string) {
		r, err := s.GetMessage(context.Background(), GetQuery{Topic: topic, QueueID: queue, MaxCount: 32, Verify: true})
		require.NoError(t, err)
		require.Len(t, r.Messages, n, body)
		for _, v := range r.Messages {
			require.Equal(t, body, string(v.Body()))
		}
		r.Release()
	})
}

// TestMoreQueuesThanMappedFiles: created, closed, opened again, and read, with
// few files open at a time; one more message for each; and then a crash.
func TestMoreQueuesThanMappedFiles(t *testing.T) {
	const limit, slack = 64, 8 // what is pinned: the log's own files, and the one that is being opened
	sc := newScale(t, scratch(t), limit, 20, 100)
	s := openStore(t, sc.dir, sc.cfg)
	sc.fill(t, s)
	sc.check(t, s, 1)
	closeStore(t, s)
	require.LessOrEqual(t, sc.fs.mostMapped, limit+slack)
	require.Zero(t, sc.fs.open)
	require.Zero(t, sc.fs.mapped)

	*sc.fs = countFS{FS: segment.OS}
	s = openStore(t, sc.dir, sc.cfg)
	require.True(t, s.Recovery().FromPoint)
	require.LessOrEqual(t, sc.fs.mostMapped, 4, "Open looks at no queue")
	require.Len(t, s.counters.m, 0)
	require.Equal(t, 2000, s.Stats().Queues)
	sc.check(t, s, 1)
	sc.fill(t, s)
	sc.check(t, s, 2)
	require.LessOrEqual(t, sc.fs.mostMapped, limit+slack)
	require.LessOrEqual(t, sc.fs.mostOpen, limit+slack+4)
	closeStore(t, s)

	s = openStore(t, sc.dir, sc.cfg)
	put(t, s, "topic-3", 5, "3/5")
	require.Equal(t, []string{"3/5", "3/5", "3/5"}, bodies(t, s, "topic-3", 5))
	closeStore(t, s)
	ledger, err := os.Stat(filepath.Join(sc.dir, ownDir, s.ledger.file))
	require.NoError(t, err)
	require.Less(t, ledger.Size(), int64(2*2000*(ledgerEntrySize+8)+ledgerSlack+100))

	require.NoError(t, os.WriteFile(filepath.Join(sc.dir, abortFile), nil, 0o600))
	*sc.fs = countFS{FS: segment.OS}
	s = openStore(t, sc.dir, sc.cfg)
	require.False(t, s.Recovery().Clean)
	require.True(t, s.Recovery().FromPoint)
	require.LessOrEqual(t, sc.fs.mostMapped, limit+slack)
	require.Equal(t, message.QueueOffset(3), s.MaxOffsetInQueue("topic-3", 5))
	require.Equal(t, message.QueueOffset(2), s.MaxOffsetInQueue("topic-3", 6))
	closeStore(t, s)
}
