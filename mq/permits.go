package mq

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/pocketmq/pocketmq/message"
)

// permits limit the sends that are under way, by number and by bytes. Who comes
// first is served first: a large message is not overtaken by small ones for ever.
type permits struct {
	mu       sync.Mutex
	sends    int64 // free
	bytes    int64 // free
	maxBytes int64
	waiting  []*permitWaiter
	closed   bool
	granted  sync.WaitGroup // sends that were let through and did not finish
}

type permitWaiter struct {
	bytes int64
	ready chan error // gets nil, or why not
}

func newPermits(sends int, bytes int64) *permits {
	return &permits{sends: int64(sends), bytes: bytes, maxBytes: bytes}
}

// cost is what a send of so many bytes takes: one that is larger than
// everything takes everything.
func (p *permits) cost(bytes int64) int64 { return min(max(bytes, 1), p.maxBytes) }

// acquire waits for room. What it lets through calls release and then finish.
func (p *permits) acquire(ctx context.Context, bytes int64) error {
	w := &permitWaiter{bytes: p.cost(bytes)}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return message.ErrClosed
	}
	if len(p.waiting) == 0 && p.take(w.bytes) {
		p.mu.Unlock()
		return nil
	}
	w.ready = make(chan error, 1)
	p.waiting = append(p.waiting, w)
	p.mu.Unlock()
	select {
	case err := <-w.ready:
		return err
	case <-ctx.Done():
		if p.leave(w) {
			return fmt.Errorf("%w: %w", ErrTooManySends, ctx.Err())
		}
		return <-w.ready
	}
}

// take takes the room of a send if it is there. The mutex is held.
func (p *permits) take(bytes int64) bool {
	if p.sends < 1 || p.bytes < bytes {
		return false
	}
	p.sends--
	p.bytes -= bytes
	p.granted.Add(1)
	return true
}

// leave gives up a place in the row; not if it was served just now.
func (p *permits) leave(w *permitWaiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting, w)
	if i < 0 {
		return false
	}
	p.waiting = slices.Delete(p.waiting, i, i+1)
	p.serve()
	return true
}

// release gives room back.
func (p *permits) release(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sends++
	p.bytes += p.cost(bytes)
	p.serve()
}

// serve lets through those who are next. The mutex is held.
func (p *permits) serve() {
	for len(p.waiting) > 0 && p.take(p.waiting[0].bytes) {
		p.waiting[0].ready <- nil
		p.waiting = slices.Delete(p.waiting, 0, 1)
	}
}

// finish is the end of a send that was let through, its callback included.
func (p *permits) finish() { p.granted.Done() }

// close refuses those who wait, and waits for those who were let through.
func (p *permits) close() {
	p.mu.Lock()
	p.closed = true
	for _, w := range p.waiting {
		w.ready <- message.ErrClosed
	}
	p.waiting = nil
	p.mu.Unlock()
	p.granted.Wait()
}
