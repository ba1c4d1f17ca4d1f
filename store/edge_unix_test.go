//go:build unix

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pocketmq/pocketmq/internal/segment"
	"github.com/pocketmq/pocketmq/message"
)

// TestEdgeConfigStaysWithinItsDisk puts eight times as much as a store of
// EdgeConfig may take, into thirty queues, with keys. After each operation that
// can change what the directory takes, all of its blocks are counted, those of
// the directories too.
func TestEdgeConfigStaysWithinItsDisk(t *testing.T) {
	const most, queues, size = 8 << 20, 30, 16_000
	newest := EdgeConfig() // where new messages are worth more than old ones
	newest.WhenFull, newest.Retention.Groups = DropOldest, IgnoreGroups
	for name, cfg := range map[string]Config{"rejects": EdgeConfig(), "drops the oldest": newest} {
		for _, mode := range bothModes {
			t.Run(name+" "+mode.String(), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "store")
				blocks := &blocksFS{FS: segment.OS, dir: dir}
				cfg.Flush, cfg.fs = mode, blocks
				s := openStore(t, dir, cfg)
				stored := 0
				for stored < 8*most {
					m := inner("t", int32(stored/size%queues), string(make([]byte, size)))
					m.Properties = message.Properties(fmt.Sprintf("KEYS\x01key-%d\x02TAGS\x01t", stored))
					m.NoWait = true // for the sync
					_, err := s.PutMessage(t.Context(), m)
					if errors.Is(err, message.ErrDiskFull) && cfg.WhenFull == RejectWhenFull {
						break
					}
					require.NoError(t, err)
					stored += size
				}
				dispatched(t, s)
				indexed(t, s)
				require.NoError(t, s.Flush(t.Context()))
				closeStore(t, s)
				s = openStore(t, dir, cfg)
				require.NoError(t, s.Flush(t.Context()))
				closeStore(t, s)
				blocks.look()
				require.NoError(t, blocks.err)
				t.Logf("%d bytes put, %d on disk at most", stored, blocks.most)
				require.LessOrEqual(t, blocks.most, int64(most))
				require.Greater(t, stored, most/3, "what it is good for")
			})
		}
	}
}

// blocksFS notes how many bytes the blocks of all that is in dir took at most.
type blocksFS struct {
	segment.FS

	dir string

	mu   sync.Mutex
	most int64
	err  error
}

// after looks when op, which may change how many blocks there are, is done.
// Nothing else is done meanwhile.
func (b *blocksFS) after(op func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	op()
	n, err := usedBytes(b.dir)
	b.most, b.err = max(b.most, n), errors.Join(b.err, err)
}

func (b *blocksFS) look() { b.after(func() {}) }

func (b *blocksFS) MkdirAll(dir string, perm os.FileMode) (err error) {
	b.after(func() { err = b.FS.MkdirAll(dir, perm) })
	return err
}

func (b *blocksFS) Mkdir(dir string, perm os.FileMode) (err error) {
	b.after(func() { err = b.FS.Mkdir(dir, perm) })
	return err
}

func (b *blocksFS) Create(path string, perm os.FileMode) (segment.Handle, error) {
	return b.handle(func() (segment.Handle, error) { return b.FS.Create(path, perm) })
}

func (b *blocksFS) CreateSized(path string, perm os.FileMode, size int64) (segment.Handle, error) {
	return b.handle(func() (segment.Handle, error) { return b.FS.CreateSized(path, perm, size) })
}

func (b *blocksFS) Open(path string) (segment.Handle, error) {
	return b.handle(func() (segment.Handle, error) { return b.FS.Open(path) })
}

func (b *blocksFS) handle(open func() (segment.Handle, error)) (h segment.Handle, err error) {
	b.after(func() { h, err = open() })
	if err != nil {
		return nil, err
	}
	return &blocksHandle{h, b}, nil
}

func (b *blocksFS) Remove(path string) (err error) {
	b.after(func() { err = b.FS.Remove(path) })
	return err
}

func (b *blocksFS) Rename(from, to string) (err error) {
	b.after(func() { err = b.FS.Rename(from, to) })
	return err
}

type blocksHandle struct {
	segment.Handle

	fs *blocksFS
}

func (h *blocksHandle) WriteAt(p []byte, off int64) (n int, err error) {
	h.fs.after(func() { n, err = h.Handle.WriteAt(p, off) })
	return n, err
}

func (h *blocksHandle) Truncate(size int64) (err error) {
	h.fs.after(func() { err = h.Handle.Truncate(size) })
	return err
}

func (h *blocksHandle) Allocate(off, n int64) (err error) {
	h.fs.after(func() { err = h.Handle.Allocate(off, n) })
	return err
}

// usedBytes is what the blocks of dir and everything below it take.
func usedBytes(dir string) (n int64, err error) {
	err = filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // not made yet
			return nil
		case err != nil:
			return err
		}
		n += info.Sys().(*syscall.Stat_t).Blocks * 512
		return nil
	})
	return n, err
}
