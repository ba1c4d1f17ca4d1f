package segment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// AheadConfig says how far the space before a writer is kept ready.
type AheadConfig struct {
	Window   int64 // most bytes to keep ready before the writer; at least one page. A slow writer gets less
	Populate bool  // also map its pages, writable, for writers that store through the mapping

	// Permit, if not nil, is asked before each new file, by the goroutine that would make it. Its error is that of the
	// attempt: one that matches ErrNoSpace stands for a full disk.
	Permit func() error
}

// Ahead prepares space before one writer, in a goroutine of its own: it allocates blocks in steps, fills them with zeros,
// so that a later sync need not change the file's metadata, and has the next file made, in another goroutine, before the
// window crosses the end of the last one. The writer stays below Ready and calls Advance after each write; only when Ready
// is too low does it Wait. The goroutines touch mappings through system calls only.
type Ahead struct {
	files *Files
	cfg   AheadConfig

	pos   atomic.Int64 // the writer's position
	ready atomic.Int64 // everything in [pos, ready) has blocks
	low   atomic.Int64 // the goroutine is wanted when pos reaches this
	renew atomic.Bool  // populate the whole window again

	kick chan struct{} // capacity 1: work is wanted
	stop chan struct{}
	done chan struct{}
	once sync.Once

	mu      sync.Mutex
	waiting []waiter // who needs least comes first

	span     int64      // owned by the goroutine: how much is kept ready now, up to cfg.Window
	warm     int64      // owned by the goroutine: populated up to here
	renewed  int64      // owned by the goroutine: the writer's position at the last renewal
	slow     bool       // owned by the goroutine: so little was written between two syncs that nothing is populated
	held     []heldFile // owned by the goroutine, then by Close: from the writer's file on
	making   *making    // owned by the goroutine, then by Close: nil when no file is being made
	closeErr error      // owned by once
}

// waiter is one call of Wait. result has room for the answer, so a caller who left holds nobody up.
type waiter struct {
	upTo   int64
	result chan error
}

// StartAhead starts preparing space for a writer at the absolute position pos. There is one Ahead at a time; Close
// it, or the files, to stop it. No byte at or after pos may be written before Ready covers it.
func (s *Files) StartAhead(pos int64, cfg AheadConfig) *Ahead {
	cfg.Window = max(cfg.Window, pageSize())
	a := &Ahead{
		files: s, cfg: cfg, warm: pos, renewed: pos, span: min(minSpan, cfg.Window),
		kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	a.pos.Store(pos)
	a.ready.Store(pos)
	a.low.Store(pos)
	s.mu.Lock()
	s.ahead = a
	s.mu.Unlock()
	go a.run()
	a.nudge()
	return a
}

// Ready returns the absolute offset up to which, from the writer's position, every byte has a block, in a file whose
// entry in the directory is durable. It only grows.
func (a *Ahead) Ready() int64 { return a.ready.Load() }

// minSpan is what is kept ready before a writer that has just begun, or is slow: what is populated is dirty, and the
// next sync writes it.
const minSpan = 64 << 10

// Advance tells the writer's new position. It costs two atomic operations as long as half a window is ready.
func (a *Ahead) Advance(pos int64) {
	a.Move(pos)
	a.Look()
}

// Move is Advance for a writer that knows a better moment for the goroutine to work, and calls Look then. Wait has it work
// at once.
func (a *Ahead) Move(pos int64) { a.pos.Store(pos) }

// Look has the goroutine work if less than half a window is ready.
func (a *Ahead) Look() {
	if a.pos.Load() >= a.low.Load() {
		a.nudge()
	}
}

// Renew says that a sync has write-protected the pages: what a writer of this speed will need soon is populated again.
func (a *Ahead) Renew() {
	if a.cfg.Populate {
		a.renew.Store(true)
		a.nudge()
	}
}

// Wait returns nil when Ready is at least upTo. Each call makes the goroutine try anew and returns the error of that
// try (ErrNoSpace on a full disk), so writing goes on by itself when there is space again. It also returns when ctx
// ends, with its error, and with ErrClosed after Close.
func (a *Ahead) Wait(ctx context.Context, upTo int64) error {
	if a.ready.Load() >= upTo {
		return nil
	}
	w := waiter{upTo: upTo, result: make(chan error, 1)}
	a.mu.Lock()
	a.waiting = append(a.waiting, w)
	for i := len(a.waiting) - 1; i > 0 && a.waiting[i-1].upTo > upTo; i-- {
		a.waiting[i-1], a.waiting[i] = a.waiting[i], a.waiting[i-1]
	}
	a.mu.Unlock()
	a.nudge()
	select {
	case err := <-w.result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for space at %d: %w", upTo, ctx.Err())
	case <-a.done:
		return fmt.Errorf("wait for space at %d: %w", upTo, ErrClosed)
	}
}

// Close stops the goroutine and removes the files it made that the writer never reached. Idempotent; the writer must
// have stopped.
func (a *Ahead) Close() error {
	a.once.Do(func() {
		close(a.stop)
		<-a.done
		_ = a.takeNext() // its error is nobody's
		a.closeErr = a.files.removeUnused(a)
	})
	return a.closeErr
}

func (a *Ahead) nudge() {
	select {
	case a.kick <- struct{}{}:
	default:
	}
}

func (a *Ahead) run() {
	defer close(a.done)
	for {
		select {
		case <-a.stop:
			return
		case <-a.kick:
			a.attempt()
		}
	}
}

// attempt serves those who wait, and then looks after the window. An error while working far ahead is nobody's error:
// who needs that space later makes another attempt.
func (a *Ahead) attempt() {
	a.measure()
	err := a.serve()
	if err == nil {
		err = a.extend(a.pos.Load() + a.span)
	}
	a.populate()
	if err == nil {
		err = a.makeNext()
	}
	a.aim(err)
}

// measure fits span to the writer: it doubles each time the writer uses half of it up or waits, and after a sync it is
// what was written since the one before.
func (a *Ahead) measure() {
	pos := a.pos.Load()
	if pos >= a.low.Load() || a.awaited() {
		a.span = min(2*a.span, a.cfg.Window)
		a.slow = false
	}
	if !a.renew.Swap(false) {
		return
	}
	written := pos - a.renewed
	a.span = min(max(written, minSpan), a.cfg.Window)
	a.slow = written < minSpan
	a.renewed, a.warm = pos, pos
}

func (a *Ahead) awaited() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting) > 0
}

