package commitlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pocketmq/pocketmq/internal/mmap"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errInjected = errors.New("injected failure")

// clock is a wall clock that moves only by hand.
type clock struct {
	mu sync.Mutex
	ms int64
}

func (c *clock) set(ms int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ms = ms
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.UnixMilli(c.ms)
}

// config is what most tests use: small files in a fresh directory, which are not
// synced. At the end of the test no mapping may be left.
func config(t *testing.T, staged bool) Config {
	t.Helper()
	before := mmap.Live()
	t.Cleanup(func() { require.Equal(t, before, mmap.Live(), "mappings left") })
	c := &clock{ms: 1_700_000_000_000}
	return Config{FS: &faultFS{FS: segment.OS, noSync: true}, Dir: filepath.Join(t.TempDir(), "log"), FileSize: 1024, Staged: staged, Now: c.now}
}

// bothModes runs the test with and without staging.
func bothModes(t *testing.T, test func(t *testing.T, staged bool)) {
	t.Run("direct", func(t *testing.T) { test(t, false) })
	t.Run("staged", func(t *testing.T) { test(t, true) })
}

// load opens the log, to be closed at the end of the test.
func load(t *testing.T, cfg Config) *Log {
	t.Helper()
	l, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// start opens the log, repairs it like a store after a crash, and starts it.
func start(t *testing.T, cfg Config) *Log {
	t.Helper()
	l := load(t, cfg)
	found, err := l.Recover(context.Background(), RecoverConfig{From: l.MinOffset()})
	require.NoError(t, err)
	_, err = l.Repair(found.End, found.End, nil)
	require.NoError(t, err)
	l.Start(found.End, found.LastTime)
	return l
}

// msg returns a message whose record takes size bytes, filled with fill.
func msg(size int, fill byte) *message.MessageExt {
	m := &message.MessageExt{Message: message.Message{Topic: "T"}, QueueID: 3}
	m.Body = bytes.Repeat([]byte{fill}, size-m.RecordSize())
	return m
}

func add(t *testing.T, l *Log, c *Counter, size int, fill byte) Placement {
	t.Helper()
	p, err := l.Append(context.Background(), msg(size, fill), c)
	require.NoError(t, err)
	return p
}

// build writes records of the given sizes, filled with A, B and so on, and
// closes the log.
func build(t *testing.T, cfg Config, sizes ...int) []Placement {
	t.Helper()
	l := start(t, cfg)
	c := NewCounter(0)
	var placed []Placement
	for i, size := range sizes {
		placed = append(placed, add(t, l, c, size, byte('A'+i)))
	}
	require.NoError(t, l.Flush())
	require.NoError(t, l.Close())
	return placed
}

// repeat returns n sizes.
func repeat(n, size int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = size
	}
	return sizes
}

// scanned tells each record as "offset:queue offset:first byte of the body".
func scanned(t *testing.T, l *Log) []string {
	t.Helper()
	got := []string{}
	end, err := l.Scan(l.MinOffset(), l.Visible(), func(r *message.DispatchRequest) error {
		got = append(got, describe(r))
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, l.Visible(), end)
	return got
}

func describe(r *message.DispatchRequest) string {
	return fmt.Sprintf("%d:%d:%c", r.LogOffset(), r.QueueOffset(), append(r.Body(), '-')[0])
}

// content maps the name of each file to its bytes.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		files[e.Name()] = string(b)
	}
	return files
}

func pathOf(cfg Config, off int64) string {
	return filepath.Join(cfg.Dir, segment.FileName(off-off%cfg.FileSize))
}

// poke replaces bytes of the closed or live log.
func poke(t *testing.T, cfg Config, off int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(pathOf(cfg, off), os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(b, off%cfg.FileSize)
	require.NoError(t, errors.Join(err, f.Close()))
}

func peek(t *testing.T, cfg Config, off int64, n int) []byte {
	t.Helper()
	b, err := os.ReadFile(pathOf(cfg, off))
	require.NoError(t, err)
	return b[off%cfg.FileSize:][:n]
}

// flip changes one bit of a byte.
func flip(t *testing.T, cfg Config, off int64) {
	t.Helper()
	poke(t, cfg, off, []byte{peek(t, cfg, off, 1)[0] ^ 8})
}

// header is the start of a record: size and magic.
func header(size, magic uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, size), magic)
}

// faultFS hands calls on to the real file system after asking fail.
type faultFS struct {
	segment.FS
	mu   sync.Mutex
	fail func(op, path string) error

	noSync bool // for tests that make many files and are not about syncs
}

func newFaultFS() *faultFS { return &faultFS{FS: segment.OS} }

func (f *faultFS) set(fail func(op, path string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

// failFrom makes the n-th call from now, counted from 1, and all after it fail.
func (f *faultFS) failFrom(n int) {
	f.set(func(string, string) error {
		n--
		if n <= 0 {
			return errInjected
		}
		return nil
	})
}

func (f *faultFS) step(op, path string) error {
	f.mu.Lock()
	fail := f.fail
	f.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(op, path) // may block
}

func (f *faultFS) handle(h segment.Handle, err error, path string) (segment.Handle, error) {
	if err != nil {
		return nil, err
	}
	return &faultHandle{Handle: h, fs: f, path: path}, nil
}

func (f *faultFS) Create(path string, perm os.FileMode) (segment.Handle, error) {
	if err := f.step("create", path); err != nil {
		return nil, err
	}
	h, err := f.FS.Create(path, perm)
	return f.handle(h, err, path)
}

func (f *faultFS) CreateSized(path string, perm os.FileMode, size int64) (segment.Handle, error) {
	if err := f.step("create", path); err != nil {
		return nil, err
	}
	h, err := f.FS.CreateSized(path, perm, size)
	return f.handle(h, err, path)
}

func (f *faultFS) Open(path string) (segment.Handle, error) {
	h, err := f.FS.Open(path)
	return f.handle(h, err, path)
}

func (f *faultFS) Remove(path string) error {
	if err := f.step("remove", path); err != nil {
		return err
	}
	return f.FS.Remove(path)
}

func (f *faultFS) SyncDir(dir string) error {
	if err := f.step("syncdir", dir); err != nil || f.noSync {
		return err
	}
	return f.FS.SyncDir(dir)
}

type faultHandle struct {
	segment.Handle
	fs   *faultFS
	path string
}

func (h *faultHandle) WriteAt(p []byte, off int64) (int, error) {
	if err := h.fs.step("write", h.path); err != nil {
		n, _ := h.Handle.WriteAt(p[:len(p)/2], off) // half of it is there, as after a real failure
		return n, err
	}
	return h.Handle.WriteAt(p, off)
}

func (h *faultHandle) Allocate(off, n int64) error {
	if err := h.fs.step("allocate", h.path); err != nil {
		return err
	}
	return h.Handle.Allocate(off, n)
}

func (h *faultHandle) Sync() error {
	if err := h.fs.step("sync", h.path); err != nil || h.fs.noSync {
		return err
	}
	return h.Handle.Sync()
}

// failing makes op fail with err.
func failing(op string, err error) func(string, string) error {
	return func(o, _ string) error {
		if o == op {
			return err
		}
		return nil
	}
}

// Next is the number that the queue's next message will get.
func (l *Log) Next(c *Counter) message.QueueOffset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.next
}
