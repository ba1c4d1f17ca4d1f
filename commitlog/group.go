package commitlog

import (
	"context"
	"sync"
	"time"
)

// group collects what one sync will put on disk.
type group struct {
	fileSize int64

	buf   []byte
	parts []part // of buf, in log order
	end   int64  // log offset after the last placement, blanks included

	done chan struct{} // closed after the sync, or its failure
	err  error         // set before done is closed

	watched sync.Once     // guards what follows
	late    chan struct{} // closed when the first one who waits has waited too long
	timer   *time.Timer   // closes late
}

// part is a run of bytes for one place in one file.
type part struct {
	offset int64 // log offset
	size   int
}

// groupMax is how many bytes are collected before appends wait for the sync
// that is under way. A single placement may be larger.
const groupMax = 4 << 20

func newGroup(fileSize int64, buf []byte) *group {
	return &group{fileSize: fileSize, buf: buf[:0], done: make(chan struct{})}
}

func (g *group) full(size int) bool {
	return len(g.buf) > 0 && len(g.buf)+size > groupMax
}

// extend gives the memory for size bytes at the log offset. A part never
// crosses from one file into the next.
func (g *group) extend(offset int64, size int) []byte {
	g.buf = grow(g.buf, size)
	if n := len(g.parts); n > 0 && offset%g.fileSize != 0 && g.parts[n-1].offset+int64(g.parts[n-1].size) == offset {
		g.parts[n-1].size += size
	} else {
		g.parts = append(g.parts, part{offset, size})
	}
	return g.buf[len(g.buf)-size:]
}

// wait returns when the group's sync has ended, with its error, or ctx's.
func (g *group) wait(ctx context.Context) error {
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish wakes all who wait.
func (g *group) finish(err error) {
	g.err = err
	close(g.done)
	g.watched.Do(func() {})
	if g.timer != nil {
		g.timer.Stop()
	}
}

// overdue is closed when the first caller has waited for timeout: a timer for each
// one who waits would cost more than all else about waiting.
func (g *group) overdue(timeout time.Duration) <-chan struct{} {
	g.watched.Do(func() {
		g.late = make(chan struct{})
		g.timer = time.AfterFunc(timeout, func() { close(g.late) })
	})
	return g.late
}
