package consumequeue

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pocketmq/pocketmq/internal/mmap"
	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errInjected = errors.New("injected failure")

// fileUnits is how many units a file holds in most tests.
const fileUnits = 10

// config is for small files in a fresh directory, which are not synced. At the
// end of the test no mapping may be left.
func config(t *testing.T) Config {
	t.Helper()
	before := mmap.Live()
	t.Cleanup(func() { require.Equal(t, before, mmap.Live(), "mappings left") })
	return Config{FS: &faultFS{FS: segment.OS, noSync: true}, Dir: filepath.Join(t.TempDir(), "queues"), FileSize: fileUnits * UnitSize}
}

// open opens the table, to be closed at the end of the test.
func open(t *testing.T, cfg Config) *Table {
	t.Helper()
	table, err := OpenTable(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, table.Close()) })
	return table
}

// queue opens the table and its queue T/0.
func queue(t *testing.T, cfg Config) *Queue {
	t.Helper()
	q, err := open(t, cfg).Make("T", 0)
	require.NoError(t, err)
	return q
}

// find returns the queue, loaded, nil if there is none.
func find[T string | []byte](t *testing.T, table *Table, topic T, id int32) *Queue {
	t.Helper()
	q, err := Find(table, topic, id)
	require.NoError(t, err)
	return q
}

// all returns the queues, loaded, by topic and id.
func all(t *testing.T, table *Table) []*Queue {
	t.Helper()
	queues := table.All()
	slices.SortFunc(queues, func(a, b *Queue) int { return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.ID, b.ID)) })
	for _, q := range queues {
		require.NoError(t, q.Load())
	}
	return queues
}

// unit is what message n of a queue has in most tests: records of 100 bytes,
// one after the other from 1000 on.
func unit(n int) Unit {
	return Unit{LogOffset: message.LogOffset(1000 + 100*n), Size: 100, TagsCode: int64(n)}
}

func put(t *testing.T, q *Queue, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		require.NoError(t, q.Put(message.QueueOffset(n), unit(n), false))
	}
}

// units reads all units in [from, Max).
func units(t *testing.T, q *Queue, from message.QueueOffset) []Unit {
	t.Helper()
	all := []Unit{}
	var buf [7]Unit
	for from < q.Max() {
		n, err := q.Read(from, buf[:])
		require.NoError(t, err)
		require.Positive(t, n)
		all = append(all, buf[:n]...)
		from += message.QueueOffset(n)
	}
	return all
}

func wanted(from, to int) []Unit {
	all := []Unit{}
	for n := from; n < to; n++ {
		all = append(all, unit(n))
	}
	return all
}

type bounds struct{ min, max message.QueueOffset }

func boundsOf(q *Queue) bounds { return bounds{q.Min(), q.Max()} }

// content maps each file below dir to its bytes.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(rel)] = string(b)
		return err
	}))
	return files
}

// write puts a file of the queue T/0 there.
func write(t *testing.T, cfg Config, base int64, data []byte) string {
	t.Helper()
	path := filepath.Join(cfg.Dir, "T", "0", segment.FileName(base))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// file returns a file's worth of bytes that begins with the units.
func file(units ...Unit) []byte {
	b := make([]byte, fileUnits*UnitSize)
	for i, u := range units {
		u.put(b[i*UnitSize:])
	}
	return b
}

// faultFS hands calls on to the real file system after asking fail.
type faultFS struct {
	segment.FS
	noSync bool

	mu   sync.Mutex
	fail func(op string) error
}

func (f *faultFS) set(fail func(op string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func (f *faultFS) step(op string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail == nil {
		return nil
	}
	return f.fail(op)
}

// failing makes the n-th call of op, counted from 1, and all after it fail.
func failing(op string, n int, err error) func(string) error {
	return func(o string) error {
		if o == op {
			n--
		}
		if o == op && n <= 0 {
			return err
		}
		return nil
	}
}

func (f *faultFS) Create(path string, perm os.FileMode) (segment.Handle, error) {
	if err := f.step("create"); err != nil {
		return nil, err
	}
	h, err := f.FS.Create(path, perm)
	if err != nil {
		return nil, err
	}
	return &faultHandle{Handle: h, fs: f}, nil
}

func (f *faultFS) CreateSized(path string, perm os.FileMode, size int64) (segment.Handle, error) {
	if err := f.step("create"); err != nil {
		return nil, err
	}
	h, err := f.FS.CreateSized(path, perm, size)
	if err != nil {
		return nil, err
	}
	return &faultHandle{Handle: h, fs: f}, nil
}

func (f *faultFS) Open(path string) (segment.Handle, error) {
	if err := f.step("open"); err != nil {
		return nil, err
	}
	h, err := f.FS.Open(path)
	if err != nil {
		return nil, err
	}
	return &faultHandle{Handle: h, fs: f}, nil
}

func (f *faultFS) ReadDir(dir string) ([]os.DirEntry, error) {
	if err := f.step("readdir"); err != nil {
		return nil, err
	}
	return f.FS.ReadDir(dir)
}

func (f *faultFS) Remove(path string) error {
	if err := f.step("remove"); err != nil {
		return err
	}
	return f.FS.Remove(path)
}

func (f *faultFS) SyncDir(dir string) error {
	if err := f.step("syncdir"); err != nil || f.noSync {
		return err
	}
	return f.FS.SyncDir(dir)
}

type faultHandle struct {
	segment.Handle
	fs *faultFS
}

func (h *faultHandle) WriteAt(p []byte, off int64) (int, error) {
	if err := h.fs.step("write"); err != nil {
		return 0, err
	}
	return h.Handle.WriteAt(p, off)
}

func (h *faultHandle) Allocate(off, n int64) error {
	if err := h.fs.step("allocate"); err != nil {
		return err
	}
	return h.Handle.Allocate(off, n)
}

func (h *faultHandle) Sync() error {
	if err := h.fs.step("sync"); err != nil || h.fs.noSync {
		return err
	}
	return h.Handle.Sync()
}
