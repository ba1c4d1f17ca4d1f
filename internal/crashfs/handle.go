package crashfs

import (
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/pocketmq/pocketmq/internal/segment"
)

// What the model counts in.
const (
	pageSize   = 4096
	sectorSize = 512
)

// handle is an open file.
type handle struct {
	segment.Handle
	fs       *FS
	node     *node
	path     string
	readOnly bool
}

func (f *FS) handle(h segment.Handle, n *node, path string) (segment.Handle, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.live == nil {
		live, err := os.Open(path)
		if err != nil {
			return nil, errors.Join(err, h.Close())
		}
		n.live = live
	}
	return &handle{Handle: h, fs: f, node: n, path: path}, nil
}

// current returns what the process sees. The caller holds fs.mu.
func (n *node) current() ([]byte, error) {
	if n.live == nil {
		return n.durable, nil
	}
	info, err := n.live.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, info.Size())
	if _, err := n.live.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if bytes.Equal(b, n.durable) {
		return n.durable, nil
	}
	return b, nil
}

func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	if err := h.fs.step(OpReadAt, h.path); err != nil {
		return 0, err
	}
	return h.Handle.ReadAt(p, off)
}

// WriteAt that is told to fail writes the first half.
func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	fail := h.fs.step(OpWriteAt, h.path)
	if fail != nil {
		p = p[:len(p)/2]
	}
	n, err := h.Handle.WriteAt(p, off)
	if n > 0 && !h.readOnly {
		h.node.rewrote(h.fs, off, int64(n))
	}
	if fail != nil {
		return n, fail
	}
	return n, err
}

// rewrote notes that pages are to be written again though a Sync lost them.
func (n *node) rewrote(f *FS, off, size int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.lost == nil {
		return
	}
	for p := off / pageSize; p*pageSize < off+size; p++ {
		n.rewritten[p] = true
	}
}

func (h *handle) Size() (int64, error) {
	if err := h.fs.step(OpSize, h.path); err != nil {
		return 0, err
	}
	return h.Handle.Size()
}

func (h *handle) Truncate(size int64) error {
	if err := h.fs.step(OpTruncate, h.path); err != nil {
		return err
	}
	return h.Handle.Truncate(size)
}

func (h *handle) Allocate(off, n int64) error {
	if err := h.fs.step(OpAllocate, h.path); err != nil {
		return err
	}
	return h.Handle.Allocate(off, n)
}

func (h *handle) Map(length int64) (segment.Mapping, error) {
	if err := h.fs.step(OpMap, h.path); err != nil {
		return nil, err
	}
	m, err := h.Handle.Map(length)
	if err != nil {
		return nil, err
	}
	return &mapping{m, h}, nil
}

// Sync makes what the process sees what is on disk.
func (h *handle) Sync() error {
	err := h.fs.step(OpSync, h.path)
	if h.readOnly || err == nil && h.fs.lies(OpSync, h.path) {
		return err
	}
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	return h.node.syncBytes(err)
}

// syncBytes is a sync of a file that fails with err, if it does. The caller holds fs.mu.
func (n *node) syncBytes(err error) error {
	now, readErr := n.current()
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	if err != nil {
		n.lost, n.rewritten = now, make(map[int64]bool)
		return err
	}
	n.durable = n.kept(now)
	return nil
}

// kept is what a Sync leaves on disk: now, but for the pages that an earlier
// one lost.
func (n *node) kept(now []byte) []byte {
	if n.lost == nil {
		return now
	}
	b := bytes.Clone(now)
	for off := int64(0); off < int64(len(b)); off += pageSize {
		p := page(b, off)
		if !n.rewritten[off/pageSize] && bytes.Equal(p, page(n.lost, off)) {
			clear(p)
			copy(p, page(n.durable, off))
		}
	}
	return b
}

// page returns the page of b at off, shorter at the end of b.
func page(b []byte, off int64) []byte {
	if off >= int64(len(b)) {
		return nil
	}
	return b[off:min(off+pageSize, int64(len(b)))]
}

func (h *handle) Lock() error {
	if err := h.fs.step(OpLock, h.path); err != nil {
		return err
	}
	return h.Handle.Lock()
}

func (h *handle) StillAt(path string) (bool, error) {
	if err := h.fs.step(OpStillAt, path); err != nil {
		return false, err
	}
	return h.Handle.StillAt(path)
}

// Close closes, and then may report an error, as close(2) does.
func (h *handle) Close() error {
	fail := h.fs.step(OpClose, h.path)
	return errors.Join(h.Handle.Close(), fail)
}

// mapping lets Populate and Unmap fail.
type mapping struct {
	segment.Mapping
	h *handle
}

func (m *mapping) Populate(off, n int64) error {
	if err := m.h.fs.step(OpPopulate, m.h.path); err != nil {
		return err
	}
	return m.Mapping.Populate(off, n)
}

// Unmap unmaps, and then may report an error.
func (m *mapping) Unmap() error {
	fail := m.h.fs.step(OpUnmap, m.h.path)
	return errors.Join(m.Mapping.Unmap(), fail)
}