// serve prepares what each of those who wait needs, answers them, and returns an error if one of them got one. Who needs
// least comes first, and does not wait for the rest.
func (a *Ahead) serve() (failed error) {
	a.mu.Lock()
	waiting := a.waiting
	a.waiting = nil
	a.mu.Unlock()
	for _, w := range waiting {
		err := a.extend(w.upTo)
		w.result <- err
		failed = errors.Join(failed, err)
	}
	return failed
}

// extend prepares space up to the absolute offset target, file by file, and raises ready after each.
func (a *Ahead) extend(target int64) error {
	for ready := a.ready.Load(); ready < target; ready = a.ready.Load() {
		select {
		case <-a.stop:
			return ErrClosed
		default:
		}
		f, err := a.fileFor(ready)
		if err != nil {
			return err
		}
		if err := f.Prepare(min(target, f.End()) - f.base); err != nil {
			return err
		}
		if err := a.fill(f, ready, min(roundUp(target, minSpan), f.base+f.Allocated())); err != nil {
			return err
		}
	}
	return nil
}

// fill makes [from, to) of f present, in pieces, so that nobody waits for all of it.
func (a *Ahead) fill(f *File, from, to int64) error {
	for from < to {
		end := min(to, from+int64(len(zeroChunk)))
		if err := f.fillCache(from-f.base, end-f.base); err != nil {
			return err
		}
		a.ready.Store(end)
		a.answer()
		if a.cfg.Populate && !a.slow {
			_ = f.Populate(from-f.base, end-from) // see populate
			if a.warm >= from {
				a.warm = end
			}
		}
		from = end
	}
	return nil
}

// answer tells those who wait for what is ready now.
func (a *Ahead) answer() {
	ready := a.ready.Load()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = slices.DeleteFunc(a.waiting, func(w waiter) bool {
		if w.upTo > ready {
			return false
		}
		w.result <- nil
		return true
	})
}

// fillCache writes zeros to [from, to), which nobody has written to and nobody may write to before it returns. Pages
// that come into the cache by large writes are larger units to the kernel than those that come by faults, and cost a
// fraction in a machine whose memory is slow to appear.
func (f *File) fillCache(from, to int64) error {
	for from < to {
		n, err := f.WriteAt(zeroChunk[:min(int64(len(zeroChunk)), to-from)], from)
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}

var zeroChunk [1 << 20]byte

// populate makes the part of span that is not yet present in memory. Errors do not matter: a page that is not present
// costs the writer a fault, in a block that exists.
func (a *Ahead) populate() {
	if !a.cfg.Populate || a.slow {
		return
	}
	pos := a.pos.Load()
	from, to := max(a.warm, pos), min(pos+a.span, a.ready.Load())
	for from < to {
		f := a.files.Acquire(from)
		if f == nil {
			break // removed or closed meanwhile
		}
		end := min(to, f.End())
		_ = f.Populate(from-f.base, end-from)
		f.Unpin()
		from = end
	}
	a.warm = max(a.warm, to)
}

// aim sets the position at which Advance calls again: when half of span is left, or, after a failure, when the
// writer has come a good deal nearer to the end, so that a full disk is not asked at every write.
func (a *Ahead) aim(failed error) {
	edge := a.ready.Load()
	if a.cfg.Populate && !a.slow {
		edge = min(edge, a.warm)
	}
	low := edge - a.span/2
	if next, due := a.nextFile(); next != 0 {
		low = min(low, due)
	}
	if failed != nil {
		low = max(low, a.pos.Load()+a.cfg.Window/16)
	}
	a.low.Store(low)
	if a.pos.Load() >= low && failed == nil {
		a.nudge() // the writer ran past it meanwhile and may not call again
	}
}
