package indexfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	forever   = int64(1<<63 - 1)
	startTime = int64(1_650_000_000_123) // store time of a test's first record
)

// world is an index and the log that it was made from.
type world struct {
	t     testing.TB
	cfg   Config
	fs    *failFS
	index *Index
	log   map[message.LogOffset]message.DispatchRequest
	order []message.LogOffset
	end   message.LogOffset
	clock int64 // ms
}

func newWorld(t testing.TB, slots, entries int32) *world {
	t.Helper()
	w := &world{t: t, fs: &failFS{FS: segment.OS}, log: make(map[message.LogOffset]message.DispatchRequest), clock: startTime}
	w.cfg = Config{
		FS: w.fs, Dir: filepath.Join(t.TempDir(), "index"), Slots: slots, Entries: entries, Location: time.UTC,
		Now: func() time.Time { return time.UnixMilli(w.clock) },
	}
	w.open()
	t.Cleanup(func() {
		require.NoError(t, w.index.Close())
		require.Zero(t, w.fs.open(), "files left open")
	})
	return w
}

func (w *world) open() {
	w.t.Helper()
	x, err := Open(w.cfg)
	require.NoError(w.t, err)
	w.index = x
}

// reopen closes and opens the index, as a process does that comes back.
func (w *world) reopen() {
	w.t.Helper()
	require.NoError(w.t, w.index.Close())
	w.open()
}

// record makes the record that follows in the log.
func (w *world) record(topic, unique, keys string, flag message.SysFlag) *message.DispatchRequest {
	w.t.Helper()
	var pairs []string
	if keys != "" {
		pairs = append(pairs, message.PropertyKeys, keys)
	}
	if unique != "" {
		pairs = append(pairs, message.PropertyUniqueKey, unique)
	}
	props, err := message.NewProperties(pairs...)
	require.NoError(w.t, err)
	m := message.MessageExt{Message: message.Message{Topic: topic, Properties: props}, SysFlag: flag}
	rec := make([]byte, m.RecordSize())
	m.PutRecord(rec)
	message.PlaceRecord(rec, 0, w.end, w.clock)
	v, kind, err := message.ReadRecord(rec)
	require.NoError(w.t, err)
	require.Equal(w.t, message.KindRecord, kind)
	r := message.DispatchRequest{View: v, Marks: v.Marks()}
	w.log[w.end] = r
	w.order = append(w.order, w.end)
	w.end += message.LogOffset(len(rec))
	return &r
}

// put makes a record with those words as KEYS and indexes it.
func (w *world) put(topic, keys string) message.LogOffset {
	w.t.Helper()
	r := w.record(topic, "", keys, 0)
	require.NoError(w.t, w.index.Put(r))
	return r.LogOffset()
}

// feed puts every record from NextLogOffset on, as a store does after Open.
func (w *world) feed() {
	w.t.Helper()
	from := w.index.NextLogOffset()
	for _, off := range w.order {
		if off >= from {
			r := w.log[off]
			require.NoError(w.t, w.index.Put(&r))
		}
	}
}

// match is what a store gives to Query.
func (w *world) match(topic, key string) func(message.LogOffset) (int64, bool) {
	return func(off message.LogOffset) (int64, bool) {
		r, ok := w.log[off]
		return matches(r, ok, topic, key)
	}
}

func matches(r message.DispatchRequest, ok bool, topic, key string) (int64, bool) {
	if !ok || string(r.Topic()) != topic {
		return 0, false
	}
	m := r.Message()
	return m.StoreTimestamp, m.UniqueKey() == key || slices.Contains(m.Keys(), key)
}

func (w *world) query(topic, key string) []message.LogOffset {
	w.t.Helper()
	return w.within(topic, key, 0, forever)
}

func (w *world) within(topic, key string, begin, end int64) []message.LogOffset {
	w.t.Helper()
	got, err := query(w.index, topic, key, DefaultMaxResults, begin, end, w.match(topic, key))
	require.NoError(w.t, err)
	return got
}

func (w *world) raw(topic, key string) []message.LogOffset {
	w.t.Helper()
	raw, err := w.index.QueryRaw(topic, key, DefaultMaxResults, 0, forever)
	require.NoError(w.t, err)
	return raw.LogOffsets
}

// images returns the contents of the files by order of name.
func images(t testing.TB, dir string) [][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out [][]byte
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		out = append(out, b)
	}
	return out
}

func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func offsets(offs ...message.LogOffset) []message.LogOffset { return offs }

// failFS hands each call on to the real filesystem, after asking fail, which sees
// the name of the operation and the path and may answer an error instead. Syncs
// are only counted.
type failFS struct {
	segment.FS
	mu      sync.Mutex
	fail    func(op, path string) error
	calls   []string
	handles int
}

func (f *failFS) set(fail func(op, path string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail, f.calls = fail, nil
}

// failOps makes the operations of those names fail.
func (f *failFS) failOps(err error, ops ...string) {
	f.set(func(op, _ string) error {
		if slices.Contains(ops, op) {
			return err
		}
		return nil
	})
}

func (f *failFS) step(op, path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, op)
	if f.fail == nil {
		return nil
	}
	return f.fail(op, path)
}

func (f *failFS) did(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Count(strings.Join(f.calls, " ")+" ", op+" ")
}

func (f *failFS) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.handles
}

func (f *failFS) Create(path string, perm os.FileMode) (segment.Handle, error) {
	if err := f.step("create", path); err != nil {
		return nil, err
	}
	return f.wrap(path)(f.FS.Create(path, perm))
}

func (f *failFS) Open(path string) (segment.Handle, error) {
	if err := f.step("open", path); err != nil {
		return nil, err
	}
	return f.wrap(path)(f.FS.Open(path))
}

func (f *failFS) OpenRead(path string) (segment.Handle, error) {
	if err := f.step("openread", path); err != nil {
		return nil, err
	}
	return f.wrap(path)(f.FS.OpenRead(path))
}

func (f *failFS) Remove(path string) error {
	if err := f.step("remove", path); err != nil {
		return err
	}
	return f.FS.Remove(path)
}

func (f *failFS) MkdirAll(dir string, perm os.FileMode) error {
	if err := f.step("mkdirall", dir); err != nil {
		return err
	}
	return f.FS.MkdirAll(dir, perm)
}

func (f *failFS) SyncDir(dir string) error {
	return f.step("syncdir", dir)
}

func (f *failFS) wrap(path string) func(segment.Handle, error) (segment.Handle, error) {
	return func(h segment.Handle, err error) (segment.Handle, error) {
		if err != nil {
			return nil, err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.handles++
		return &failHandle{h, f, path}, nil
	}
}

type failHandle struct {
	segment.Handle
	fs   *failFS
	path string
}

func (h *failHandle) ReadAt(p []byte, off int64) (int, error) {
	if err := h.fs.step("readat", h.path); err != nil {
		return 0, err
	}
	return h.Handle.ReadAt(p, off)
}

func (h *failHandle) Truncate(size int64) error {
	if err := h.fs.step("truncate", h.path); err != nil {
		return err
	}
	return h.Handle.Truncate(size)
}

func (h *failHandle) Allocate(off, n int64) error {
	if err := h.fs.step("allocate", h.path); err != nil {
		return err
	}
	return h.Handle.Allocate(off, n)
}

func (h *failHandle) Map(length int64) (segment.Mapping, error) {
	if err := h.fs.step("map", h.path); err != nil {
		return nil, err
	}
	return h.Handle.Map(length)
}

func (h *failHandle) Sync() error {
	return h.fs.step("sync", h.path)
}

func (h *failHandle) Close() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	h.fs.handles--
	return h.Handle.Close()
}

// ask is a Query that touches nothing.
func ask(x *Index, topic, key string, maxNum int, begin, end int64, take func(message.LogOffset) bool) error {
	return x.Query(Query{Topic: topic, Key: key, MaxNum: maxNum, Begin: begin, End: end, Take: take})
}

// query returns the records of a Query, ascending. match says when a record was
// stored, and whether it has topic and key.
func query(x *Index, topic, key string, maxNum int, begin, end int64,
	match func(message.LogOffset) (storeTime int64, ok bool)) (found []message.LogOffset, err error) {
	err = ask(x, topic, key, maxNum, begin, end, func(off message.LogOffset) bool {
		at, ok := match(off)
		if !ok || at < begin || at > end || slices.Contains(found, off) {
			return false
		}
		found = append(found, off)
		return true
	})
	slices.Sort(found)
	return found, err
}
